"""Deliver: lease a receiver that is due, push what waits for it, settle what came of it.

1. Lease the receiver that is due for longest. Others have theirs; nobody waits for a slow one.
2. Push its deliveries in batches, the oldest first, each while the lease outlasts the call. After
   each batch what was taken is settled: who dies in between has pushed that batch, which is pushed
   again with the same ids.
3. A receiver that does not answer is left alone for longer each time; its deliveries stay as they
   are. What it has taken nothing of for a day are dead letters.
4. A message that it said no to, while it took others, is tried again alone, and then given up.

Some threads leave receivers alone that were slow, so that however many of these there are others
are served. A tenant that has its part of the threads, by the number of tenants that have any and of
one more, has no other thread while another tenant's receiver is due.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from crawlfleet.kernel.errors import CrawlfleetError, MessageRefusedError, StoreUnavailableError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.time import Clock
from crawlfleet.streams.delivery import messages, retries
from crawlfleet.streams.delivery.figures import Tally
from crawlfleet.streams.delivery.messages import LIMITS, Message
from crawlfleet.streams.delivery.models import Delivery, Fault, Lease, Reason
from crawlfleet.streams.delivery.mongo.leasing import MongoLeasing
from crawlfleet.streams.delivery.mongo.outbox import AT_ONCE
from crawlfleet.streams.targets import Target, TargetKind

log = logging.getLogger(__name__)

#: A receiver is one deliverer's for so long.
TERM: Final = timedelta(seconds=60)
#: The longest that a call takes by its time-outs, and that settling it takes.
CALL: Final = timedelta(seconds=20)
#: A receiver with more to do is left after so long, for those who wait.
SLICE: Final = timedelta(seconds=10)
#: A receiver that took so long for a call is slow.
SLOW_SECONDS: Final = 1.0
#: Calls that are read ahead.
_AHEAD: Final = 20
#: Parts of what waits for too long that are given up at once.
_PARTS: Final = 10
THREADS: Final = 8
#: A thread that found nothing due looks again after this.
IDLE_SECONDS: Final = 1.0


class Pusher(Protocol):
    """A service that takes batches: AwsPusher, RedisPusher."""

    def push(self, target: Target, batch: Sequence[Message]) -> list[Fault | None]: ...  # noqa: D102


@dataclass(slots=True)
class Worked:
    """Count what came of the deliveries of one lease."""

    delivered: int = 0
    retried: int = 0
    dead: int = 0
    #: What the receiver's failure was, where it did not answer.
    error: str = ""


@dataclass(kw_only=True)
class Deliverer:
    """Deliver to one receiver after the other; threads may share it.

    ``is_allowed`` says whether a tenant may have a target now.
    """

    outbox: MongoLeasing
    pushers: Mapping[TargetKind, Pusher]
    is_allowed: Callable[[str, Target], bool]
    by: str
    clock: Clock = lambda: datetime.now(UTC)
    steady: Callable[[], float] = field(default=time.monotonic)
    tally: Tally = field(default_factory=Tally)
    threads: int = THREADS
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _working: Counter[str] = field(default_factory=Counter, init=False)

    def deliver_next(self, *, quick_only: bool = False) -> Worked | None:
        """Work for the receiver that is due for longest, for a while; None where none is due.

        Raises:
            StoreUnavailableError: MongoDB does not answer; what was pushed may be pushed again.
        """
        lease = self._leased(quick_only=quick_only)
        if lease is None:
            return None
        try:
            return _Turn(self, lease).work()
        finally:
            with self._lock:
                self._working[lease.tenant] -= 1
                if not self._working[lease.tenant]:
                    del self._working[lease.tenant]

    def _leased(self, *, quick_only: bool) -> Lease | None:
        """Lease a receiver, one thread at a time: each knows for whom the others work."""
        with self._lock:
            part = max(1, self.threads // (len(self._working) + 1))
            busy = [tenant for tenant, count in self._working.items() if count >= part]
            lease = self._lease(quick_only=quick_only, without=busy) if busy else None
            lease = lease or self._lease(quick_only=quick_only)
            if lease is not None:
                self._working[lease.tenant] += 1
            return lease

    def _lease(self, *, quick_only: bool, without: Sequence[str] = ()) -> Lease | None:
        now = self.clock()
        return self.outbox.lease(self.by, now, TERM, quick_only=quick_only, without=without)


class _AwayError(Exception):
    """The receiver takes nothing now; says why."""


class _Turn:
    """The work for one receiver under one lease."""

    def __init__(self, deliverer: Deliverer, lease: Lease) -> None:
        self._at, self._lease = deliverer, lease
        self._limits = LIMITS[lease.target.kind]
        self._worked = Worked()
        self._is_slow = False

    def work(self) -> Worked:
        """Push what is due until nothing is, or others are to have their turn."""
        at, lease = self._at, self._lease
        if not at.is_allowed(lease.tenant, lease.target):
            self._failed("the stage's configuration does not allow this target any more")
            return self._worked
        try:
            self._push_all()
        except _AwayError as away:
            self._failed(str(away))
        else:
            at.outbox.rest(lease, at.clock(), slow=self._is_slow)
        return self._worked

    def _push_all(self) -> None:
        at = self._at
        ends_at = min(at.clock() + SLICE, self._lease.until - CALL)
        while due := at.outbox.due(self._lease, at.clock(), self._limits.most * _AHEAD):
            for batch in messages.batches(self._prepared(due), self._limits):
                if at.clock() >= ends_at:
                    return
                self._note(batch, self._pushed(batch))

    def _prepared(self, due: Sequence[Delivery]) -> list[Message]:
        """Make messages; settle what there is nothing to say of, bury what no call takes."""
        made = [messages.message_of(one) for one in due]
        nothing = [one for one, message in zip(due, made, strict=True) if message is None]
        if nothing:
            self._at.outbox.settle(nothing, self._at.clock())
        found = [message for message in made if message is not None]
        large = [one for one in found if messages.is_too_large(one, self._limits)]
        if large:
            why = Reason.TOO_LARGE, f"has more than {self._limits.size} bytes"
            self._bury({one.delivery: why for one in large})
        return [one for one in found if one not in large]

    def _pushed(self, batch: Sequence[Message]) -> list[Fault | None]:
        """Push a batch; one message at a time, where the receiver finds fault with all of it."""
        target = self._lease.target
        pusher, began = self._at.pushers[target.kind], self._at.steady()
        try:
            return pusher.push(target, batch)
        except MessageRefusedError as error:
            if len(batch) == 1:
                return [Fault(text=str(error), is_final=True)]
            return [fault for one in batch for fault in self._pushed([one])]
        except StoreUnavailableError as error:
            raise _AwayError(str(error)) from error
        finally:
            self._is_slow = self._is_slow or self._at.steady() - began >= SLOW_SECONDS

    def _note(self, batch: Sequence[Message], faults: Sequence[Fault | None]) -> None:
        """Settle what was taken; where nothing was, and may be later, the receiver is away."""
        at, now = self._at, self._at.clock()
        answers = [(one.delivery, fault) for one, fault in zip(batch, faults, strict=True)]
        taken = [one for one, fault in answers if fault is None]
        again = {one: fault for one, fault in answers if fault and not fault.is_final}
        at.outbox.settle(taken, now)
        at.tally.pushed(taken, now)
        self._worked.delivered += len(taken)
        final = {one: fault for one, fault in answers if fault and fault.is_final}
        self._bury({one: (Reason.REFUSED, fault.text) for one, fault in final.items()})
        if len(again) == len(batch):
            raise _AwayError(next(iter(again.values())).text)
        out = {one: fault for one, fault in again.items() if retries.is_tried_out(one.tries + 1)}
        self._bury({one: (Reason.TRIED_OUT, fault.text) for one, fault in out.items()})
        later = [one for one in again if one not in out]
        at.outbox.retry({one: retries.again_at(one.tries + 1, one.key, now) for one in later})
        self._worked.retried += len(later)

    def _bury(self, dead: Mapping[Delivery, tuple[Reason, str]]) -> None:
        if dead:
            self._at.outbox.bury(dead, self._at.clock())
            self._worked.dead += len(dead)

    def _failed(self, error: str) -> None:
        """Leave the receiver alone for a while; give up what waits for it for too long."""
        at, lease, now = self._at, self._lease, self._at.clock()
        self._worked.error = error
        before = retries.given_up_before(now)
        for _ in range(_PARTS):
            count = at.outbox.bury_old(lease, before, error, now)
            self._worked.dead += count
            if count < AT_ONCE:
                break
        at.outbox.back_off(
            lease,
            retries.again_at(lease.failures + 1, lease.receiver, now),
            lease.failing_since or now,
            error,
            slow=self._is_slow,
        )
        if not lease.failures:
            where = {"tenant": lease.tenant, "target": lease.target.address, "error": error}
            log.warning("a receiver of streams takes nothing", extra=where)


def run(deliverer: Deliverer, stop: threading.Event, threads: int = THREADS) -> None:
    """Deliver in threads until told to stop; each ends when it has settled what it has pushed."""

    def go_on(number: int) -> None:
        while not stop.is_set():
            try:
                # Every other one is for receivers that are quick.
                worked = deliverer.deliver_next(quick_only=number % 2 == 1)
            except CrawlfleetError as error:
                warn("deliveries are not worked for", error)
                worked = None
            if worked is None:
                stop.wait(IDLE_SECONDS)

    working = [threading.Thread(target=go_on, args=(number,)) for number in range(threads)]
    for one in working:
        one.start()
    for one in working:
        one.join()
