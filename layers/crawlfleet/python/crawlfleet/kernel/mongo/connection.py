"""Clients of the MongoDB nodes, and the border where the driver's errors become ours."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeAlias, TypeVar

import pymongo
from bson.errors import BSONError, InvalidBSON
from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import (
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    InvalidURI,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)
from pymongo.monitoring import CommandListener
from pymongo.write_concern import WriteConcern

from crawlfleet.kernel.errors import CrawlfleetError, StoreError, StoreUnavailableError
from crawlfleet.kernel.mongo.refusals import REFUSALS, Pace, is_refused, refusal_of
from crawlfleet.kernel.names import CONTROL_DATABASE

log = logging.getLogger(__name__)

Document: TypeAlias = dict[str, Any]
T = TypeVar("T")

PART: Final = "mongodb"

#: How long to look for a primary: an API call must answer 503 before its caller gives up.
SERVER_SELECTION_SECONDS: Final = 3.0
#: A node that was found away is not waited for again for so long. Whoever goes from queue to queue,
#: renewing leases or recovering, would wait at each of them, and come too late to all others.
AWAY_SECONDS: Final = 2.0
CONNECT_MS: Final = 2_000
SOCKET_SECONDS: Final = 20.0
#: The whole of an operation, looking for a primary and waiting for a majority included.
OPERATION_SECONDS: Final = 10.0
#: How long somebody may work with a client that he was given: a transaction with all of its tries,
#: and the statements before and after it.
LONGEST_USE_SECONDS: Final = 90.0
#: After so long transactions that a refused client has left open are ended; none that goes on is
#: idle for as long.
LEFT_OPEN_SECONDS: Final = 5.0
#: A node's secret is read so often while it is in use: who has another user then, or address, moves
#: without being refused, and what is under way ends by the old one. Sooner where the node is away.
READ_AGAIN_SECONDS: Final = 300.0
READ_AGAIN_AWAY_SECONDS: Final = 60.0
#: A node that does not say whether it knows us is not asked again for so long.
SILENT_SECONDS: Final = 10.0
#: For what costs little however much there is.
GLANCE_SECONDS: Final = 3.0
#: One environment serves one event at a time; a worker stores and claims from a few threads.
POOL_SIZE: Final = 8
#: How the server calls our connections.
APP_NAME: Final = "crawlfleet"
#: What is accepted survives the primary.
MAJORITY: Final = WriteConcern("majority")
#: What the server says of what it will never take: nested too deeply, no BSON, a field name that it
#: does not like, too large, or as a transaction too large for its cache.
NEVER_TAKEN: Final = frozenset({15, 22, 52, 56, 57, 388, 10334, 17280})

#: Between two statements of a transaction of ours lie microseconds. One that has waited for this
#: long has lost its client; should that be only frozen, it has to do it all again.
LEFT_ALONE: Final = timedelta(seconds=2)
_ENDING_SECONDS: Final = 5.0

#: How the driver calls a replica set that it knows the primary of.
_WITH_PRIMARY: Final = "ReplicaSetWithPrimary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Seconds that nodes are waited for, and those between two readings of their secrets.

    ``selection`` is for a primary, ``socket`` for an answer where the operation has no end of its
    own, ``glance`` for what costs little however much there is.
    """

    selection: float = SERVER_SELECTION_SECONDS
    socket: float = SOCKET_SECONDS
    glance: float = GLANCE_SECONDS
    read_again: float = READ_AGAIN_SECONDS
    read_again_away: float = READ_AGAIN_AWAY_SECONDS


def database_name(tenant: str, database: str) -> str:
    """Return the database's name on the node: tenants never share one.

    >>> database_name("acme", "shop")
    'cf_acme_shop'
    """
    return f"cf_{tenant}_{database}"


class UnstorableError(StoreError):
    """BSON or MongoDB cannot hold a value that it was given; another try will not help."""


@contextmanager
def border(within: float = OPERATION_SECONDS) -> Iterator[None]:
    """Bound what is done in ``within`` seconds, and translate what the driver raises.

    Everything the driver can raise here may be over in a moment, but for two things: a URI that is
    none, and a value that cannot be stored.
    """
    try:
        with pymongo.timeout(within):
            yield
    except (ConfigurationError, InvalidURI) as error:
        raise StoreError(f"{PART}: the node's URI is not usable: {type(error).__name__}") from error
    except OperationFailure as error:
        # Logs print causes too; this one quotes what it was given, a tenant's headers included.
        error.args = (_brief(error),)
        REFUSALS.note(error)
        if _codes(error) & NEVER_TAKEN:
            raise UnstorableError(f"{PART} cannot hold it: {_brief(error)}") from error
        raise StoreUnavailableError(PART, f"{type(error).__name__}: {_brief(error)}") from error
    except PyMongoError as error:
        raise StoreUnavailableError(PART, f"{type(error).__name__}: {_brief(error)}") from error
    except InvalidBSON as error:
        raise StoreUnavailableError(PART, "the node answers what is no BSON") from error
    except (BSONError, OverflowError, RecursionError, UnicodeEncodeError) as error:
        raise UnstorableError(f"{PART} cannot hold it: {str(error)[:200]}") from error


def _codes(error: OperationFailure) -> set[int | None]:
    if isinstance(error, BulkWriteError):
        return {fault["code"] for fault in error.details["writeErrors"]}
    return {error.code}


def _brief(error: PyMongoError) -> str:
    return str(error).split(", Timeout:")[0].split(", full error:")[0][:300]


def end_abandoned(client: MongoClient[Document]) -> int:
    """End transactions that any process of the fleet has left open on a node; returns how many.

    A worker that is killed in the middle of a transaction leaves it open, and the server keeps it
    for a minute (``transactionLifetimeLimitSeconds``). Until then every write to the documents that
    it has touched waits: the claims and outcomes of all other workers, and the very update that is
    to take the dead worker's requests from it.

    A user of MongoDB may see and end sessions of its own without a further right. Where the server
    does not let it all the same (shared tiers), they end by themselves within the minute.
    """
    look: list[Document] = [
        {"$currentOp": {"allUsers": False, "idleSessions": True}},
        {
            "$match": {
                "type": "idleSession",
                "appName": APP_NAME,
                "transaction.timeInactiveMicros": {"$gte": LEFT_ALONE // timedelta(microseconds=1)},
            }
        },
        {"$project": {"_id": 0, "id": "$lsid.id"}},
    ]
    with border(_ENDING_SECONDS):
        try:
            left = list(client.admin.aggregate(look))
            if left:
                client.admin.command("killSessions", left)
        except OperationFailure as error:
            log.info("transactions left open are not ended", extra={"reason": str(error)[:200]})
            return 0
    return len(left)


class _Opened:
    """A node's client, what it was opened with, and what was had of it."""

    def __init__(
        self, client: MongoClient[Document], uri: str, pace: Pace, read_again: float
    ) -> None:
        self.client = client
        self.uri = uri
        self.pace = pace
        self.collections: dict[tuple[str, str, str], Collection[Document]] = {}
        #: The refusals before which the node is known to have known us.
        self.refusals = REFUSALS.count
        self.lock = threading.Lock()
        #: Until when it is not asked again whether it knows us, as it has not said so.
        self.silent_until = float("-inf")
        #: When its secret was read, and when it is read again though nobody was refused.
        self.read_at = time.monotonic()
        self.read_again_at = self.read_at + read_again

    def must_ask(self, now: float) -> bool:
        """Tell whether somebody was refused by some node, and this one must say if it was it."""
        if self.refusals == REFUSALS.count:
            return False
        return now >= self.silent_until and self.pace.is_due(now)


class MongoNodes:
    """The MongoDB clients, one a node, opened at first use, and anew when its URI changes.

    That is looked for every few minutes, and at once when the node refuses our user.

    Args:
        uri_of: Gives the URI of a node by name; asked at first use.
        home: Names the node that keeps the control database.
        renew: Gives the URI as it is now, not as it was remembered; ``uri_of`` by default.
        control_database: The name of the control database.
        waits: How long nodes are waited for.
        listeners: Hear of the driver's commands.
    """

    def __init__(
        self,
        uri_of: Callable[[str], str],
        home: Callable[[], str],
        renew: Callable[[str], str] | None = None,
        *,
        control_database: str = CONTROL_DATABASE,
        waits: Waits = Waits(),
        listeners: Sequence[CommandListener] = (),
    ) -> None:
        self._control_database = control_database
        self.waits = waits
        self._listeners = listeners
        self._uri_of = uri_of
        self._home = home
        self._renew = renew or uri_of
        self._nodes: dict[str, _Opened] = {}
        # By node: until when it is not waited for, and what was found.
        self._away: dict[str, tuple[float, str]] = {}
        # Clients that somebody may still work with.
        self._old: dict[int, MongoClient[Document]] = {}
        self._closed = threading.Event()
        self._lock = threading.Lock()

    def client(self, node: str) -> MongoClient[Document]:
        """Return the node's client; opening one does not connect yet."""
        return self._opened(node).client

    def _opened(self, node: str) -> _Opened:
        found = self._nodes.get(node)
        if found is None:
            with self._lock:
                found = self._nodes.get(node)
                if found is None:
                    uri = self._uri_of(node)
                    with border():
                        found = _Opened(self._open(uri), uri, Pace(), self.waits.read_again)
                    self._nodes[node] = found
        now = time.monotonic()
        if now >= found.read_again_at or found.must_ask(now):
            return self._considered(node, found)
        return found

    def _considered(self, node: str, found: _Opened) -> _Opened:
        """Connect anew where the node does not know us any more, or its secret has changed.

        One looks. Who comes meanwhile goes on with what there is: a node that does not answer would
        have them wait in a line, and one that refuses them says so at once.
        """
        if not found.lock.acquire(blocking=False):
            return found
        try:
            present, now = self._nodes.get(node, found), time.monotonic()
            if present is not found:
                return present
            if now >= found.read_again_at:
                found.read_at, found.read_again_at = now, now + self.waits.read_again
                return self._renewed(node, found, refused=False)
            if not found.must_ask(now):
                return found
            refusals = REFUSALS.count
            refused = is_refused(found.client, found.uri)
            if refused:
                return self._renewed(node, found, refused=True)
            if refused is None:
                found.silent_until = time.monotonic() + SILENT_SECONDS
            found.refusals = refusals
            return found
        finally:
            found.lock.release()

    def _renewed(self, node: str, found: _Opened, *, refused: bool) -> _Opened:
        refusals, now = REFUSALS.count, time.monotonic()
        try:
            uri = self._renew(node)
            if uri == found.uri and not refused:
                return found
            with border():
                fresh = _Opened(self._open(uri), uri, found.pace, self.waits.read_again)
        except CrawlfleetError as error:
            extra = {"node": node, "error": type(error).__name__, "reason": str(error)}
            if refused:
                log.warning("a node refuses our user, and its secret is of no use", extra=extra)
                found.pace.read(now, changed=False)
            else:
                log.warning("a node's secret could not be read again", extra=extra)
            return found
        if refused:
            found.pace.read(now, changed=uri != found.uri)
        log.info("a node's secret was read again", extra={"node": node})
        fresh.refusals = refusals
        with self._lock:
            self._nodes[node] = fresh
            self._away.pop(node, None)
        self._retire(found.client, fresh.client)
        return fresh

    def _retire(self, old: MongoClient[Document], fresh: MongoClient[Document]) -> None:
        """Close a client when nothing can be under way with it any more: closed, it does nothing.

        What it has left open when it was refused in the middle, the new one ends, where it is the
        same user's: what that has written is locked until then.
        """

        def later() -> None:
            if self._closed.wait(LEFT_OPEN_SECONDS):
                return
            try:
                end_abandoned(fresh)
            except CrawlfleetError as error:
                log.info("transactions left open are not ended", extra={"reason": str(error)})
            if self._closed.wait(LONGEST_USE_SECONDS):
                return
            with self._lock:
                self._old.pop(id(old), None)
            old.close()

        with self._lock:
            self._old[id(old)] = old
        threading.Thread(target=later, daemon=True).start()

    def _ready(self, node: str) -> MongoClient[Document]:
        """Return the node's client, once it has a primary.

        Inside ``border`` the driver would take all of the time to look for one: right in the middle
        of an operation, when a primary steps down, but too long to find out that a node is away.
        """
        return self._awake(node).client

    def _awake(self, node: str) -> _Opened:
        found = self._opened(node)
        if found.client.topology_description.topology_type_name != _WITH_PRIMARY:
            self._wait_for(node, found)
        return found

    def _wait_for(self, node: str, found: _Opened) -> None:
        client = found.client
        if refusal := refusal_of(client):
            raise refusal
        until, why = self._away.get(node, (0.0, ""))
        if time.monotonic() < until:
            raise ServerSelectionTimeoutError(why)
        try:
            with pymongo.timeout(self.waits.selection):
                client.is_primary  # noqa: B018  reading it waits for a primary
        except ConnectionFailure as error:
            self._away[node] = time.monotonic() + AWAY_SECONDS, str(error)
            soon = found.read_at + self.waits.read_again_away
            found.read_again_at = min(found.read_again_at, soon)
            raise

    def database(self, node: str, tenant: str, database: str) -> Database[Document]:
        """Return a tenant's database on a node, written with majority concern."""
        return self._ready(node).get_database(
            database_name(tenant, database), write_concern=MAJORITY
        )

    def collection(self, node: str, tenant: str, database: str, name: str) -> Collection[Document]:
        """Return a tenant's collection; kept, as making one costs half of a statement."""
        found = self._awake(node).collections
        key = (tenant, database, name)
        kept = found.get(key)
        if kept is None:
            kept = self.database(node, tenant, database).get_collection(name)
            found[key] = kept
        return kept

    def control(self, collection: str) -> Collection[Document]:
        """Return a collection of the control database on the home node."""
        return (
            self._ready(self._home())
            .get_database(self._control_database, write_concern=MAJORITY)
            .get_collection(collection)
        )

    def close(self) -> None:
        """Close every client."""
        with self._lock:
            self._closed.set()
            for client in self._old.values():
                client.close()
            self._old.clear()
            for opened in self._nodes.values():
                opened.client.close()
            self._nodes.clear()

    def _open(self, uri: str) -> MongoClient[Document]:
        try:
            return MongoClient(
                uri,
                tz_aware=True,
                serverSelectionTimeoutMS=int(self.waits.selection * 1000),
                connectTimeoutMS=CONNECT_MS,
                socketTimeoutMS=int(self.waits.socket * 1000),
                maxPoolSize=POOL_SIZE,
                retryWrites=True,
                retryReads=True,
                appname=APP_NAME,
                event_listeners=list(self._listeners),
            )
        except ValueError as error:  # a port that is no number
            raise InvalidURI(str(error)) from error


#: A transaction that keeps meeting other writers is given up, and tried again by its caller.
TRANSACTION_SECONDS: Final = 15.0


class MetAnotherError(Exception):
    """Another transaction created the same document at the same moment: undo, and try again."""


def in_transaction(client: MongoClient[Document], write: Callable[[ClientSession], T]) -> T:
    """Do ``write`` in one transaction, as often as it takes to meet no other writer."""
    with client.start_session() as session:
        return in_session(session, write)


def in_session(session: ClientSession, write: Callable[[ClientSession], T]) -> T:
    """Do ``write`` in a transaction of a session that goes on.

    The server undoes what an earlier transaction of the session has left open before it begins.
    """
    while True:
        try:
            result: T = session.with_transaction(write, write_concern=MAJORITY)
        except MetAnotherError:
            continue
        return result
