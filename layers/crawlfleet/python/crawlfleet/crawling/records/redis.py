"""The data queue and the coverage of rules on Redis (SPEC.md B9, H8).

Items from outside of workers are in Redis until they are stored. Whoever puts items learns that
they are taken, and keeps them until they are stored: a Scrapy process puts again what Redis has
lost (crawlfleet.scrapy.journal). Coverage is statistics only.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final
from urllib.parse import quote, unquote

import msgspec

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.documents.rule import Rule
from crawlfleet.config.lookup import biz_of
from crawlfleet.crawling.records import normalise
from crawlfleet.crawling.records.coverage import MOST_FIELDS, countable
from crawlfleet.crawling.records.falls import empties, mostly_empty
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.redis.connection import RedisConnection, nonsense, several, text, whole
from crawlfleet.kernel.redis.server import Script
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.models import Coverage, HourCoverage, QueuedItem, RuleCoverage
from crawlfleet.requests.queue.redis.keys import redis_keys
from crawlfleet.requests.queue.redis.open_queues import RedisOpenQueues

_ADD: Final = Script("crawling/records/add_coverage")
_HEAD: Final = re.compile(rb"[0-9]+ ([0-9]+) ([0-9]+)(?: ([0-9]+))?\n")
_FIELD: Final = re.compile(rb"=([^ \n]*) ([0-9]+)\n")

#: Versions of rules kept of a queue key; the one silent for longest makes room.
MOST_VERSIONS: Final = 100
#: Hours whose counts are kept beside, and versions of all of them together.
HOURS: Final = 25
MOST_OF_HOURS: Final = 2_500
_HOUR_MS: Final = 3_600_000


class RedisCoverages:
    """The counts of a rule's records and filled fields: one field of a HASH a version."""

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection

    def add(self, queue_key: QueueKey, rule: str, version: str, coverage: Coverage) -> None:
        """Add to the counts of a version."""
        fields = countable(coverage).fields
        # No name of a field holds a space or the end of a line this way.
        lines = "".join(f"={quote(name, safe='')} {count}\n" for name, count in fields.items())
        whole(
            self._redis.once(
                _ADD,
                (redis_keys(queue_key).coverage, redis_keys(queue_key).coverage_hours),
                *(f"{rule} {version}", MOST_VERSIONS, MOST_FIELDS),
                *(coverage.pages, coverage.records, lines, coverage.rejected),
                *(HOURS, MOST_OF_HOURS),
            )
        )

    def of(self, queue_key: QueueKey) -> dict[tuple[str, str], Coverage]:
        """Return all counts by rule and version; of many versions the latest counted."""
        (found,) = several(self._redis.together(("HGETALL", redis_keys(queue_key).coverage)), 1)
        if not isinstance(found, dict):
            raise nonsense()
        counts: dict[tuple[str, str], Coverage] = {}
        with self._redis.translated():
            for name, counted in found.items():
                rule, _, version = name.decode().partition(" ")
                counts[rule, version] = _read(counted)
        return counts

    def by_hour(self, queue_key: QueueKey) -> list[HourCoverage]:
        """Return the counts of the last hours, the oldest first, by the time of the server."""
        key = redis_keys(queue_key).coverage_hours
        (found,) = several(self._redis.together(("HGETALL", key)), 1)
        if not isinstance(found, dict):
            raise nonsense()
        hours: list[HourCoverage] = []
        with self._redis.translated():
            for name, counted in found.items():
                hour, rule, version = name.decode().split(" ", 2)
                hours.append(
                    HourCoverage(
                        started_at=from_ms(int(hour) * _HOUR_MS),
                        rule=rule,
                        version=version,
                        coverage=_read(counted),
                    )
                )
        return sorted(hours, key=lambda one: (one.started_at, one.rule, one.version))


def _read(counted: bytes) -> Coverage:
    head = _HEAD.match(counted)
    if head is None:
        return Coverage()
    return Coverage(
        pages=int(head[1]),
        records=int(head[2]),
        rejected=int(head[3] or 0),
        fields={unquote(name.decode()): int(count) for name, count in _FIELD.findall(counted)},
    )


def coverage(
    coverages: RedisCoverages, tree: Tree, tenant: str, biz_name: str
) -> list[RuleCoverage]:
    """Return every version that was counted, by rule, of each the current one first.

    The current version of a rule also has the fields that never had a value.
    """
    queue_key, biz = biz_of(tree, tenant, biz_name)
    found: list[RuleCoverage] = []
    empty: tuple[str, ...]
    hours = coverages.by_hour(queue_key)
    for (rule, version), counted in coverages.of(queue_key).items():
        source = biz.rules.get(rule) or biz.spiders.get(rule)
        current = source is not None and source.version == version
        empty, mostly = (), False
        if current and isinstance(source, Rule):
            fields = {**dict.fromkeys(source.fields, 0), **counted.fields}
            counted = msgspec.structs.replace(counted, fields=fields)  # noqa: PLW2901
            empty = tuple(empties(counted, source.selected))
            mostly = mostly_empty(counted, source.selected)
        own = tuple(hour for hour in hours if (hour.rule, hour.version) == (rule, version))
        found.append(
            RuleCoverage(
                rule=rule,
                version=version,
                current=current,
                coverage=counted,
                empty=empty,
                mostly=mostly,
                hours=own,
            )
        )
    return sorted(found, key=lambda one: (one.rule, not one.current, one.version))


_TIME: Final = Script("crawling/records/item_time")
_PUT: Final = Script("crawling/records/put_items")
_LEASE: Final = Script("crawling/records/lease_items")
_FINISH: Final = Script("crawling/records/finish_items")
_GIVE_BACK: Final = Script("crawling/records/give_back_items")
_COUNT: Final = Script("crawling/records/count_items")


class RedisDataQueue:
    """Items that arrive from outside of workers, such as a Scrapy project's, until stored.

    Leased like requests: what a worker does not finish is leased again. Each item counts its
    leases, so that one that kills its workers shows. Every transition is one script.
    """

    def __init__(
        self, connection: RedisConnection, *, queue_bytes: int = normalise.QUEUE_BYTES
    ) -> None:
        self._redis = connection
        self._queue_bytes = queue_bytes
        #: The data queues that may have items, as whoever searched them has found.
        self.open = RedisOpenQueues(connection, of="open_items")

    def put(self, queue_key: QueueKey, items: Sequence[bytes]) -> int:
        """Append items; return how many wait. All are taken, or none.

        Their ids say when, by one clock for all who put (crawling.records.normalise.put_of).

        Raises:
            InvalidRequestError: names the items that are too large.
            BacklogFullError: the queue key has as many bytes of items as it may.
        """
        return self.put_as(queue_key, self.name(queue_key, len(items)), items)

    def name(self, queue_key: QueueKey, count: int) -> list[str]:
        """Make the ids of items that are put now.

        By them a call whose answer was lost may be repeated, and items that Redis has lost put in
        again. They are by the time of the node that has the queue key, so that what is put after
        this is newer, whoever puts it.
        """
        key = redis_keys(queue_key).item_queue
        return normalise.item_ids(whole(self._redis.again(_TIME, (key,))), count)

    def put_as(self, queue_key: QueueKey, ids: Sequence[str], items: Sequence[bytes]) -> int:
        """Append items under these ids; those that are there already are passed over.

        Raises as :meth:`put` does.
        """
        normalise.refuse_large(items)
        keys = redis_keys(queue_key)
        pairs = [value for pair in zip(ids, items, strict=True) for value in pair]
        names = (keys.items, keys.item_queue, keys.item_bytes)
        there = whole(self._redis.again(_PUT, names, self._queue_bytes, *pairs))
        if there < 0:
            raise normalise.no_room(queue_key.biz, len(items))
        return there

    def lease(
        self, queue_key: QueueKey, token: str, count: int, now: datetime, until: datetime
    ) -> list[QueuedItem]:
        """Lease up to ``count`` items, oldest first, those of ended leases before them.

        They are fewer where they are large.
        """
        if count < 1:
            return []
        keys = redis_keys(queue_key)
        names = (keys.item_queue, keys.item_leases, keys.items, keys.item_tries)
        found = several(
            self._redis.once(
                _LEASE, names, *(token, count, normalise.LEASE_BYTES, to_ms(now), to_ms(until))
            )
        )
        if len(found) % 3:
            raise nonsense()
        with self._redis.translated():
            return [
                QueuedItem(text(found[at]).decode(), text(found[at + 1]), whole(found[at + 2]))
                for at in range(0, len(found), 3)
            ]

    def finish(self, queue_key: QueueKey, token: str, items: Sequence[str]) -> int:
        """Finish items that are stored, or dropped for good; return how many the token held."""
        keys = redis_keys(queue_key)
        names = (keys.item_leases, keys.items, keys.item_tries, keys.item_bytes)
        return whole(self._redis.once(_FINISH, names, token, *items))

    def give_back(self, queue_key: QueueKey, token: str, items: Sequence[str]) -> int:
        """Return items that could not be stored by no fault of theirs: the attempt does not count.

        They are served next. Returns how many of them the token held.
        """
        keys = redis_keys(queue_key)
        names = (keys.item_leases, keys.item_queue, keys.item_tries)
        return whole(self._redis.once(_GIVE_BACK, names, token, *items))

    def waiting(self, queues: Sequence[QueueKey]) -> list[int]:
        """Count the items of each queue key, leased ones included; 0 where a node is away."""
        if not queues:
            return []
        each = [((redis_keys(queue_key).items,), ()) for queue_key in queues]
        answers = several(self._redis.queue_by_queue(_COUNT, each), len(queues))
        return [0 if isinstance(one, StoreUnavailableError) else whole(one) for one in answers]
