"""Shares of a quota under kills, lost messages, partitions and clocks that differ (SPEC.md D9).

Workers reserve from their purses, spend, and exchange with a real ledger in Redis. Some are killed
with a share in their hands, or cut off for longer than their lease; messages get lost on the way
there, or back, or arrive twice, or after later ones; clocks run at different speeds; Redis loses
all it has. Whatever was begun by a killed worker counts as spent, as it may have been.
"""

from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.fakes.quotas import MemoryQuotaCeilings
from tests.kit.examples import examples
from tests.kit.kernel import StoreUnavailableError
from tests.kit.quotas import (
    LEASE_SECONDS,
    Account,
    Limit,
    Purse,
    Quota,
    QuotaLedgers,
    QuotaPeriod,
    QuotaUnit,
    RedisQuotaLedgers,
    Scope,
    Wish,
    ledger_keys,
    window_of,
)

MOST = 2_000
NUMBERS = count()
#: Clocks of workers: seconds of theirs in one of the server's.
SPEEDS = (1.0, 0.999, 1.001, 1.0005)


class LossyLedgers(RedisQuotaLedgers):
    """Ledgers whose next exchange gets lost, or its answer does, or arrives late, or twice."""

    lost = None
    late = None

    def exchange(self, holder, each):
        lost, self.lost = self.lost, None
        if lost == "there":
            raise StoreUnavailableError("redis", "nobody answers")
        if lost == "late":
            self.late = holder, each
            raise StoreUnavailableError("redis", "no answer in time")
        answers = super().exchange(holder, each)
        if lost == "twice":
            super().exchange(holder, each)
        if lost == "back":
            raise StoreUnavailableError("redis", "no answer in time")
        return answers

    def arrive(self):
        late, self.late = self.late, None
        if late is not None:
            super().exchange(*late)


class Worker:
    """A worker with a purse, by a clock of its own, and what it has under way."""

    def __init__(self, ledgers, limit, window, now, speed):
        self.name = f"w{next(NUMBERS)}"
        self.redis = ledgers
        self.service = QuotaLedgers(ledgers, ledgers.ceilings)
        self.limit, self.window, self.speed = limit, window, speed
        self.purse = Purse(limit.quota.amount, is_rate=limit.account.is_rate, now=self.clock(now))
        self.running = []
        self.largest = 0
        self.was_cut_off = False
        self.heard_at = now

    def clock(self, now):
        return 1_000_000 + now * self.speed

    def exchange(self, now, at, quiet_seconds=1e9):
        asked_at = self.clock(now)
        ask = self.purse.ask(asked_at, quiet_seconds)
        wish = Wish(self.limit, self.window, self.purse.nonce or "", ask)
        try:
            [(nonce, booked)] = self.service.exchange(self.name, [wish], at)
        except StoreUnavailableError:
            return None
        self.was_cut_off |= now - self.heard_at >= LEASE_SECONDS
        self.heard_at = now
        if booked is not None and self.purse.nonce is not None:
            self.purse.answered(booked, asked_at)
            self.largest = max(self.largest, self.purse.granted - self.purse.spent)
        if nonce != self.purse.nonce:
            self.purse.follow(nonce)
        return booked

    def get(self, amount, now, at, rounds=6):
        """Reserve, with as many exchanges as that takes."""
        for _ in range(rounds):
            if self.purse.reserve(amount, self.clock(now)):
                self.running.append(amount)
                return True
            self.purse.waiting["it"] = amount
            self.exchange(now, at)
            self.purse.waiting.clear()
        return False

    def finish(self, part):
        amount = self.running.pop(0)
        self.purse.settle(amount, round(amount * part))

    @property
    def used(self):
        return self.purse.spent + sum(self.running)


class Machine(RuleBasedStateMachine):
    def __init__(self, connection, tenant, per, unit):
        super().__init__()
        self.now = 0.0
        self.began = datetime(2026, 11, 23, tzinfo=UTC)
        is_money = unit is QuotaUnit.USD
        #: Of money a request reserves a million times as much as one, and uses any part of it.
        self.one = 1_000_003 if is_money else 1
        self.most = MOST * self.one
        quota = Quota(unit=unit, most=self.most / 1e9 if is_money else self.most, per=per)
        account = Account(f"{tenant}-{next(NUMBERS)}", Scope.BIZ, "shop", quota.unit, per)
        self.limit = Limit(account, quota, "quotas[0]")
        self.window = window_of(per, self.began)
        self.ledgers = LossyLedgers(connection, clock=self.at)
        self.ledgers.ceilings = MemoryQuotaCeilings()
        self.connection = connection
        self.workers, self.dead = [], []
        self.losses = 0
        for _ in range(3):
            self.join()

    def at(self):
        return self.began + timedelta(seconds=self.now)

    def join(self):
        speed = SPEEDS[len(self.workers) % len(SPEEDS)]
        self.workers.append(Worker(self.ledgers, self.limit, self.window, self.now, speed))

    @rule(who=st.integers(0, 5), amount=st.sampled_from([1, 1, 2, 10]), times=st.integers(1, 12))
    def begin(self, who, amount, times):
        worker = self.workers[who % len(self.workers)]
        for _ in range(times):
            worker.get(amount * self.one, self.now, self.at(), rounds=3)

    @rule(who=st.integers(0, 5), amount=st.sampled_from([1, 2]))
    def more_than_was_reserved(self, who, amount):
        worker = self.workers[who % len(self.workers)]
        if worker.running and worker.get(amount * self.one, self.now, self.at(), rounds=3):
            worker.running[0] += worker.running.pop()

    @rule(
        who=st.integers(0, 5),
        part=st.sampled_from([0.0, 0.0071, 0.5, 1.0]),
        times=st.integers(1, 12),
    )
    def end(self, who, part, times):
        worker = self.workers[who % len(self.workers)]
        for _ in range(min(times, len(worker.running))):
            worker.finish(part)

    @rule(who=st.integers(0, 5), lost=st.sampled_from([None, "there", "back", "late", "twice"]))
    def exchange(self, who, lost):
        self.ledgers.lost = lost
        self.workers[who % len(self.workers)].exchange(self.now, self.at(), 2.0)

    @rule()
    def late_message_arrives(self):
        self.ledgers.arrive()

    @rule(seconds=st.sampled_from([0.2, 1.0, 5.0, 20.0, 40.0]))
    def time_passes(self, seconds):
        self.now += seconds

    @rule(who=st.integers(0, 5))
    def kill(self, who):
        self.dead.append(self.workers.pop(who % len(self.workers)))
        self.join()

    @rule(again=st.sampled_from([False, False, False, False, True]))
    def redis_loses_everything(self, again):
        if again:
            self.losses += 1
            self.connection.client.delete(*ledger_keys(self.limit, self.window))

    @property
    def used(self):
        return sum(worker.used for worker in (*self.workers, *self.dead))

    def allowed_over(self):
        """One share for each worker that died or was cut off, where its share came back."""
        if not self.limit.account.is_rate:
            return 0
        gone = [*self.dead, *(one for one in self.workers if one.was_cut_off)]
        gone += [one for one in self.workers if self.now - one.heard_at >= LEASE_SECONDS]
        return max(self.most * 0.01, sum(one.largest for one in gone))

    @invariant()
    def never_more_than_the_bound(self):
        assert self.used <= self.most + self.allowed_over()

    def teardown(self):
        """While work waits all that is left is used, but for what may have been spent already."""
        self.ledgers.lost = self.ledgers.late = None
        fruitless = 0
        while fruitless < 4:
            self.now += 10.0
            before = self.used
            for worker in self.workers:
                for amount in (100, 10, 1):
                    worker.get(amount * self.one, self.now, self.at())
                while worker.running:
                    worker.finish(1.0)
            fruitless = 0 if self.used > before else fruitless + 1
        self.never_more_than_the_bound()
        lost = sum(one.largest for one in self.dead) if not self.limit.account.is_rate else 0
        tranche = self.most * 0.005 + max(
            (one.largest for one in (*self.workers, *self.dead)), default=0
        )
        held = sum(one.largest for one in self.dead)
        assert self.used >= self.most - max(self.most * 0.01, lost + self.losses * (tranche + held))
        self.connection.client.delete(*ledger_keys(self.limit, self.window))


@pytest.mark.parametrize("unit", [QuotaUnit.REQUESTS, QuotaUnit.USD])
@pytest.mark.parametrize("per", [QuotaPeriod.ALL, QuotaPeriod.DAY])
def test_shares_keep_to_the_limit_and_use_it_whatever_gets_lost(
    redis_connection, tenant, per, unit
):
    run_state_machine_as_test(
        lambda: Machine(redis_connection, tenant, per, unit),
        settings=examples(0.5, steps=40, most=300),
    )
