"""Kept spiders and their versions, on the home node (SPEC.md B2, C2).

``spiders`` has one document a spider: its newest version, and whether it is ``live``. A deleted one
stays there, with its number, while a version of it is held. ``spider_versions`` has one document a
version, whose ``_id`` nobody can write twice. A version is written there first: whoever finds one
that its spider does not show yet, because its writer is slow or dead, shows it and goes on.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from crawlfleet.adapters.mongo.connection import PART, Document, MongoNodes, border
from crawlfleet.errors import QuotaExceededError, StoreUnavailableError
from crawlfleet.model.plan import MOST_SPIDERS, MOST_VERSIONS, KeptSpider, SpiderPlan
from crawlfleet.model.times import from_ms, to_ms

log = logging.getLogger(__name__)

#: Who puts tries so often: each time somebody else has put a version of the spider meanwhile.
_TRIES: Final = 50
#: Holds that a process remembers having written.
_MOST_KNOWN: Final = 10_000

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(SpiderPlan).decode


class MongoSpiders:
    """ports.SpiderStore."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._sure = False
        self._held: set[str] = set()

    def put(self, tenant: str, biz: str, name: str, plan: SpiderPlan, now: datetime) -> KeptSpider:
        """See ports.SpiderStore.put."""
        key = _key(tenant, biz, name)
        with border():
            for _ in range(_TRIES):
                head = self._spiders().find_one({"_id": key})
                live = head is not None and head["live"]
                if head is not None and live and head["digest"] == plan.digest:
                    return self._described(head, plan)
                if not live:
                    self._check_room(tenant, biz)
                made = KeptSpider(
                    tenant=tenant,
                    biz=biz,
                    name=name,
                    version=1 if head is None else int(head["version"]) + 1,
                    plan=plan,
                    put_at=from_ms(to_ms(now)),
                )
                document = _document(made)
                try:
                    self._versions().insert_one({"_id": f"{key}/{made.version}", **document})
                except DuplicateKeyError:
                    standing = self._versions().find_one({"_id": f"{key}/{made.version}"})
                    if standing is not None:
                        self._show(key, standing)
                    continue
                self._show(key, document)
                if made.version > MOST_VERSIONS:
                    self._drop(made, made.version - MOST_VERSIONS)
                return made
        raise StoreUnavailableError(PART, f"too many put the spider {name!r} at once")

    def hold(self, spider: KeptSpider) -> None:
        """See ports.SpiderStore.hold."""
        key = f"{_key(spider.tenant, spider.biz, spider.name)}/{spider.version}"
        if key in self._held:
            return
        with border(), suppress(DuplicateKeyError):  # another one held it at the same time
            self._versions().update_one(
                {"_id": key},
                {"$set": {"held": True}, "$setOnInsert": _document(spider)},
                upsert=True,
            )
        if len(self._held) >= _MOST_KNOWN:
            self._held.clear()
        self._held.add(key)

    def get(
        self, tenant: str, biz: str, name: str, version: int | None = None
    ) -> KeptSpider | None:
        """See ports.SpiderStore.get."""
        key = _key(tenant, biz, name)
        with border():
            if version is None:
                found = self._spiders().find_one({"_id": key, "live": True})
            else:
                found = self._versions().find_one({"_id": f"{key}/{version}"})
        return None if found is None else _spider(found)

    def of_biz(self, tenant: str, biz: str, after: str | None, limit: int) -> list[KeptSpider]:
        """See ports.SpiderStore.of_biz."""
        match: Document = {"tenant": tenant, "biz": biz, "live": True}
        if after is not None:
            match["name"] = {"$gt": after}
        with border():
            return list(_readable(self._spiders().find(match).sort("name", ASCENDING).limit(limit)))

    def versions(self, tenant: str, biz: str, name: str, limit: int) -> list[KeptSpider]:
        """See ports.SpiderStore.versions."""
        match = {"tenant": tenant, "biz": biz, "name": name}
        with border():
            found = self._versions().find(match).sort("version", DESCENDING).limit(limit)
            return list(_readable(found))

    def delete(self, tenant: str, biz: str, name: str) -> bool:
        """See ports.SpiderStore.delete."""
        key = _key(tenant, biz, name)
        with border():
            head = self._spiders().find_one_and_update(
                {"_id": key, "live": True}, {"$set": {"live": False}}
            )
            if head is None:
                return False
            gone = _spider(head)
            self._drop(gone, gone.version)
            if self._versions().find_one(_of(gone), {"_id": True}) is None:
                self._spiders().delete_one({"_id": key, "live": False, "version": gone.version})
        return True

    def _check_room(self, tenant: str, biz: str) -> None:
        live = {"tenant": tenant, "biz": biz, "live": True}
        if self._spiders().count_documents(live, limit=MOST_SPIDERS) >= MOST_SPIDERS:
            raise QuotaExceededError(f"a biz keeps at most {MOST_SPIDERS:,} spiders")

    def _described(self, head: Document, plan: SpiderPlan) -> KeptSpider:
        """The version that stands, with this description."""
        kept = _spider(head)
        if kept.plan == plan:
            return kept
        content = {"$set": {"plan": _encode(plan)}}
        self._versions().update_one({"_id": f"{head['_id']}/{kept.version}"}, content)
        self._spiders().update_one({"_id": head["_id"], "version": kept.version}, content)
        return replace(kept, plan=plan)

    def _show(self, key: str, version: Document) -> None:
        """Make a version the newest one, unless a newer one is."""
        shown = {name: value for name, value in version.items() if name not in {"_id", "held"}}
        with suppress(DuplicateKeyError):  # there is a spider, and it shows a newer one
            self._spiders().update_one(
                {"_id": key, "version": {"$lt": version["version"]}},
                {"$set": {**shown, "live": True}},
                upsert=True,
            )

    def _drop(self, spider: KeptSpider, last: int) -> None:
        """Forget versions up to one, that one included, but for those that are held."""
        self._versions().delete_many(
            {**_of(spider), "version": {"$lte": last}, "held": {"$ne": True}}
        )

    def _spiders(self) -> Collection[Document]:
        self._make_sure()
        return self._nodes.control("spiders")

    def _versions(self) -> Collection[Document]:
        self._make_sure()
        return self._nodes.control("spider_versions")

    def _make_sure(self) -> None:
        if self._sure:
            return
        names = [("tenant", ASCENDING), ("biz", ASCENDING)]
        self._nodes.control("spiders").create_indexes(
            [IndexModel([*names, ("live", ASCENDING), ("name", ASCENDING)], name="by_name")]
        )
        self._nodes.control("spider_versions").create_indexes(
            [
                IndexModel(
                    [*names, ("name", ASCENDING), ("version", DESCENDING)],
                    name="by_version",
                    unique=True,
                )
            ]
        )
        self._sure = True


def _key(tenant: str, biz: str, name: str) -> str:
    return f"{tenant}/{biz}/{name}"


def _of(spider: KeptSpider) -> Document:
    return {"tenant": spider.tenant, "biz": spider.biz, "name": spider.name}


def _document(spider: KeptSpider) -> Document:
    return {
        **_of(spider),
        "version": spider.version,
        "digest": spider.plan.digest,
        "plan": _encode(spider.plan),
        "put_at": spider.put_at,
    }


def _spider(document: Document) -> KeptSpider:
    return KeptSpider(
        tenant=document["tenant"],
        biz=document["biz"],
        name=document["name"],
        version=int(document["version"]),
        plan=_decode(document["plan"]),
        put_at=document["put_at"],
    )


def _readable(documents: Iterable[Document]) -> Iterator[KeptSpider]:
    """Spiders as they were put; what another release has written otherwise is left alone."""
    for document in documents:
        try:
            yield _spider(document)
        except (KeyError, msgspec.DecodeError) as error:
            which: Any = document.get("_id")
            log.warning("a kept spider cannot be read", extra={"id": which, "reason": str(error)})
