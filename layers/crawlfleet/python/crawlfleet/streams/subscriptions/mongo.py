"""Keep subscriptions on the home node of MongoDB, and say what changed (SPEC.md D3, D5).

``subscriptions`` has one document a subscription, ``subscription_numbers`` one for all: the last
number, and the greatest one of an ended subscription that is forgotten. Each change takes its
number and is written in one transaction, and all of them write that one document: so they are
committed in the order of their numbers, and whoever reads sees all changes up to some number and
none beyond it. A reader reads what a majority has, which no failover takes back.

An ended subscription is forgotten by a later change, in its transaction, and by no TTL: so the
store knows up to which number it cannot say any more what has ended, and has a reader that knows
less begin afresh. How long ends are known is by the clock; that no reader misses one is not.
"""

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec
from pymongo import ASCENDING, IndexModel, ReturnDocument
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError
from pymongo.read_concern import ReadConcern

from crawlfleet.kernel.errors import (
    ConflictError,
    NotFoundError,
    QuotaExceededError,
    StoreUnavailableError,
)
from crawlfleet.kernel.mongo.connection import PART, Document, MongoNodes, border
from crawlfleet.kernel.mongo.transactions import TRANSACTION_SECONDS, in_transaction
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.streams.subscriptions.models import (
    ENDED_FOR_EACH,
    TOMBSTONE,
    Changes,
    Content,
    Seen,
    Subscription,
    subscription_id,
)

log = logging.getLogger(__name__)
R = TypeVar("R")

#: The setting that bounds a tenant's subscriptions.
LIMIT: Final = "ceilings.subscriptions"
#: Subscriptions of one answer to a reader.
PAGE: Final = 1_000
#: Ended subscriptions that one change forgets.
_FORGOTTEN: Final = 20
#: Attempts where somebody else empties the store, or forgets, at the same moment.
_TRIES: Final = 5
_NUMBERS: Final = "all"

_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder(Content).decode


class MongoSubscriptions:
    """Subscriptions of all tenants."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._is_indexed = False

    def put(
        self,
        tenant: str,
        biz: str,
        name: str,
        content: Content,
        now: datetime,
        *,
        expected: str | None = None,
        most: int,
    ) -> tuple[Subscription, bool]:
        """Keep a subscription; return it, and whether this call has changed anything.

        One that has that content already stays as it is, whatever was expected: so a call whose
        answer was lost may be repeated.

        Raises:
            ConflictError: it is not the ``expected`` revision any more; "" expects none to stand.
            QuotaExceededError: the tenant has ``most`` subscriptions, or has ended too many today.
        """
        key = subscription_id(tenant, biz, name)
        with border():
            standing = _standing(self._documents().find_one({"_id": key}))
        if standing is not None and standing.content == content:
            return standing, False

        def write(session: ClientSession, number: int) -> tuple[Subscription, bool]:
            documents = self._documents()
            found = documents.find_one({"_id": key}, session=session)
            before = _standing(found)
            if before is not None and before.content == content:
                return before, False
            _check_revision(name, before, expected)
            if before is None:
                _check_room(documents, session, tenant, most, is_known=found is not None)
            moment = from_ms(to_ms(now))
            made = Subscription(
                tenant=tenant,
                biz=biz,
                name=name,
                content=content,
                number=number,
                created_at=moment if before is None else before.created_at,
                changed_at=moment,
            )
            documents.replace_one({"_id": key}, _document(made), upsert=True, session=session)
            return made, True

        return self._change(write, now)

    def end(
        self, tenant: str, biz: str, name: str, now: datetime, *, expected: str | None = None
    ) -> Subscription:
        """End a subscription; return it as it stood.

        Raises:
            NotFoundError: there is none of that name.
            ConflictError: it is not the ``expected`` revision any more.
        """
        key = subscription_id(tenant, biz, name)

        def write(session: ClientSession, number: int) -> Subscription:
            documents = self._documents()
            before = _standing(documents.find_one({"_id": key}, session=session))
            if before is None:
                raise _unknown(name)
            _check_revision(name, before, expected)
            gone = {
                "tenant": tenant,
                "biz": biz,
                "name": name,
                "number": number,
                "ended_at": from_ms(to_ms(now)),
            }
            documents.replace_one({"_id": key}, gone, session=session)
            return before

        with border():
            if _standing(self._documents().find_one({"_id": key})) is None:
                raise _unknown(name)
        return self._change(write, now)

    def get(self, tenant: str, biz: str, name: str) -> Subscription | None:
        """Get one subscription, or None."""
        with border():
            key = subscription_id(tenant, biz, name)
            return _standing(self._documents().find_one({"_id": key}))

    def of_biz(self, tenant: str, biz: str, after: str | None, limit: int) -> list[Subscription]:
        """List the subscriptions of a biz by name, beginning after a name."""
        match: Document = {"tenant": tenant, "biz": biz, "ended_at": None}
        if after is not None:
            match["name"] = {"$gt": after}
        with border():
            found = self._documents().find(match).sort("name", ASCENDING).limit(limit)
            return list(_readable(found))

    def count(self, tenant: str) -> int:
        """Count the subscriptions of a tenant, over all of its bizs."""
        with border():
            return self._documents().count_documents({"tenant": tenant, "ended_at": None})

    def changed_since(self, seen: Seen | None, limit: int = PAGE) -> Changes:
        """Read what changed since a reader's position; None begins with all that stands.

        The answer is complete up to the position in it: nothing that is written later, by whomever,
        has a number so small. Where the store cannot say what has ended since, or is not the one
        that the position is of, the answer begins afresh.
        """
        with border():
            documents = self._read(self._documents())
            for _ in range(_TRIES):
                with documents.database.client.start_session() as session:
                    position = seen or self._beginning(session)
                    later = {"number": {"$gt": position.number}}
                    order = documents.find(later, session=session).sort("number", ASCENDING)
                    found = list(order.limit(limit))
                    # Read last, as what is forgotten in between is missing above.
                    numbers = self._numbers(session)
                if _follows(position, numbers):
                    return _changes(found, position, afresh=seen is None, limit=limit)
                seen = None
        raise StoreUnavailableError(PART, "subscriptions change too fast to be read")

    def _beginning(self, session: ClientSession) -> Seen:
        numbers = self._numbers(session)
        return Seen(numbers["store"], 0, numbers["number"])

    def _numbers(self, session: ClientSession) -> Document:
        found = self._read(self._nodes.control("subscription_numbers")).find_one(
            {"_id": _NUMBERS}, session=session
        )
        return found or {"store": "", "number": 0, "forgotten": 0}

    def _read(self, collection: Collection[Document]) -> Collection[Document]:
        return collection.with_options(read_concern=ReadConcern("majority"))

    def _change(self, write: Callable[[ClientSession, int], R], now: datetime) -> R:
        """Take the next number, write, and forget some that have ended long ago, or nothing."""

        def change(session: ClientSession) -> R | None:
            # First of all: whoever else changes anything waits here, or begins again.
            taken = numbers.find_one_and_update(
                {"_id": _NUMBERS},
                {"$inc": {"number": 1}},
                return_document=ReturnDocument.AFTER,
                session=session,
            )
            if taken is None:
                return None
            done = write(session, int(taken["number"]))
            self._forget(numbers, session, now)
            return done

        for _ in range(_TRIES):
            with border(TRANSACTION_SECONDS):
                documents = self._documents()
                numbers = self._nodes.control("subscription_numbers")
                if (done := in_transaction(documents.database.client, change)) is not None:
                    return done
            # Somebody has emptied the database since this process looked.
            self._is_indexed = False
        raise StoreUnavailableError(PART, "subscriptions cannot be numbered")

    def _forget(self, numbers: Collection[Document], session: ClientSession, now: datetime) -> None:
        old = {"ended_at": {"$lte": now - TOMBSTONE}}
        documents = self._documents()
        found = documents.find(old, {"number": True}, session=session).sort("ended_at", ASCENDING)
        gone = list(found.limit(_FORGOTTEN))
        if not gone:
            return
        documents.delete_many({"_id": {"$in": [one["_id"] for one in gone]}}, session=session)
        last = max(int(one["number"]) for one in gone)
        numbers.update_one({"_id": _NUMBERS}, {"$max": {"forgotten": last}}, session=session)

    def _documents(self) -> Collection[Document]:
        documents = self._nodes.control("subscriptions")
        if not self._is_indexed:
            documents.create_indexes(
                [
                    IndexModel(["tenant", "ended_at", "biz", "name"], name="of_tenant"),
                    IndexModel(["number"], name="changes", unique=True),
                    IndexModel(
                        ["ended_at"],
                        name="ended",
                        partialFilterExpression={"ended_at": {"$type": "date"}},
                    ),
                ]
            )
            first = {"store": uuid.uuid4().hex, "number": 0, "forgotten": 0}
            with suppress(DuplicateKeyError):  # another process has begun at the same moment
                self._nodes.control("subscription_numbers").update_one(
                    {"_id": _NUMBERS}, {"$setOnInsert": first}, upsert=True
                )
            self._is_indexed = True
        return documents


def _check_revision(name: str, before: Subscription | None, expected: str | None) -> None:
    if expected is None or expected == (before.revision if before else ""):
        return
    if before is None:
        raise ConflictError(f"{name} has ended meanwhile, or never was: no revision is to be given")
    said = f"{name} was changed meanwhile: its revision is {before.revision}, not "
    raise ConflictError(f"{said}{expected[:64]!r}; look at it, and ask again")


def _check_room(
    documents: Collection[Document],
    session: ClientSession,
    tenant: str,
    most: int,
    *,
    is_known: bool,
) -> None:
    """Pass where there is room: changes are one after another, so what is counted is what is."""
    match: Document = {"tenant": tenant, "ended_at": None}
    if documents.count_documents(match, limit=most, session=session) >= most:
        said = f"the tenant has {most:,} subscriptions, and may have no more ({LIMIT}): end some"
        raise QuotaExceededError(said)
    if is_known:
        return
    del match["ended_at"]
    every = most * ENDED_FOR_EACH
    if documents.count_documents(match, limit=every, session=session) >= every:
        said = f"the tenant has made and ended {every:,} subscriptions within a day: "
        raise QuotaExceededError(f"{said}put under a name that has ended, or wait")


def _follows(position: Seen, numbers: Document) -> bool:
    """Tell whether a reader at a position has missed nothing that the store has forgotten."""
    return bool(
        position.store == numbers["store"]
        and position.number <= numbers["number"]
        and position.known >= numbers["forgotten"]
    )


def _changes(found: list[Document], position: Seen, *, afresh: bool, limit: int) -> Changes:
    last = int(found[-1]["number"]) if found else position.number
    standing = _readable(one for one in found if one["ended_at"] is None)
    return Changes(
        standing=tuple(standing),
        ended=tuple(one["_id"] for one in found if one["ended_at"] is not None),
        seen=position._replace(number=last),
        afresh=afresh,
        more=len(found) == limit,
    )


def _unknown(name: str) -> NotFoundError:
    return NotFoundError(f"this biz has no subscription called {name[:64]!r}")


def _document(subscription: Subscription) -> Document:
    return {
        "tenant": subscription.tenant,
        "biz": subscription.biz,
        "name": subscription.name,
        "number": subscription.number,
        "ended_at": None,
        "content": _encode(subscription.content),
        "created_at": subscription.created_at,
        "changed_at": subscription.changed_at,
    }


def _subscription(document: Document) -> Subscription:
    return Subscription(
        tenant=document["tenant"],
        biz=document["biz"],
        name=document["name"],
        content=_decode(document["content"]),
        number=int(document["number"]),
        created_at=document["created_at"],
        changed_at=document["changed_at"],
    )


def _standing(document: Document | None) -> Subscription | None:
    if document is None or document["ended_at"] is not None:
        return None
    return next(_readable([document]), None)


def _readable(documents: Iterable[Document]) -> Iterator[Subscription]:
    """Read subscriptions, and skip what another release has written unreadably."""
    for document in documents:
        try:
            yield _subscription(document)
        except (KeyError, msgspec.MsgspecError) as error:
            which: Any = document.get("_id")
            extra = {"id": which, "reason": type(error).__name__}
            log.warning("a subscription cannot be read", extra=extra)
