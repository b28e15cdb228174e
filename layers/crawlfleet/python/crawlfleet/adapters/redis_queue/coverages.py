"""How well rules find what they look for, counted on Redis (SPEC.md H8). Statistics only."""

import re
from typing import Final
from urllib.parse import quote, unquote

from crawlfleet.adapters.redis_queue.connection import (
    RedisConnection,
    Script,
    nonsense,
    several,
    whole,
)
from crawlfleet.adapters.redis_queue.keys import lane_keys
from crawlfleet.model.harvest import Coverage
from crawlfleet.model.lane import Lane
from crawlfleet.policy.coverage import MOST_FIELDS, MOST_VERSIONS, countable

_ADD: Final = Script("add_coverage")
_HEAD: Final = re.compile(rb"[0-9]+ ([0-9]+) ([0-9]+)(?: ([0-9]+))?\n")
_FIELD: Final = re.compile(rb"=([^ \n]*) ([0-9]+)\n")


class RedisCoverages:
    """A :class:`~crawlfleet.ports.Coverages`: one field of a HASH a version."""

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection

    def add(self, lane: Lane, rule: str, version: str, coverage: Coverage) -> None:
        """Count."""
        fields = countable(coverage).fields
        # No name of a field holds a space or the end of a line this way.
        lines = "".join(f"={quote(name, safe='')} {count}\n" for name, count in fields.items())
        whole(
            self._redis.once(
                _ADD,
                (lane_keys(lane).coverage,),
                *(f"{rule} {version}", MOST_VERSIONS, MOST_FIELDS),
                *(coverage.pages, coverage.records, lines, coverage.rejected),
            )
        )

    def of(self, lane: Lane) -> dict[tuple[str, str], Coverage]:
        """All counts by rule and version; of a lane's many versions the latest counted."""
        (found,) = several(self._redis.together(("HGETALL", lane_keys(lane).coverage)), 1)
        if not isinstance(found, dict):
            raise nonsense()
        counts: dict[tuple[str, str], Coverage] = {}
        with self._redis.translated():
            for name, counted in found.items():
                rule, _, version = name.decode().partition(" ")
                counts[rule, version] = _read(counted)
        return counts


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
