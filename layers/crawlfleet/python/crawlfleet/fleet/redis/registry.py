"""The registry of workers and their heartbeats in Redis (SPEC.md C5, C6, D1)."""

import math
from collections import defaultdict
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import msgspec

from crawlfleet.crawling.fetching.proxy_health import (
    HALF_LIFE_SECONDS,
    SHOWN_SECONDS,
    TRY_SECONDS,
    HeardProxies,
    PoolReport,
    ProxyNews,
    ProxyPoolState,
    ProxyReport,
    ProxyState,
)
from crawlfleet.fleet.failure_detector import (
    DETECTOR_LAPSE,
    LIVENESS,
    MEMORY,
    WAKE_TERM,
    WINDOW,
    Presence,
)
from crawlfleet.fleet.models import WorkerHeartbeats, WorkerStatus
from crawlfleet.kernel.queue_key import MAIN_POOL
from crawlfleet.kernel.redis.clock import server_time
from crawlfleet.kernel.redis.connection import RedisConnection, several, text, whole
from crawlfleet.kernel.redis.server import FleetKeys, Script, fleet_keys
from crawlfleet.kernel.time import from_ms, to_ms

if TYPE_CHECKING:
    from crawlfleet.crawling.fetching.proxy_exchange import ProxyExchange

_BEAT: Final = Script("fleet/redis/beat", "fleet/redis/proxies_prelude")
_READ_PROXIES: Final = Script("fleet/redis/read_proxies")
_REAP: Final = Script("fleet/redis/reap")
_RESERVE_WAKE: Final = Script("fleet/redis/reserve_wake")
_RETIRE: Final = Script("fleet/redis/retire")

_MILLISECOND: Final = timedelta(milliseconds=1)
_NO_STATUS: Final = WorkerStatus()
_encode: Final = msgspec.json.Encoder().encode


class RedisWorkers:
    """The workers of one pool that live, over all queues of the stage.

    Workers beat; whoever wants more of them reserves their start. A worker counts as live for
    ``liveness`` after its last beat; ``fleet`` keeps fleets apart that share a Redis.
    """

    def __init__(
        self,
        connection: RedisConnection,
        *,
        liveness: timedelta = LIVENESS,
        fleet: str = "fleet",
        pool: str = MAIN_POOL,
    ) -> None:
        self._redis = connection
        self._liveness = liveness
        self._keys = fleet_keys(fleet, pool)

    def beat(
        self,
        worker: str,
        now: datetime,
        worker_status: WorkerStatus = _NO_STATUS,
        proxies: "ProxyExchange | None" = None,
    ) -> bool:
        """Keep the worker alive; return True if it was known, False if it is new or was reaped.

        Its first beat takes the place of one reserved wake-up. ``now`` is what :meth:`live` and
        :meth:`reserve_wake` count by; the failure detector goes by the server's clock, under which
        the beat is kept as well. What the worker has seen of ``proxies`` goes with it, and what the
        fleet has seen comes with the answer.
        """
        presence = Presence.at(now, self._liveness)
        keys = self._keys
        said: list[str | int] = [""]
        if proxies is not None:
            reports = proxies.reports()
            said = [reports.seen, _ms(TRY_SECONDS), _ms(HALF_LIFE_SECONDS)]
            said += [*map(_proxy_line, reports.reports), *map(_pool_line, reports.pools)]
        answer = self._redis.once(
            _BEAT,
            (
                *(keys.workers, keys.wakes, keys.pulses, keys.intervals, keys.cards, keys.watch),
                *(keys.proxies, keys.proxies_seen, keys.proxies_news, keys.proxy_pools),
            ),
            *(worker, presence.now_ms, presence.live_after_ms, presence.forget_ms),
            *(_encode(worker_status), WINDOW, MEMORY // _MILLISECOND),
            *(DETECTOR_LAPSE // _MILLISECOND, *said),
        )
        known, *heard = several(answer, 1 if proxies is None else 2)
        if proxies is not None:
            with self._redis.translated():
                proxies.hear(_heard(*heard))
        return whole(known) == 1

    def leave(self, worker: str) -> None:
        """Deregister a worker that ends; nothing is kept of it."""
        whole(self._redis.again(_REAP, mortal_keys(self._keys), worker))

    def retire(self, worker: str, now: datetime, least: int) -> bool:
        """Deregister the worker unless fewer than ``least`` others live; return whether it was.

        Atomic over callers: of two, one ends where one has to stay. Wake-ups, and workers that are
        told to leave, do not count. Repeated as its answer was lost, it finds itself gone: it has
        ended all the same.
        """
        live_after_ms = Presence.at(now, self._liveness).live_after_ms
        keys = mortal_keys(self._keys)
        return whole(self._redis.again(_RETIRE, keys, worker, live_after_ms, least)) == 1

    def live(self, now: datetime | None = None) -> list[str]:
        """List the workers that live, then wake-ups that have not become workers yet.

        Without ``now`` it is the server's: workers beat by that, whatever the caller's clock says.
        """
        now = server_time(self._redis) if now is None else now
        presence = Presence.at(now, self._liveness)
        # In this order a wake-up that becomes a worker meanwhile is seen twice, and not overlooked.
        answers = self._redis.together(
            ("ZRANGEBYSCORE", self._keys.wakes, f"({presence.wakes_after_ms}", "+inf"),
            ("ZRANGEBYSCORE", self._keys.workers, f"({presence.live_after_ms}", "+inf"),
        )
        wakes, workers = several(answers, 2)
        with self._redis.translated():
            return [text(name).decode() for name in (*several(workers), *several(wakes))]

    def staying(self, now: datetime) -> list[str]:
        """List the workers that live and are not told to leave: they go on taking work."""
        live_after_ms = Presence.at(now, self._liveness).live_after_ms
        answers = self._redis.together(
            ("ZRANGEBYSCORE", self._keys.leaving, "-inf", "+inf"),
            ("ZRANGEBYSCORE", self._keys.workers, f"({live_after_ms}", "+inf"),
        )
        leaving, workers = several(answers, 2)
        with self._redis.translated():
            going = {text(name) for name in several(leaving)}
            return [text(name).decode() for name in several(workers) if text(name) not in going]

    def reserve_wake(self, now: datetime | None, wanted: int, most: int | None = None) -> int:
        """Reserve starts so that ``wanted`` workers live; return how many the caller is to start.

        Atomic over callers; no more than ``most``. Workers that are told to leave do not count.
        """
        spans = self._liveness, WAKE_TERM, max(MEMORY, self._liveness)
        return whole(
            self._redis.once(
                _RESERVE_WAKE,
                (self._keys.workers, self._keys.wakes, self._keys.leaving),
                *("" if now is None else to_ms(now), *(span // _MILLISECOND for span in spans)),
                *(wanted, f"wake:{uuid4().hex}"),
                wanted if most is None else most,
            )
        )


def _proxy_line(report: ProxyReport) -> str:
    """Write a report as proxies_prelude.lua reads it: words, none of them empty."""
    words = (
        *(report.pool, report.key, report.verb, report.place, report.answered, report.failed),
        *(_ms(report.spent_seconds), _ms(report.cool_down_seconds), report.cool_downs),
        report.fault,
    )
    return " ".join("".join(str(word).split()) or "-" for word in words)


def _pool_line(report: PoolReport) -> str:
    return f"{report.pool} - size {report.size} {report.away}"


def _ms(seconds: float) -> int:
    return math.ceil(seconds * 1_000)


def _heard(answer: object) -> HeardProxies:
    seen, told = several(answer, 2)
    return HeardProxies(
        seen=whole(seen), news=tuple(_news(several(one, 5)) for one in several(told))
    )


def _news(told: list[object]) -> ProxyNews:
    field, away_ms, cool_downs, try_ms, ask_ms = told
    pool, _, key = text(field).decode().partition(" ")
    return ProxyNews(
        pool=pool,
        key=key,
        cool_down_seconds=whole(away_ms) / 1_000,
        cool_downs=whole(cool_downs),
        try_seconds=whole(try_ms) / 1_000,
        ask_seconds=whole(ask_ms) / 1_000,
    )


#: Proxies that are read for people: those left out for longest, then those reported last.
_READ: Final = 2_000
#: Of each pool so many are shown.
_SHOWN: Final = 50


class RedisProxyPools:
    """The pools of proxies as their workers know them, for people."""

    def __init__(self, connection: RedisConnection, *, fleet: str = "fleet") -> None:
        self._redis = connection
        self._keys = fleet_keys(fleet)

    def states(self, pools: Collection[str]) -> list[ProxyPoolState]:
        """Read the state of these pools, in their order; the worst proxies of each."""
        if not pools:
            return []
        keys = self._keys
        answer = self._redis.again(
            _READ_PROXIES, (keys.proxies, keys.proxies_seen, keys.proxy_pools), _READ
        )
        now_ms, sizes, proxies = several(answer, 3)
        with self._redis.translated():
            oldest = whole(now_ms) - SHOWN_SECONDS * 1_000
            words = [text(one).decode().split() for one in several(sizes)]
            reported = {
                pool: (int(size), int(away)) for pool, size, away, at in words if int(at) >= oldest
            }
            found: defaultdict[str, list[ProxyState]] = defaultdict(list)
            for one in several(proxies):
                pool, _key, *figures = text(one).decode().split()
                if pool in pools and max(int(figures[4]), int(figures[5])) >= oldest:
                    found[pool].append(_proxy_state(figures))
        return [_pool_state(pool, reported.get(pool), found[pool]) for pool in pools]


def _proxy_state(figures: list[str]) -> ProxyState:
    place, answered, failed, spent_ms, at, until, cool_downs, _, _, fault, seen_by = figures
    count, lost = float(answered), float(failed)
    return ProxyState(
        place=place,
        until=from_ms(int(until)) if int(cool_downs) else None,
        cool_downs=int(cool_downs),
        answered=round(count),
        failed=round(lost),
        success_share=round(count / (count + lost), 4) if round(count + lost) else None,
        latency_seconds=round(float(spent_ms) / count / 1_000, 4) if round(count) else None,
        fault="" if fault == "-" else fault,
        seen_by="" if seen_by == "-" else seen_by,
        seen_at=from_ms(int(at)),
    )


def _pool_state(
    pool: str, reported: tuple[int, int] | None, proxies: list[ProxyState]
) -> ProxyPoolState:
    worst = sorted(proxies, key=lambda one: (-one.cool_downs, -one.failed, one.place))
    away = sum(one.is_away for one in proxies)
    size, left_out = reported or (None, away)
    return ProxyPoolState(name=pool, size=size, away=left_out, proxies=tuple(worst[:_SHOWN]))


def mortal_keys(keys: FleetKeys) -> tuple[str, str, str, str, str]:
    """The KEYS of reap.lua and retire.lua: all that is kept of a worker."""
    return keys.workers, keys.pulses, keys.intervals, keys.cards, keys.leaving


_ACQUIRE_LOCK: Final = Script("fleet/redis/acquire_lock")
_KEEP_LOCK: Final = Script("fleet/redis/keep_lock")
_RELEASE_LOCK: Final = Script("fleet/redis/release_lock")
_HEARTBEATS: Final = Script("fleet/redis/heartbeats")
_FOR_EVER_MS: Final = 2**52
_decode: Final = msgspec.json.Decoder(WorkerStatus).decode


class RedisFailureDetector:
    """The failure detector's view of all workers, and the locks of the fleet.

    Time is the server's, so that a worker's clock does not make it look dead. The fleet is observed
    as long as somebody reads or beats at least every ``lapse``: either shows that Redis answered,
    so that a silent worker could have beaten. After a longer pause silence counts from the next
    read or beat on, and only a read after that one can find a worker dead.
    """

    def __init__(
        self,
        connection: RedisConnection,
        *,
        lapse: timedelta = DETECTOR_LAPSE,
        fleet: str = "fleet",
    ) -> None:
        self._redis = connection
        self._lapse_ms = lapse // _MILLISECOND
        self._fleet = fleet
        self._keys = fleet_keys(fleet)

    def acquire_lock(self, name: str, holder: str, every: timedelta, term: timedelta) -> bool:
        """Give the lock ``name`` to one holder at a time, and at most once ``every``.

        A holder that does not come back loses it after ``term``. Not repeated when the answer is
        lost: a lock that nobody knows of ends after its term.
        """
        spans_ms = every // _MILLISECOND, term // _MILLISECOND
        keys = (self._keys.turns,)
        return whole(self._redis.once(_ACQUIRE_LOCK, keys, name, holder, *spans_ms)) == 1

    def keep_lock(self, name: str, holder: str, term: timedelta) -> bool:
        """Have a lock end a term from now; False if it is another's, or nobody's, by now."""
        keys, term_ms = (self._keys.turns,), term // _MILLISECOND
        return whole(self._redis.again(_KEEP_LOCK, keys, name, holder, term_ms)) == 1

    def release_lock(self, name: str, holder: str) -> None:
        """Release a lock; no effect if it is another holder's now."""
        whole(self._redis.again(_RELEASE_LOCK, (self._keys.turns,), name, holder))

    def heartbeats(self, silent_for: timedelta | None = None) -> list[WorkerHeartbeats]:
        """Read the heartbeats of workers silent for so long, or of all, the longest silent first.

        Reading observes the fleet. It costs by the workers that are returned, not by the fleet.
        """
        keys = self._keys
        places = (keys.pulses, keys.intervals, keys.cards, keys.watch)
        silent_ms = (silent_for or timedelta()) // _MILLISECOND
        found = several(self._redis.again(_HEARTBEATS, places, silent_ms, self._lapse_ms))
        with self._redis.translated():
            _, *heartbeats = found
            return [_beats(several(one, 5)) for one in heartbeats]

    def observed_for(self) -> timedelta:
        """Tell how long the fleet was observed without a lapse; nearly 0 after a flush of Redis.

        It reads once, and so it observes.
        """
        keys = self._keys
        places = (keys.pulses, keys.intervals, keys.cards, keys.watch)
        # Nobody is silent for longer than for ever: no worker is read.
        found = several(self._redis.again(_HEARTBEATS, places, _FOR_EVER_MS, self._lapse_ms), 1)
        return whole(found[0]) * _MILLISECOND

    def reap(self, worker: str, pool: str = MAIN_POOL) -> bool:
        """Forget a dead worker of that pool; return False if it was not known any more.

        If it beats again it is new. Not repeated when the answer is lost: it says whether it was
        this call that reaped it.
        """
        keys = mortal_keys(fleet_keys(self._fleet, pool))
        return whole(self._redis.once(_REAP, keys, worker)) == 1


def _beats(answer: list[object]) -> WorkerHeartbeats:
    worker, silent_ms, intervals, worker_status, beat_ms = answer
    return WorkerHeartbeats(
        worker=text(worker).decode(),
        silent_ms=whole(silent_ms),
        beat_ms=whole(beat_ms),
        intervals=tuple(int(interval) for interval in text(intervals).split()),
        worker_status=_worker_status(text(worker_status)),
    )


def _worker_status(found: bytes) -> WorkerStatus:
    """Decode a worker's status; an empty one if a version of ours wrote it in another form."""
    try:
        return _decode(found)
    except msgspec.DecodeError:
        return WorkerStatus()
