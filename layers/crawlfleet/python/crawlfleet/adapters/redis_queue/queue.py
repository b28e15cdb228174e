"""The queue of a lane on Redis: submissions enter it, workers lease from it (SPEC.md A6, A7)."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

import msgspec

from crawlfleet.adapters.redis_queue.connection import (
    RedisConnection,
    Script,
    several,
    text,
    whole,
)
from crawlfleet.adapters.redis_queue.entries import read, read_canonical, spell
from crawlfleet.adapters.redis_queue.keys import lane_keys
from crawlfleet.model.lane import Lane
from crawlfleet.model.request import Entry
from crawlfleet.model.times import to_ms
from crawlfleet.model.totals import Depth, Load, Rates
from crawlfleet.policy.rates import full_minute, rates

#: An account of phases that nobody adds to for this long is forgotten.
PHASES_TTL_SECONDS: Final = 7 * 86_400

_log = logging.getLogger(__name__)

_ENQUEUE: Final = Script("enqueue")
_REQUEUE: Final = Script("requeue")
_LEASE: Final = Script("lease")
_MEND: Final = Script("mend")
_RENEW: Final = Script("renew")
_FINISH: Final = Script("finish")
_GIVE_BACK: Final = Script("give_back")
_DELAY: Final = Script("delay")
_DEPTH: Final = Script("depth")
_LOAD: Final = Script("load")
_ADD_PHASES: Final = Script("add_phases")


class RedisQueue:
    """A :class:`~crawlfleet.ports.RequestQueue`: every transition is one script, one round trip.

    The batch of a call is one argument and one answer, a JSON object a line: encoding a line costs
    less than the driver's care of an argument. A token must not contain ``:{``.
    """

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection

    def enqueue(self, lane: Lane, entries: Sequence[Entry], now: datetime) -> int:
        """Append, and count towards the lane's submission rate; returns how many wait now."""
        if not entries:
            return self.depth(lane).queued
        keys = lane_keys(lane)
        return whole(
            self._redis.once(
                _ENQUEUE,
                (keys.queue, keys.submitted),
                to_ms(now) // 1000,
                spell(entries),
            )
        )

    def requeue(self, lane: Lane, entries: Sequence[Entry]) -> None:
        """Put recovered entries where they are served next, the first one first."""
        if entries:
            self._redis.once(_REQUEUE, (lane_keys(lane).queue,), spell(entries))

    def lease(
        self, lane: Lane, token: str, count: int, now: datetime, until: datetime
    ) -> list[Entry]:
        """Move up to ``count`` entries to the token's lease.

        What something else has pushed is spelled anew if it is an entry, and dropped if not.

        Raises:
            ValueError: the token contains ``:{``, which separates it from its entry.
        """
        if ":{" in token:
            raise ValueError(f"a lease token must not contain ':{{': {token!r}")
        if count < 1:
            return []
        keys = lane_keys(lane)
        until_ms = to_ms(until)
        found = text(
            self._redis.once(
                _LEASE,
                (keys.queue, keys.delayed, keys.leases),
                *(token, count, to_ms(now), until_ms),
            )
        )
        entries = read_canonical(found)
        return self._mend(lane, token, found, until_ms) if entries is None else entries

    def renew(
        self, lane: Lane, token: str, entries: Sequence[Entry], until: datetime
    ) -> list[Entry]:
        """Extend the lease of ``entries``; returns those that the token no longer holds."""
        if not entries:
            return []
        lost = self._redis.again(
            _RENEW, (lane_keys(lane).leases,), token, to_ms(until), spell(entries)
        )
        return read_canonical(text(lost)) or []

    def finish(
        self, lane: Lane, token: str, entries: Sequence[Entry], processed: int, now: datetime
    ) -> int:
        """Drop the token's entries, count ``processed``; returns how many it held."""
        keys = lane_keys(lane)
        return whole(
            self._redis.once(
                _FINISH,
                (keys.leases, keys.processed),
                *(token, to_ms(now) // 1000, processed, spell(entries)),
            )
        )

    def give_back(self, lane: Lane, token: str, entries: Sequence[Entry]) -> int:
        """Return entries still held by the token to where they are served next."""
        if not entries:
            return 0
        keys = lane_keys(lane)
        return whole(self._redis.once(_GIVE_BACK, (keys.leases, keys.queue), token, spell(entries)))

    def delay(self, lane: Lane, token: str, entries: Sequence[tuple[Entry, datetime]]) -> int:
        """Move entries still held by the token to the waiting set, each until its time."""
        if not entries:
            return 0
        keys = lane_keys(lane)
        return whole(
            self._redis.once(
                _DELAY,
                (keys.leases, keys.delayed),
                token,
                spell([entry for entry, _ in entries]),
                "\n".join(str(to_ms(due_at)) for _, due_at in entries),
            )
        )

    def depth(self, lane: Lane) -> Depth:
        """How much is queued, leased and delayed."""
        return self.depths((lane,))[0]

    def depths(self, lanes: Sequence[Lane]) -> list[Depth]:
        """:meth:`depth` of many lanes in one round trip; each is seen in one moment."""
        if not lanes:
            return []
        answers = self._redis.again_for_each(_DEPTH, [lane_keys(lane)[:3] for lane in lanes])
        return [_depth(several(answer, 4)) for answer in several(answers, len(lanes))]

    def loads(self, lanes: Sequence[Lane], now: datetime) -> list[Load]:
        """What many lanes have for whoever asks now, in one round trip."""
        if not lanes:
            return []
        keys = [lane_keys(lane)[:3] for lane in lanes]
        answers = several(self._redis.again_for_each(_LOAD, keys, to_ms(now)), len(lanes))
        return [_load(several(answer, 3)) for answer in answers]

    def rates(self, lane: Lane, now: datetime) -> tuple[Rates, Rates]:
        """Submitted and processed requests per second over the last full 1, 5 and 60 seconds."""
        second = to_ms(now) // 1000
        submitted, processed = self._counts(lane)
        return rates(submitted, second), rates(processed, second)

    def per_second(self, lane: Lane, now: datetime) -> tuple[dict[int, int], dict[int, int]]:
        """Submitted and processed counts by epoch second; a second without any is missing."""
        second = to_ms(now) // 1000
        submitted, processed = self._counts(lane)
        return full_minute(submitted, second), full_minute(processed, second)

    def add_phases(self, lane: Lane, seconds: Mapping[str, float]) -> None:
        """Add to the lane's account of where workers spend their time."""
        if not seconds:
            return
        amounts = [argument for pair in seconds.items() for argument in pair]
        self._redis.once(_ADD_PHASES, (lane_keys(lane).phases,), PHASES_TTL_SECONDS, *amounts)

    def phases(self, lane: Lane) -> dict[str, float]:
        """That account, in seconds by phase."""
        (found,) = several(self._redis.together(("HGETALL", lane_keys(lane).phases)), 1)
        with self._redis.translated():
            return {name.decode(): float(spent) for name, spent in _mapping(found).items()}

    def _counts(self, lane: Lane) -> tuple[dict[int, int], dict[int, int]]:
        keys = lane_keys(lane)
        answers = self._redis.together(("HGETALL", keys.submitted), ("HGETALL", keys.processed))
        submitted, processed = several(answers, 2)
        with self._redis.translated():
            return (
                {int(at): int(count) for at, count in _mapping(submitted).items()},
                {int(at): int(count) for at, count in _mapping(processed).items()},
            )

    def _mend(self, lane: Lane, token: str, found: bytes, until_ms: int) -> list[Entry]:
        """Keep the leases of what can be read, in our spelling; drop what cannot."""
        entries = []
        for line in found.split(b"\n"):
            try:
                entries.append(read(line))
            except msgspec.DecodeError as reason:
                _log.warning(
                    "dropped a queue entry that cannot be read",
                    extra={"tenant": lane.tenant, "biz": lane.biz, "reason": str(reason)},
                )
        mended = spell(entries)
        whole(self._redis.once(_MEND, (lane_keys(lane).leases,), token, until_ms, found, mended))
        return entries


def _load(answer: list[object]) -> Load:
    ready, leased, following = answer
    return Load(
        ready=whole(ready),
        leased=whole(leased),
        next_ts=None if following is None else int(float(text(following))),
    )


def _depth(answer: list[object]) -> Depth:
    queued, leased, delayed, following = answer
    oldest_ts = None
    if following is not None:
        with suppress(msgspec.DecodeError):  # not an entry: the next lease drops it
            oldest_ts = read(text(following)).ts
    return Depth(
        queued=whole(queued), leased=whole(leased), delayed=whole(delayed), oldest_ts=oldest_ts
    )


def _mapping(answer: object) -> dict[bytes, bytes]:
    """A HASH as the driver hands it out; anything else is told apart where it is read."""
    if isinstance(answer, dict):
        return answer
    raise TypeError
