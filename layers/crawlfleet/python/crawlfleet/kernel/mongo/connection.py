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
from pymongo import MongoClient, errors
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import BulkWriteError, ConnectionFailure, OperationFailure, PyMongoError
from pymongo.monitoring import CommandListener
from pymongo.write_concern import WriteConcern

from crawlfleet.kernel.errors import CrawlfleetError, StoreError, StoreUnavailableError
from crawlfleet.kernel.mongo.refusals import REFUSALS, Pace, is_refused, refusal_of
from crawlfleet.kernel.names import CONTROL_DATABASE

log = logging.getLogger(__name__)

Document: TypeAlias = dict[str, Any]
T = TypeVar("T")

PART: Final = "mongodb"

#: How long to look for a primary: an API call answers 503 before its caller gives up.
SERVER_SELECTION_SECONDS: Final = 3.0
#: The whole of an operation, looking for a primary and waiting for a majority included.
OPERATION_SECONDS: Final = 10.0
#: How long a client may be worked with: all tries of a transaction, and what stands around it.
LONGEST_USE_SECONDS: Final = 90.0
#: After so long transactions that a refused client left open are ended; no other is idle so long.
LEFT_OPEN_SECONDS: Final = 5.0
#: A node that does not say whether it knows us is not asked again for so long.
SILENT_SECONDS: Final = 10.0
#: One environment serves one event at a time; a worker stores and claims from a few threads.
POOL_SIZE: Final = 8
APP_NAME: Final = "crawlfleet"
#: What is accepted survives the primary.
MAJORITY: Final = WriteConcern("majority")
#: What it never takes: nested too deeply, no BSON, a name that it does not like, too large.
NEVER_TAKEN: Final = frozenset({15, 22, 52, 56, 57, 388, 10334, 17280})

#: Between two statements of a transaction lie microseconds: one idle for so long has no client.
LEFT_ALONE: Final = timedelta(seconds=2)
_IDLE_MICROS: Final = "transaction.timeInactiveMicros"
_ENDING_SECONDS: Final = 5.0

#: How the driver calls a replica set that it knows the primary of.
_WITH_PRIMARY: Final = "ReplicaSetWithPrimary"
_SRV: Final = "mongodb+srv://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Seconds that nodes are waited for, and those between two readings of their secrets."""

    #: For a primary; for an answer where the operation has no end of its own.
    selection: float = SERVER_SELECTION_SECONDS
    socket: float = 20.0
    #: For a connection; for a name server with the hosts of a ``mongodb+srv`` name, and then with
    #: its options.
    connect: float = 2.0
    #: A node that was found away is not waited for again for so long. Whoever goes from queue to
    #: queue, renewing leases or recovering, would wait at each, and come too late to all others.
    away: float = 2.0
    #: For what costs little however much there is.
    glance: float = 3.0
    #: A secret is read so often while it is in use: who has another user then, or address, moves
    #: without being refused, and what is under way ends by the old one. Sooner where it is away.
    read_again: float = 300.0
    read_again_away: float = 60.0


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

    All of it may be over in a moment, a name server's answer too, but an unstorable value.
    """
    try:
        with pymongo.timeout(within):
            yield
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

    A user may end sessions of its own. Where the server does not let it (shared tiers), they end by
    themselves within the minute.
    """
    least = LEFT_ALONE // timedelta(microseconds=1)
    look: list[Document] = [
        {"$currentOp": {"allUsers": False, "idleSessions": True}},
        {"$match": {"type": "idleSession", "appName": APP_NAME, _IDLE_MICROS: {"$gte": least}}},
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
        self.client, self.uri, self.pace = client, uri, pace
        self.collections: dict[tuple[str, str, str], Collection[Document]] = {}
        #: A ``mongodb+srv`` name leads to no hosts before a name server has said which.
        self.is_resolved = not uri.startswith(_SRV)
        #: Of many who wait for the name server, or for a primary, one asks.
        self.waiting = threading.Lock()
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
        refused = self.refusals != REFUSALS.count and self.is_resolved
        return refused and now >= self.silent_until and self.pace.is_due(now)

    def resolve(self) -> None:
        """Ask the name server, if the URI has a name for it, and begin to connect.

        Raises:
            PyMongoError: it does not answer, or with what is not usable.
        """
        try:
            self.client.primary  # noqa: B018  reading it connects, and waits for nobody else
        except ValueError as error:  # options that are no text
            raise errors.ConfigurationError(str(error)) from error
        self.is_resolved = True

    @property
    def may_have_moved(self) -> bool:
        """A replica set is followed by what its members say, and not if all of them are gone."""
        there = self.client.topology_description.has_writable_server()
        return self.uri.startswith(_SRV) and self.is_resolved and not there


class MongoNodes:
    """The MongoDB clients, one a node, opened at first use, and anew when its URI changes.

    That is looked for every few minutes, and at once when the node refuses our user. ``uri_of``
    gives the URI of a node by name, ``renew`` as it is now and not as it was remembered (by default
    ``uri_of`` does). ``home`` names the node that keeps the control database; ``listeners`` hear of
    the driver's commands.
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
        self._control_database, self._home = control_database, home
        self._uri_of, self._renew = uri_of, renew or uri_of
        self.waits, self._listeners = waits, listeners
        self._nodes: dict[str, _Opened] = {}
        # By node: until when it is not waited for, and what was found.
        self._away: dict[str, tuple[float, str]] = {}
        # Clients that somebody may still work with.
        self._old: dict[int, MongoClient[Document]] = {}
        self._closed = threading.Event()
        self._lock = threading.Lock()

    def client(self, node: str) -> MongoClient[Document]:
        """Return the node's client, which need not be connected yet.

        Raises:
            StoreUnavailableError: its URI has a ``mongodb+srv`` name that leads nowhere now.
        """
        return self._opened(node).client

    def places(self, node: str) -> list[tuple[str, int]]:
        """Return host and port of each member of the node that is known; none is waited for.

        Raises:
            StoreUnavailableError: as :meth:`client`.
        """
        known = self.client(node).topology_description.server_descriptions()
        return [(host, port) for host, port in known if port is not None]

    def _opened(self, node: str) -> _Opened:
        found = self._nodes.get(node)
        if found is None:
            with self._lock:
                found = self._nodes.get(node)
                if found is None:
                    uri = self._uri_of(node)
                    found = _Opened(self._open(uri), uri, Pace(), self.waits.read_again)
                    self._nodes[node] = found
        now = time.monotonic()
        if now >= found.read_again_at or found.must_ask(now):
            found = self._considered(node, found)
        if not found.is_resolved:
            with border(), found.waiting, self._marking_away(node, found):
                found.resolve()
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
            if uri == found.uri and not refused and not found.may_have_moved:
                return found
            with border():
                fresh = _Opened(self._open(uri), uri, found.pace, self.waits.read_again)
                fresh.resolve()
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

    def _awake(self, node: str) -> _Opened:
        """Return what is open of the node, once it has a primary.

        Inside ``border`` the driver would take all of the time to look for one: right in the middle
        of an operation, when a primary steps down, but too long to find out that a node is away.
        """
        found = self._opened(node)
        if found.client.topology_description.topology_type_name != _WITH_PRIMARY:
            self._wait_for(node, found)
        return found

    def _wait_for(self, node: str, found: _Opened) -> None:
        if refusal := refusal_of(found.client):
            raise refusal
        with (
            found.waiting,
            self._marking_away(node, found),
            pymongo.timeout(self.waits.selection),
        ):
            found.client.is_primary  # noqa: B018  reading it waits for a primary

    @contextmanager
    def _marking_away(self, node: str, found: _Opened) -> Iterator[None]:
        """Wait for a node, unless it was found away just now; mark it if it is away."""
        until, why = self._away.get(node, (0.0, ""))
        if time.monotonic() < until:
            raise errors.ServerSelectionTimeoutError(why)
        try:
            yield
        except (ConnectionFailure, errors.ConfigurationError) as error:
            self._away[node] = time.monotonic() + self.waits.away, str(error)
            soon = found.read_at + self.waits.read_again_away
            found.read_again_at = min(found.read_again_at, soon)
            raise errors.ServerSelectionTimeoutError(str(error)) from error

    def database(self, node: str, tenant: str, database: str) -> Database[Document]:
        """Return a tenant's database on a node, written with majority concern."""
        client = self._awake(node).client
        return client.get_database(database_name(tenant, database), write_concern=MAJORITY)

    def collection(self, node: str, tenant: str, database: str, name: str) -> Collection[Document]:
        """Return a tenant's collection; kept, as making one costs half of a statement."""
        found, key = self._awake(node).collections, (tenant, database, name)
        if key not in found:
            found[key] = self.database(node, tenant, database).get_collection(name)
        return found[key]

    def control(self, collection: str) -> Collection[Document]:
        """Return a collection of the control database on the home node."""
        client = self._awake(self._home()).client
        control = client.get_database(self._control_database, write_concern=MAJORITY)
        return control.get_collection(collection)

    def close(self) -> None:
        """Close every client."""
        with self._lock:
            self._closed.set()
            for client in (*self._old.values(), *(one.client for one in self._nodes.values())):
                client.close()
            self._old.clear()
            self._nodes.clear()

    def _open(self, uri: str) -> MongoClient[Document]:
        """Make a client that does not connect yet; StoreError where the URI is none."""
        try:
            return MongoClient(
                uri,
                tz_aware=True,
                connect=False,
                serverSelectionTimeoutMS=int(self.waits.selection * 1000),
                connectTimeoutMS=int(self.waits.connect * 1000),
                socketTimeoutMS=int(self.waits.socket * 1000),
                maxPoolSize=POOL_SIZE,
                retryWrites=True,
                retryReads=True,
                appname=APP_NAME,
                event_listeners=list(self._listeners),
            )
        except (PyMongoError, ValueError) as error:  # ValueError: a port that is no number
            kind = type(error).__name__
            raise StoreError(f"{PART}: the node's URI is not usable: {kind}") from error
