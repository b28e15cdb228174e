"""The request queue on Redis: submissions enter it, workers lease from it (SPEC.md A6, A7).

Entries may repeat: the claim in MongoDB decides. An entry is one JSON object a line.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from math import log2
from typing import Final

import msgspec

from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import USUAL_AGEING, Ageing, QueueKey
from crawlfleet.kernel.redis.connection import RedisConnection, nonsense, several, text, whole
from crawlfleet.kernel.redis.server import Script
from crawlfleet.kernel.time import to_ms
from crawlfleet.requests.models import Entry
from crawlfleet.requests.queue.ageing import (
    LOOKED_AT,
    NO_TS,
    DeferredHost,
    deferred_hosts,
    kept,
    place,
    ready_count,
)
from crawlfleet.requests.queue.redis.keys import host_list, host_lists, level_keys, redis_keys
from crawlfleet.requests.queue.redis.open_queues import RedisOpenQueues
from crawlfleet.requests.queue.stats import Depth, Load, Rates, full_minute, rates

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Entry)


def spell(entries: Sequence[Entry]) -> bytes:
    """Write one line an entry."""
    return _encoder.encode_lines(entries)


def read(line: bytes) -> Entry:
    """Read one entry, whatever its spelling.

    Raises:
        msgspec.DecodeError: it is none.
    """
    return _decoder.decode(line)


def read_canonical(lines: bytes) -> list[Entry] | None:
    """Read entries; None unless each line is exactly what we would write."""
    if not lines:
        return []
    try:
        entries = _decoder.decode_lines(lines)
    except msgspec.DecodeError:
        return None
    return entries if spell(entries) == lines + b"\n" else None


def check_token(token: str) -> None:
    """Raise ValueError for a token with ``:{``, which separates it from its entry."""
    if ":{" in token:
        raise ValueError(f"a lease token must not contain ':{{': {token!r}")


#: A queue is announced again by a process after this: much sooner than it would be forgotten.
ANNOUNCED_SECONDS: Final = 10.0
#: An account of phases is forgotten when it was not added to for this long.
PHASES_TTL_SECONDS: Final = 7 * 86_400

_NO_DEPTH: Final = Depth(queued=0, leased=0, delayed=0, away=True)
_NO_LOAD: Final = Load(ready=0, leased=0, away=True)

_log = logging.getLogger(__name__)

_LEVELS: Final = "requests/queue/levels_prelude"
_AGES: Final = "requests/queue/ageing_prelude"
_DEFERS: Final = "requests/queue/deferral_prelude"
_ENQUEUE: Final = Script("requests/queue/redis/enqueue", _LEVELS)
_REQUEUE: Final = Script("requests/queue/redis/requeue")
_LEASE: Final = Script("requests/queue/redis/lease", _LEVELS, _AGES)
_MEND: Final = Script("requests/queue/redis/mend")
_RENEW: Final = Script("requests/queue/redis/renew")
_FINISH: Final = Script("requests/queue/redis/finish")
_GIVE_BACK: Final = Script("requests/queue/redis/give_back", _LEVELS)
_RETURN: Final = Script("requests/queue/redis/return_unconfirmed", _LEVELS)
_DELAY: Final = Script("requests/queue/redis/delay")
_DEFER: Final = Script("requests/queue/redis/defer", _DEFERS)
_LIST_DEFERRED: Final = Script("requests/queue/redis/list_deferred", _DEFERS)
_LEASE_DEFERRED: Final = Script("requests/queue/redis/lease_deferred", _DEFERS, _AGES)
_DEPTH: Final = Script("requests/queue/redis/depth", _LEVELS)
_LOAD: Final = Script("requests/queue/redis/load", _LEVELS)
_ADD_PHASES: Final = Script("requests/queue/redis/add_phases")


class RedisQueue:
    """Queue, lease and defer entries; every transition is one script, one round trip.

    The batch of a call is one argument and one answer, a JSON object a line: encoding a line costs
    less than the driver's care of an argument. A token with ``:{`` is a ValueError
    (:func:`check_token`). Priorities age by the server's clock where ``clock`` is not given.
    """

    def __init__(
        self, connection: RedisConnection, *, clock: Callable[[], datetime] | None = None
    ) -> None:
        self._redis, self._clock = connection, clock
        #: The queues that may have something.
        self.open = RedisOpenQueues(connection)
        self._announced: dict[QueueKey, float] = {}

    def announce(self, queues: Iterable[QueueKey]) -> None:
        """Announce that something comes into queues, unless this process did so a moment ago.

        Where that fails recovery finds the queues, and so nobody waits for it again and again.
        """
        now = time.time()  # the monotonic clock may stand still while a function is frozen
        # Threads share it: it is replaced and never changed.
        known = {
            one: at for one, at in self._announced.items() if 0 <= now - at < ANNOUNCED_SECONDS
        }
        new = [one for one in queues if one not in known]
        if not new:
            return
        self._announced = {**known, **dict.fromkeys(new, now)}
        try:
            self.open.announce(new)
        except StoreUnavailableError as error:
            warn("queues could not be announced; recovery does it", error)

    def enqueue(self, queue_key: QueueKey, entries: Sequence[Entry], now: datetime) -> int:
        """Append, and count towards the biz's submission rate; return how many wait, with these."""
        if not entries:
            depth = self.depth(queue_key)
            return depth.queued - depth.deferred
        self.announce((queue_key,))
        places = (redis_keys(queue_key).submitted, *level_keys(queue_key))
        return whole(self._redis.once(_ENQUEUE, places, to_ms(now) // 1000, spell(entries)))

    def requeue(self, queue_key: QueueKey, entries: Sequence[Entry]) -> None:
        """Put recovered entries where those of their priority are served next; not counted."""
        self.announce((queue_key,))
        by_level: dict[int, list[Entry]] = defaultdict(list)
        for entry in entries:
            by_level[entry.priority].append(entry)
        # One key a call: of a slot that is moved between nodes several cannot be had.
        for level, part in by_level.items():
            self._redis.once(_REQUEUE, (level_keys(queue_key)[level],), spell(part))

    def lease(
        self,
        queue_key: QueueKey,
        token: str,
        count: int,
        now: datetime,
        until: datetime,
        ageing: Ageing = USUAL_AGEING,
    ) -> list[Entry]:
        """Move up to ``count`` entries to the token's lease. Empty when none wait.

        Due retries come first, then entries of leases that have ended, then the queue: each time
        the oldest entry of the priority that weighs most (requests.queue.ageing). Ticks go by the
        server's clock; ``now`` is the caller's. What something else has pushed is spelled anew if
        it is an entry, and dropped if not.
        """
        check_token(token)
        if count < 1:
            return []
        keys, until_ms = redis_keys(queue_key), to_ms(until)
        places = (keys.leases, keys.delayed, keys.ticks, *level_keys(queue_key))
        arguments = (token, count, to_ms(now), until_ms, *self._ageing(ageing))
        found = text(self._redis.once(_LEASE, places, *arguments))
        entries = read_canonical(found)
        return self._mend(queue_key, token, found, until_ms) if entries is None else entries

    def renew(
        self, queue_key: QueueKey, token: str, entries: Sequence[Entry], until: datetime
    ) -> list[Entry]:
        """Extend the lease of ``entries``; returns those that the token no longer holds."""
        if not entries:
            return []
        leases = (redis_keys(queue_key).leases,)
        lost = self._redis.again(_RENEW, leases, token, to_ms(until), spell(entries))
        return read_canonical(text(lost)) or []

    def finish(
        self,
        queue_key: QueueKey,
        token: str,
        entries: Sequence[Entry],
        processed: int,
        now: datetime,
    ) -> int:
        """Drop the token's entries, add ``processed`` to the rate; returns how many it held."""
        keys = redis_keys(queue_key)
        arguments = (token, to_ms(now) // 1000, processed, spell(entries))
        return whole(self._redis.once(_FINISH, (keys.leases, keys.processed), *arguments))

    def give_back(self, queue_key: QueueKey, token: str, entries: Sequence[Entry]) -> int:
        """Return entries still held by the token to where they are served next."""
        if not entries:
            return 0
        places = (redis_keys(queue_key).leases, *level_keys(queue_key))
        return whole(self._redis.once(_GIVE_BACK, places, token, spell(entries)))

    def return_unconfirmed(self, queue_key: QueueKey, token: str, until: datetime) -> int:
        """Return to the queue what a lease has moved whose answer was lost; count the entries.

        That is what the token holds until then: what was renewed it knows of. They go where they
        are served next, also those that had waited for a host. The lease may have come to nothing,
        or be made later than this: call again to look again.
        """
        places = (redis_keys(queue_key).leases, *level_keys(queue_key))
        return whole(self._redis.again(_RETURN, places, token, to_ms(until)))

    def delay(
        self, queue_key: QueueKey, token: str, entries: Sequence[tuple[Entry, datetime]]
    ) -> int:
        """Move entries still held by the token to the waiting set, each until its time."""
        if not entries:
            return 0
        keys, dues = redis_keys(queue_key), "\n".join(str(to_ms(due_at)) for _, due_at in entries)
        lines = spell([entry for entry, _ in entries])
        return whole(self._redis.once(_DELAY, (keys.leases, keys.delayed), token, lines, dues))

    def defer(
        self,
        queue_key: QueueKey,
        token: str,
        hosts: Sequence[tuple[str, datetime, Sequence[Entry]]],
    ) -> int:
        """Move entries still held by the token to the end of their host's lists; return how many.

        There is one for each priority, served in the order in which it was made. The host is looked
        at again at that time (the latest one given counts).
        """
        keys, arguments = list(_deferral(queue_key)), list[str | bytes | int]([token])
        for host, again_at, entries in hosts:
            by_level: dict[int, list[Entry]] = defaultdict(list)
            for entry in entries:
                by_level[entry.priority].append(entry)
            for level, part in by_level.items():
                at, least = place(host, level), min(one.ts for one in part)
                keys.append(host_list(queue_key, at))
                arguments += (host, at, to_ms(again_at), least, spell(part))
        if len(arguments) == 1:
            return 0
        return whole(self._redis.once(_DEFER, keys, *arguments))

    def deferred(self, queue_key: QueueKey, now: datetime, limit: int) -> list[DeferredHost]:
        """List hosts whose time has come and that have entries, the longest due first."""
        if limit < 1:
            return []
        answer = self._redis.again(_LIST_DEFERRED, _deferral(queue_key)[1:], to_ms(now), limit)
        with self._redis.translated():
            count, *found = several(answer)
            several(found, 3 * whole(count))
            return deferred_hosts(
                (text(found[n]).decode(), whole(found[n + 1]), int(float(text(found[n + 2]))))
                for n in range(0, len(found), 3)
            )

    def lease_deferred(
        self,
        queue_key: QueueKey,
        token: str,
        hosts: Sequence[tuple[str, int, datetime]],
        until: datetime,
        ageing: Ageing = USUAL_AGEING,
    ) -> dict[str, list[Entry]]:
        """Move up to so many entries of each host to the token's lease.

        Of a host's priorities the one is next of which the oldest weighs most
        (requests.queue.ageing). Where some are left, the host is looked at again at the time given.
        """
        check_token(token)
        if not hosts:
            return {}
        lists = (key for host, _, _ in hosts for key in host_lists(queue_key, host))
        keys = [*_deferral(queue_key), *lists]
        until_ms = to_ms(until)
        arguments: list[str | bytes | int | float] = [token, until_ms, *self._ageing(ageing)]
        for host, count, again_at in hosts:
            arguments += (host, max(0, count), to_ms(again_at))
        answers = several(self._redis.once(_LEASE_DEFERRED, keys, *arguments), len(hosts))
        leased: dict[str, list[Entry]] = {}
        for (host, _, _), answer in zip(hosts, answers, strict=True):
            found = text(answer)
            entries = read_canonical(found)
            if entries is None:
                entries = self._mend(queue_key, token, found, until_ms)
            leased.setdefault(host, []).extend(entries)
        return leased

    def look_at(self, queue_key: QueueKey, hosts: Sequence[str], now: datetime) -> None:
        """Have deferred lists of hosts, or of accounts of quotas, be looked at now."""
        self.announce((queue_key,))
        self.lease_deferred(queue_key, "", [(host, 0, now) for host in hosts], now)

    def depth(self, queue_key: QueueKey) -> Depth:
        """Count what is queued, leased, delayed and deferred; tell what is served next."""
        return self.depths((queue_key,))[0]

    def depths(self, queues: Sequence[QueueKey]) -> list[Depth]:
        """Get :meth:`depth` of many queues, many a round trip; each is of one moment.

        Where a node of a cluster is away, its queues' are ``away``; where all are this fails.
        """
        if not queues:
            return []
        each = [(_in_place(queue_key, "parked_low"), ()) for queue_key in queues]
        answers = self._redis.queue_by_queue(_DEPTH, each)
        return [
            _NO_DEPTH if isinstance(answer, StoreUnavailableError) else _depth(several(answer))
            for answer in several(answers, len(queues))
        ]

    def loads(self, queues: Sequence[QueueKey], now: datetime) -> list[Load]:
        """Count what many queues have for a lease now, many a round trip."""
        if not queues:
            return []
        asked = to_ms(now), LOOKED_AT
        each = [(_in_place(queue_key, "parked_due"), asked) for queue_key in queues]
        answers = self._redis.queue_by_queue(_LOAD, each)
        return [
            _NO_LOAD if isinstance(answer, StoreUnavailableError) else _load(several(answer))
            for answer in several(answers, len(queues))
        ]

    def rates(self, queue_key: QueueKey, now: datetime) -> tuple[Rates, Rates]:
        """Return submitted and processed requests a second, over the last 1, 5 and 60."""
        second = to_ms(now) // 1000
        submitted, processed = self._counts(queue_key)
        return rates(submitted, second), rates(processed, second)

    def per_second(
        self, queue_key: QueueKey, now: datetime
    ) -> tuple[dict[int, int], dict[int, int]]:
        """Return submitted and processed counts by epoch second; an empty second is missing."""
        second = to_ms(now) // 1000
        submitted, processed = self._counts(queue_key)
        return full_minute(submitted, second), full_minute(processed, second)

    def add_phases(self, queue_key: QueueKey, seconds: Mapping[str, float]) -> None:
        """Add to the biz's account of where workers spend their time."""
        if not seconds:
            return
        amounts = [argument for pair in seconds.items() for argument in pair]
        self._redis.once(_ADD_PHASES, (redis_keys(queue_key).phases,), PHASES_TTL_SECONDS, *amounts)

    def phases(self, queue_key: QueueKey) -> dict[str, float]:
        """Return that account, in seconds by phase."""
        (found,) = several(self._redis.together(("HGETALL", redis_keys(queue_key).phases)), 1)
        with self._redis.translated():
            return {name.decode(): float(spent) for name, spent in _mapping(found).items()}

    def _counts(self, queue_key: QueueKey) -> tuple[dict[int, int], dict[int, int]]:
        keys = redis_keys(queue_key)
        # In this order nothing is seen processed that was not submitted.
        answers = self._redis.together(("HGETALL", keys.processed), ("HGETALL", keys.submitted))
        processed, submitted = several(answers, 2)
        with self._redis.translated():
            return (
                {int(at): int(count) for at, count in _mapping(submitted).items()},
                {int(at): int(count) for at, count in _mapping(processed).items()},
            )

    def _ageing(self, ageing: Ageing) -> tuple[str | int | float, ...]:
        """Return how priorities age, and by which clock."""
        clock = "" if self._clock is None else to_ms(self._clock())
        most = kept(ageing.beta, ageing.clamp)
        return ageing.interval_ms, ageing.beta, log2(ageing.clamp), most, clock

    def _mend(self, queue_key: QueueKey, token: str, found: bytes, until_ms: int) -> list[Entry]:
        """Keep the leases of what can be read, in our spelling; drop what cannot."""
        entries = []
        for line in found.split(b"\n"):
            try:
                entries.append(read(line))
            except msgspec.DecodeError as reason:
                _log.warning(
                    "dropped a queue entry that cannot be read",
                    extra={"tenant": queue_key.tenant, "biz": queue_key.biz, "reason": str(reason)},
                )
        leases = (redis_keys(queue_key).leases,)
        whole(self._redis.once(_MEND, leases, token, until_ms, found, spell(entries)))
        return entries


def _deferral(queue_key: QueueKey) -> tuple[str, str, str, str]:
    """Return the keys between which entries move when deferred and leased again."""
    keys = redis_keys(queue_key)
    return keys.leases, keys.parked, keys.parked_due, keys.parked_low


def _in_place(queue_key: QueueKey, by: str) -> tuple[str, ...]:
    """Return the keys of a queue's entries, and the order of what is deferred."""
    keys = redis_keys(queue_key)
    return keys.leases, keys.delayed, keys.parked, getattr(keys, by), *level_keys(queue_key)


def _load(answer: list[object]) -> Load:
    if len(answer) < 4:
        raise nonsense()
    ready, leased, following, due, *counts = answer
    return Load(
        ready=whole(ready) + ready_count([whole(count) for count in counts], whole(due)),
        leased=whole(leased),
        next_ts=None if following is None else int(float(text(following))),
    )


def _depth(answer: list[object]) -> Depth:
    if len(answer) < 4 or (len(answer) - 4) % 3:
        raise nonsense()
    leased, delayed, deferred, low, *lists = answer
    heads: dict[int, int] = {}
    for level, head in zip(lists[::3], lists[2::3], strict=True):
        with suppress(msgspec.DecodeError):  # not an entry: the next lease drops it
            heads[whole(level)] = read(text(head)).ts
    least = NO_TS if low is None else int(float(text(low)))
    oldest = min([least, *heads.values()])
    waiting = max(0, int(text(deferred)))
    return Depth(
        queued=sum(map(whole, lists[1::3])) + waiting,
        deferred=waiting,
        leased=whole(leased),
        delayed=whole(delayed),
        oldest_ts=None if oldest == NO_TS else oldest,
        heads=heads,
        deferred_ts=None if least == NO_TS else least,
    )


def _mapping(answer: object) -> dict[bytes, bytes]:
    """Return a HASH as the driver hands it out; anything else is a fault where it is read."""
    if isinstance(answer, dict):
        return answer
    raise TypeError
