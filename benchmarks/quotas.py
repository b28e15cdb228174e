"""Workers under one quota: how far it is missed by some, what ten thousand ask of the stores.

Workers of different speeds have more to do than the quota allows. Their purses exchange with a real
ledger in Redis, whose clock is the simulation's; ceilings are kept in memory and their writes
counted. Workers are killed with shares in their hands, cut off for longer than a lease, and have
clocks that run at other speeds; answers get lost; once Redis loses all it has. Whatever a killed
worker had begun counts as used.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from benchmarks.bench import Bench, Found
from crawlfleet.config.documents.quota import NANO_DOLLARS, Quota, QuotaPeriod, QuotaUnit
from crawlfleet.fleet.quotas.models import Account, Booked, Limit, Scope, Window, window_of
from crawlfleet.fleet.quotas.mongo import Ceiling
from crawlfleet.fleet.quotas.purse import Purse
from crawlfleet.fleet.quotas.redis import RedisQuotaLedgers, ledger_keys
from crawlfleet.fleet.quotas.service import QuotaLedgers, Wish
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.redis.connection import RedisConnection

#: Requests of the limit for each worker: some forty seconds of work; and of one that lasts.
EACH: Final = 400
EACH_LASTING: Final = 20_000
#: Workers under a budget in money, and pages of it for each.
PAYING: Final = 20
EACH_PAYING: Final = 2_000
#: Of the workers one in so many uses a quota to its end.
PART: Final = 20
#: Messages are counted for so long, once all have begun and know how fast they are.
BEGUN_SECONDS: Final = 20.0
COUNTED_SECONDS: Final = 20.0
STEP_SECONDS: Final = 0.5
#: A worker lives for about so long before it is killed, and is cut off as often.
LIFE_SECONDS: Final = 900.0
CUT_OFF_SECONDS: Final = 60.0
#: Of a hundred exchanges so many get no answer.
LOST: Final = 0.01
#: A download takes about so long, so that many are under way at any moment.
PAGE_SECONDS: Final = 1.0
#: The end: nobody has got anything for so long.
QUIET_SECONDS: Final = 45.0
#: When Redis loses what it has, in the second of two runs.
LOSS_AT: Final = 12.0
_BEGAN: Final = datetime(2026, 11, 23, 12, tzinfo=UTC)


def bound(most: int, shares: Sequence[int], *, is_rate: bool) -> float:
    """Return the part of a quota that may be used beyond it, as docs/guides/quotas.md states it.

    ``shares`` are the largest ones of the workers that were killed or cut off.

    >>> bound(1_000, [5, 25], is_rate=True), bound(1_000, [5], is_rate=True)
    (0.03, 0.01)
    >>> bound(1_000, [5, 25], is_rate=False)
    0.0
    """
    return max(0.01, sum(shares) / most) if is_rate else 0.0


class Ceilings:
    """Ceilings in memory, as MongoDB keeps them; ``writes`` counts."""

    def __init__(self) -> None:
        self._kept: dict[Account, Ceiling] = {}
        self.writes = 0

    def open(self, limit: Limit, _: Window, fresh: str, stale: str, __: datetime) -> Ceiling:
        """Have the fresh ledger, but where another one was begun meanwhile."""
        standing = self._kept.get(limit.account, Ceiling("", 0))
        if standing.nonce and not (standing.nonce == stale or (not stale and standing.given)):
            return standing
        self.writes += 1
        self._kept[limit.account] = Ceiling(fresh, standing.given)
        return self._kept[limit.account]

    def raise_to(self, limit: Limit, _: Window, known: Ceiling, given: int, __: datetime) -> bool:
        """Raise the ceiling, if it is still the known one."""
        self.writes += 1
        if self._kept.get(limit.account) != known:
            return False
        self._kept[limit.account] = Ceiling(known.nonce, given)
        return True

    def read(self, accounts: Sequence[tuple[Limit, Window]]) -> list[Ceiling | None]:
        """Read ceilings."""
        return [self._kept.get(limit.account) for limit, _ in accounts]


class Worker:
    """A worker that has more to do than it may, and what it has under way."""

    def __init__(self, scene: "Scene", number: int) -> None:
        draw = scene.draw
        self.name = f"w{number}"
        self.per_second = min(60.0, draw.lognormvariate(2.2, 0.6))
        self.drift = 1.0 + draw.uniform(-0.001, 0.001)
        self.cut_off_until = 0.0
        #: The most that it held at once, and may have spent unheard.
        self.largest = 0
        self.service = QuotaLedgers(scene.ledgers, scene.ceilings)  # type: ignore[arg-type]
        self.purse = Purse(
            scene.limit.quota.amount,
            is_rate=scene.limit.account.is_rate,
            now=scene.now * self.drift,
        )
        self.running: list[tuple[float, int]] = []
        self._due = 0.0

    def step(self, scene: "Scene") -> int:
        """End what is done, begin what may be; return how many requests begin."""
        now, steady = scene.now, scene.now * self.drift
        while self.running and self.running[0][0] <= now:
            _, count = self.running.pop(0)
            self.purse.settle(count * scene.reserved, count * scene.costs)
        self._due = min(self._due + self.per_second * STEP_SECONDS, 2 * self.per_second)
        wanted, self.purse.waiting = int(self._due), {}
        if not wanted:
            return 0
        count = min(wanted, max(0, self.purse.free(steady)) // scene.reserved)
        if count:
            self.purse.reserve(count * scene.reserved, steady)
            self.running.append((now + PAGE_SECONDS, count))
            self._due -= count
        if count < wanted:
            # Each of its downloads waits by itself.
            self.purse.waiting = dict.fromkeys(range(min(wanted - count, 64)), scene.reserved)
        return count

    def used(self, costs: int) -> int:
        """Return the amount spent, or that may have been, of pages that cost so much."""
        return self.purse.spent + sum(count for _, count in self.running) * costs

    def exchange(self, scene: "Scene") -> None:
        """Say what is due, as a worker does: at most so many times in a step."""
        steady = scene.now * self.drift
        if scene.now < self.cut_off_until:
            return
        for _ in range(3):
            if not self.purse.is_due(steady, 2.0):
                return
            ask = self.purse.ask(steady, 2.0)
            scene.messages += 1
            wish = Wish(scene.limit, scene.window, self.purse.nonce or "", ask)
            try:
                [(nonce, booked)] = self.service.exchange(self.name, [wish], scene.at)
            except StoreUnavailableError:
                return
            if scene.draw.random() < LOST:
                return
            self._take(nonce, booked, steady)

    def _take(self, nonce: str, booked: Booked | None, steady: float) -> None:
        if booked is not None and self.purse.nonce is not None:
            self.purse.answered(booked, steady)
            self.largest = max(self.largest, self.purse.granted - self.purse.spent)
        if nonce != self.purse.nonce:
            self.purse.follow(nonce)


@dataclass
class Scene:
    """One run: a quota of a day or in all, and everybody under it."""

    connection: RedisConnection
    per: QuotaPeriod
    count: int
    loses: bool
    draw: random.Random
    each: int = EACH
    unit: QuotaUnit = QuotaUnit.REQUESTS
    now: float = 0.0
    messages: int = 0
    killed: list[Worker] = field(default_factory=list)

    def __post_init__(self) -> None:
        is_money = self.unit is QuotaUnit.USD
        #: Of money a page reserves a hundred times as much as it costs.
        self.reserved, self.costs = (700_000, 7_003) if is_money else (1, 1)
        most = self.each * self.count * self.costs
        quota = Quota(unit=self.unit, most=most / NANO_DOLLARS if is_money else most, per=self.per)
        account = Account("bench", Scope.BIZ, self.per.value, quota.unit, self.per)
        self.limit = Limit(account, quota, "quotas[0]")
        self.window = window_of(self.per, _BEGAN)
        self.ledgers = RedisQuotaLedgers(self.connection, clock=lambda: self.at)
        self.ceilings = Ceilings()
        self._number = 0
        self.workers = [self._join() for _ in range(self.count)]

    @property
    def at(self) -> datetime:
        """The time of the simulation, which is the server's."""
        return _BEGAN + timedelta(seconds=self.now)

    def _join(self) -> Worker:
        self._number += 1
        return Worker(self, self._number)

    def run(self) -> dict[str, float]:
        """Let all work until nobody gets anything any more."""
        quiet = busy_seconds = 0.0
        while quiet < QUIET_SECONDS:
            begun = self._step()
            quiet = 0.0 if begun else quiet + STEP_SECONDS
            busy_seconds += STEP_SECONDS if begun else 0.0
        most = self.limit.quota.amount
        is_rate = self.limit.account.is_rate
        gone = [*self.killed, *(one for one in self.workers if one.cut_off_until)]
        used = sum(worker.used(self.costs) for worker in (*self.workers, *self.killed))
        self.connection.client.delete(*ledger_keys(self.limit, self.window))
        return {
            "overshoot": max(0, used - most) / most,
            "allowed": bound(most, [one.largest for one in gone], is_rate=is_rate),
            "undershoot": max(0, most - used) / most,
            "messages": self.messages / busy_seconds,
            "writes": self.ceilings.writes / busy_seconds,
            "seconds": busy_seconds,
            "killed": float(len(self.killed)),
        }

    def asked(self) -> tuple[float, float]:
        """Return messages a second to Redis, and writes to MongoDB, while the quota lasts."""
        before = 0, 0
        while self.now < BEGUN_SECONDS + COUNTED_SECONDS:
            if self.now == BEGUN_SECONDS:
                before = self.messages, self.ceilings.writes
            self._step()
        self.connection.client.delete(*ledger_keys(self.limit, self.window))
        messages, writes = before
        return (
            (self.messages - messages) / COUNTED_SECONDS,
            (self.ceilings.writes - writes) / COUNTED_SECONDS,
        )

    def _step(self) -> int:
        self.now += STEP_SECONDS
        begun = sum(worker.step(self) for worker in self.workers)
        for worker in self.workers:
            worker.exchange(self)
        self._harm()
        return begun

    def _harm(self) -> None:
        chance = STEP_SECONDS / LIFE_SECONDS
        for place, worker in enumerate(self.workers):
            if self.draw.random() < chance:
                self.killed.append(worker)
                self.workers[place] = self._join()
            elif self.draw.random() < chance:
                worker.cut_off_until = self.now + CUT_OFF_SECONDS
        if self.loses and self.now - STEP_SECONDS < LOSS_AT <= self.now:
            self.connection.client.delete(*ledger_keys(self.limit, self.window))


def run(bench: Bench) -> Found:
    """Use up a budget, and a quota of a day that Redis loses; count what many ask."""
    found: dict[str, dict[str, float]] = {}
    count = bench.scale.quota_workers
    with RedisConnection(bench.addresses.redis) as connection:
        for per, loses in ((QuotaPeriod.ALL, False), (QuotaPeriod.DAY, True)):
            scene = Scene(connection, per, count // PART, loses, random.Random(7))
            found[per.value] = scene.run()
            bench.tick(f"a quota of {count // PART:,} workers, per {per}")
        budget = Scene(
            connection=connection,
            per=QuotaPeriod.ALL,
            count=PAYING,
            loses=False,
            draw=random.Random(7),
            each=EACH_PAYING,
            unit=QuotaUnit.USD,
        )
        money = budget.run()
        bench.tick(f"a budget in money of {PAYING} workers")
        many = Scene(
            connection=connection,
            per=QuotaPeriod.MONTH,
            count=count,
            loses=False,
            draw=random.Random(7),
            each=EACH_LASTING,
        )
        messages, writes = many.asked()
        bench.tick(f"a quota of {count:,} workers that lasts")
    figures = {
        "quota_overshoot_ratio": max(one["overshoot"] for one in (*found.values(), money)),
        # What the dead had reserved of a budget counts as used: of money that is mostly not so.
        "quota_undershoot_ratio": max(one["undershoot"] for one in found.values()),
        "quota_messages_per_s": messages,
        "quota_home_per_s": writes,
    }
    scenes = found | {"usd": money}
    told = ", ".join(
        f"per {per} {one['overshoot']:.3g} of {one['allowed']:.3g} that may be"
        for per, one in scenes.items()
    )
    return Found(
        figures=figures,
        details={"quotas": scenes},
        notes=[f"used beyond a quota, by the stated bound (1 % or a share a worker gone): {told}"],
    )
