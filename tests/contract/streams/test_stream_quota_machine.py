"""Quotas of streams under kills of readers and lost messages (SPEC.md D9).

Readers bring items, some of which others have brought, reserve by a real ledger in Redis, accept
and settle. Some are killed before they accept, some between that and settling, some beside all
that; messages get lost on their way there or back; days go by. What was accepted counts as used,
whether its reader lived to tell or not.
"""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.contract.fleet.test_quota_machine import LossyLedgers
from tests.contract.streams.delivery_cases import an_item
from tests.fakes.quotas import MemoryQuotaCeilings
from tests.kit.examples import examples
from tests.kit.kernel import SteadyTime, StoreUnavailableError
from tests.kit.quotas import (
    LEASE_SECONDS,
    Account,
    Limit,
    Quota,
    QuotaLedgers,
    QuotaPeriod,
    QuotaUnit,
    Scope,
)
from tests.kit.streams import Metering, Subscriber, Taker, Wanted, delivery_key, item_key

NUMBERS = count()
PRICE = 7
#: Each look at the steady clock takes so long: who waits for a share runs out of patience.
TICK = 0.05


async def at_once(call, *arguments):
    return call(*arguments)


class StreamQuotas(RuleBasedStateMachine):
    """Readers of two subscriptions; ``used`` is what is so, by account and period."""

    def __init__(self, redis, tenant):
        super().__init__()
        self.loop, self.seconds = asyncio.new_event_loop(), 0.0
        self.begin = datetime(2026, 11, 23, 12, tzinfo=UTC)
        self.ledgers = LossyLedgers(redis, clock=self.now)
        self.service = QuotaLedgers(self.ledgers, MemoryQuotaCeilings())
        tenant = f"{tenant}-{next(NUMBERS)}"
        self.user = self.limit(tenant, Scope.USER, "ann", QuotaUnit.USD, 900, QuotaPeriod.DAY)
        self.daily = self.limit(tenant, Scope.SUBSCRIPTION, "n/a", QuotaUnit.ITEMS, 70, "day")
        self.budget = self.limit(tenant, Scope.SUBSCRIPTION, "n/b", QuotaUnit.ITEMS, 90, "all")
        self.takers = [
            Taker(name, Subscriber(tenant=tenant, biz="n", name=name), limits)
            for name, limits in {
                "a": (self.user, self.daily),
                "b": (self.user, self.budget),
                "c": (),
            }.items()
        ]
        self.delivered, self.used, self.lost = set(), Counter(), Counter()
        self.readers = {}
        for _ in range(2):
            self.begins()

    @staticmethod
    def limit(tenant, scope, name, unit, most, per):
        per = QuotaPeriod(per)
        dollars = most if unit is QuotaUnit.ITEMS else most / 1e9
        quota = Quota(unit=unit, most=dollars, per=per)
        return Limit(Account(tenant, scope, name, unit, per), quota, "quotas[0]")

    def now(self):
        return self.begin + timedelta(seconds=self.seconds)

    def steady(self):
        self.seconds += TICK
        return self.seconds

    def do(self, work):
        return self.loop.run_until_complete(work)

    @rule()
    def begins(self):
        if len(self.readers) < 3:

            async def begin():
                steady = SteadyTime(now=self.steady)
                meter = Metering(self.service, f"r{next(NUMBERS)}", at_once, self.now, steady)
                self.readers[meter] = asyncio.ensure_future(meter.run())

            self.do(begin())

    def kill(self, meter):
        """Take a reader away; what it holds, or has not told of, may be used again."""

        async def end():
            running = self.readers.pop(meter)
            running.cancel()
            await asyncio.wait((running,))

        self.do(end())
        self.loses(meter)

    def loses(self, meter):
        """Note what may be used again of the shares of a reader that is gone, or seems to be."""
        for key, purse in meter._purses.items():
            if key[0].is_rate:
                self.lost[key] += purse.granted - purse.spent + purse.untold

    @rule(
        which=st.integers(0, 9),
        ids=st.lists(st.integers(0, 300), max_size=30),
        end=st.sampled_from(["lives"] * 4 + ["accepts nothing", "settles nothing"]),
    )
    def brings(self, which, ids, end):
        if not self.readers:
            return
        meter = list(self.readers)[which % len(self.readers)]
        wanted = [Wanted(an_item(str(one)), self.takers, at) for at, one in enumerate(ids)]
        try:
            admitted = self.do(meter.admit(len(wanted), wanted, PRICE))
        except StoreUnavailableError:
            return
        if end == "accepts nothing":
            self.kill(meter)
            return
        fresh = {
            (one.item.id, who.name) for one in admitted.addressed for who in one.subscribers
        } - self.delivered
        self.delivered |= fresh
        new = self.keys_of(fresh)
        for key in admitted.owed.keys() & new:
            self.used.update(admitted.owed[key])
        if end == "settles nothing":
            self.kill(meter)
            return
        meter.settle(admitted, new)

    def keys_of(self, deliveries):
        subscribers = {one.id: one.subscriber for one in self.takers}
        channel = an_item().channel
        return {delivery_key(item_key(channel, one), subscribers[name]) for one, name in deliveries}

    @rule(how=st.sampled_from(["there", "back", "twice"]))
    def loses_a_message(self, how):
        self.ledgers.lost = how

    @rule(which=st.integers(0, 9))
    def dies(self, which):
        if self.readers:
            self.kill(list(self.readers)[which % len(self.readers)])

    @rule(seconds=st.sampled_from([1, LEASE_SECONDS / 2, LEASE_SECONDS + 1, 86_400]))
    def time_passes(self, seconds):
        for meter in self.readers if seconds > 1 else ():
            self.loses(meter)
        self.seconds += seconds

    @rule()
    def tells(self):
        for meter in self.readers:
            self.do(meter.look(2.0))

    @invariant()
    def no_limit_is_exceeded_by_more_than_the_dead_held(self):
        limits = {one.account: one.quota.amount for one in (self.user, self.daily, self.budget)}
        for (account, window), used in self.used.items():
            assert used <= limits[account] + self.lost[account, window], (account, used)

    def teardown(self):
        # At rest all of a day's quota can be used, however many died in it.
        self.ledgers.lost = None
        for meter in list(self.readers):
            self.do(meter.close())
            self.kill(meter)
        self.seconds += LEASE_SECONDS + 1
        self.begins()
        [meter] = self.readers
        # Another price would be another's: of items alone.
        a = Taker("a", self.takers[0].subscriber, (self.daily,))
        wanted = [Wanted(an_item(f"last-{n}"), [a], n) for n in range(100)]
        admitted = self.do(meter.admit(100, wanted))
        meter.settle(admitted)
        for owed in admitted.owed.values():
            self.used.update(owed)
        window = next(iter(admitted.reserved), (None, None))[1] or meter._window(
            QuotaPeriod.DAY, self.now()
        )
        assert self.used[self.daily.account, window] >= self.daily.quota.amount
        self.no_limit_is_exceeded_by_more_than_the_dead_held()
        self.kill(meter)
        self.loop.close()


def test_no_quota_of_streams_is_exceeded_by_more_than_a_share_of_each_dead_reader(
    redis_connection, tenant
):
    run_state_machine_as_test(
        lambda: StreamQuotas(redis_connection, tenant),
        settings=examples(0.3, steps=25, most=100),
    )
