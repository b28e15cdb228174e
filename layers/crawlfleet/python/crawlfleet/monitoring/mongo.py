"""The figures of a MongoDB node (SPEC.md A11): storage, memory, slow operations, replicas.

Users of managed clusters may often not ask for all of it. So each figure is asked for on its own:
what the user has no right to is missing by name, and the rest is there.
"""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar

from pymongo import MongoClient
from pymongo.errors import OperationFailure

from crawlfleet.kernel import metric_names as metrics
from crawlfleet.kernel.errors import StoreError, StoreUnavailableError
from crawlfleet.kernel.mongo.connection import PART, SERVER_SELECTION_SECONDS, Document, border
from crawlfleet.kernel.time import round_trip
from crawlfleet.monitoring.models import Figures, HasNoneError, number

T = TypeVar("T")

#: How long the figures of a node may take together: the others are waiting too.
FIGURES_SECONDS: Final = 8.0
#: An operation that takes longer is slow.
SLOW_SECONDS: Final = 1
#: The server counts latencies by powers of two, in microseconds: this is the first beyond that.
_SLOW_MICROS: Final = 2**20
#: What the profiler has written within this time counts, where the server counts no latencies.
RECENT: Final = timedelta(seconds=60)
#: Databases whose profilers are asked; the others' slow operations show while they run.
PROFILED: Final = 20
#: Replica set members' states that are as they should be: primary, secondary, arbiter.
WELL: Final = frozenset({1, 2, 7})

_PRIMARY: Final = 1
_SECONDARY: Final = 2
_UNAUTHORISED: Final = 13
#: No replication is on; there is no such command, or not here, as behind a mongos.
_HAS_NONE: Final = frozenset({76, 59, 115})
_NO_RIGHT: Final = "our user has not the right to ask: the role clusterMonitor has it"
_OURS: Final = "cf_"
_LATENCIES: Final = ("reads", "writes", "commands", "transactions")
_OPERATIONS: Final = ["query", "insert", "update", "remove", "command", "getmore"]


def mongo_figures(client: MongoClient[Document]) -> Figures:
    """Read the figures of a node that answers.

    Raises:
        StoreUnavailableError: it does not answer a ping.
    """
    figures, ends_at = Figures(), time.monotonic() + FIGURES_SECONDS

    def within(step: Callable[[], T]) -> T:
        return _within(ends_at, step)

    # The driver selects a server for as long as it is given.
    soon = time.monotonic() + SERVER_SELECTION_SECONDS
    ping = partial(client.admin.command, "ping")
    figures.put(metrics.LATENCY, _within(soon, partial(round_trip, ping)))
    # Latencies since it started; awaiting what is to come, as replicas do, counts for none.
    status: Document = {"serverStatus": 1, "opLatencies": {"histograms": True}}
    figures.ask(
        (metrics.MEMORY_BYTES, metrics.CACHE_RATIO, metrics.CONNECTIONS, metrics.CONNECTIONS_RATIO),
        lambda: read_status(figures, within(lambda: client.admin.command(status))),
    )
    databases: list[str] = []

    def storage() -> None:
        found = within(lambda: client.admin.command("listDatabases", nameOnly=False))
        figures.put(metrics.STORAGE_BYTES, number(found, "totalSize"))
        names = sorted(one["name"] for one in found["databases"])
        databases.extend(name for name in names if name.startswith(_OURS))

    figures.ask((metrics.STORAGE_BYTES,), storage)
    # Of any database that is there; of one that is not, the disk has no size.
    figures.ask(
        (metrics.STORAGE_RATIO,),
        lambda: read_disk(figures, within(lambda: client.admin.command("dbStats"))),
    )

    figures.ask(
        (metrics.MEMBERS, metrics.MEMBERS_UNWELL, metrics.LAG_SECONDS),
        lambda: read_members(figures, within(lambda: client.admin.command("replSetGetStatus"))),
    )

    def profiled() -> list[str]:
        """Return the databases whose profiler is read: none where latencies are counted."""
        return [] if metrics.SLOW_EVER in figures.found else databases

    figures.ask(
        (metrics.SLOW_OPERATIONS,),
        lambda: figures.put(metrics.SLOW_OPERATIONS, _slow(client, profiled(), within)),
    )
    return figures


def read_status(figures: Figures, status: Mapping[str, Any]) -> None:
    """Read the figures of a serverStatus."""
    resident = number(status, "mem", "resident")
    figures.put(metrics.MEMORY_BYTES, None if resident is None else resident * 1024 * 1024)
    cache = number(status, "wiredTiger", "cache")
    figures.share(
        metrics.CACHE_RATIO,
        number(cache, "bytes currently in the cache"),
        number(cache, "maximum bytes configured"),
    )
    current = number(status, "connections", "current")
    available = number(status, "connections", "available")
    figures.put(metrics.CONNECTIONS, current)
    known = isinstance(current, int) and isinstance(available, int)
    figures.share(metrics.CONNECTIONS_RATIO, current, current + available if known else None)
    histograms = [number(status, "opLatencies", kind, "histogram") for kind in _LATENCIES]
    if all(isinstance(one, list) for one in histograms):
        buckets = [bucket for one in histograms for bucket in one]
        slow = [one["count"] for one in buckets if one["micros"] >= _SLOW_MICROS]
        figures.put(metrics.SLOW_EVER, sum(slow))


def read_disk(figures: Figures, status: Mapping[str, Any]) -> None:
    """Read the share of the disk that is used, of a dbStats."""
    figures.share(
        metrics.STORAGE_RATIO, number(status, "fsUsedSize"), number(status, "fsTotalSize")
    )


def read_members(figures: Figures, status: Mapping[str, Any]) -> None:
    """Count members and unwell ones, and measure how far the worst secondary lags behind."""
    members = status["members"]
    figures.put(metrics.MEMBERS, len(members))
    figures.put(metrics.MEMBERS_UNWELL, sum(one.get("state") not in WELL for one in members))
    primaries = [one["optimeDate"] for one in members if one.get("state") == _PRIMARY]
    if not primaries:
        figures.missing[metrics.LAG_SECONDS] = "the replica set has no primary"
        return
    behind = [
        (max(primaries) - one["optimeDate"]).total_seconds()
        for one in members
        if one.get("state") == _SECONDARY
    ]
    # A secondary that was asked later than its primary may seem to be ahead of it.
    figures.put(metrics.LAG_SECONDS, max(0.0, *behind) if behind else 0.0)


def _slow(
    client: MongoClient[Document], databases: list[str], within: Callable[[Callable[[], int]], int]
) -> int:
    """Count operations that are slow now, and those that profilers, where on, saw lately.

    What runs is not in a profile yet, so nothing counts twice. Without the right to see everybody's
    operations one sees those of one's own user, which are the functions'.
    """
    try:
        running = within(lambda: _running(client, all_users=True))
    except StoreError as error:
        if not _unauthorised(error):
            raise
        running = within(lambda: _running(client, all_users=False))
    return running + sum(_profiled(client, name, within) for name in databases[:PROFILED])


def _running(client: MongoClient[Document], *, all_users: bool) -> int:
    slow = {
        "secs_running": {"$gte": SLOW_SECONDS},
        "op": {"$in": _OPERATIONS},
        "ns": {"$regex": f"^{_OURS}"},
    }
    current = {"allUsers": all_users, "idleConnections": False}
    steps: list[Document] = [{"$currentOp": current}, {"$match": slow}, {"$count": "n"}]
    found = list(client.admin.aggregate(steps))
    return int(found[0]["n"]) if found else 0


def _profiled(
    client: MongoClient[Document], name: str, within: Callable[[Callable[[], int]], int]
) -> int:
    def count() -> int:
        database = client.get_database(name)
        if not database.command("profile", -1)["was"]:
            return 0
        recent = {
            "ts": {"$gte": datetime.now(UTC) - RECENT},
            "millis": {"$gte": SLOW_SECONDS * 1000},
        }
        return database["system.profile"].count_documents(recent)

    try:
        return within(count)
    except StoreError as error:
        if _unauthorised(error):
            return 0  # what runs is counted all the same
        raise


def _within(ends_at: float, step: Callable[[], T]) -> T:
    """Run a step in what is left of the time; name a right that is missing."""
    left = ends_at - time.monotonic()
    if left <= 0:
        raise StoreUnavailableError(PART, f"not answered within {FIGURES_SECONDS:g} s")
    try:
        with border(left):
            return step()
    except StoreUnavailableError as error:
        if _unauthorised(error):
            raise StoreUnavailableError(PART, _NO_RIGHT) from error.__cause__
        if getattr(error.__cause__, "code", None) in _HAS_NONE:
            raise HasNoneError(f"{PART}: the node is in no replica set") from error.__cause__
        raise


def _unauthorised(error: StoreError) -> bool:
    cause = error.__cause__
    return isinstance(cause, OperationFailure) and cause.code == _UNAUTHORISED
