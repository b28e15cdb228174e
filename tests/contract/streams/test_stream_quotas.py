"""What streams bring is metered: nothing over a limit is stored, and only its own part stops."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from infra.local.stream_server import StreamServer
from tests.contract.streams.delivery_cases import an_item
from tests.contract.streams.streaming import Channels, delivered, subscribe
from tests.contract.streams.test_reading import running
from tests.fakes.quotas import MemoryQuotaCeilings
from tests.kit.kernel import StoreUnavailableError
from tests.kit.quotas import (
    Account,
    Limit,
    Quota,
    QuotaLedgers,
    QuotaPeriod,
    QuotaUnit,
    RedisQuotaLedgers,
    Scope,
)
from tests.kit.streams import Metering, Subscriber, Taker, Wanted, delivery_key, item_key
from tests.kit.subscriptions import Active, Hours
from tests.kit.worlds.worker import until

ITEMS, USD = QuotaUnit.ITEMS, QuotaUnit.USD
DAY = QuotaPeriod.DAY
PRICE = 5_000_000
NAMES = count()


def limit_of(tenant, name, quota):
    account = Account(tenant, Scope.SUBSCRIPTION, f"news/{name}", quota.unit, quota.per)
    return Limit(account, quota, "quotas[0]")


class Desk:
    """A process that meters, over real ledgers, in the loop of a test."""

    def __init__(self, redis, tenant, ceilings):
        self.tenant, self.now = tenant, datetime(2026, 11, 23, 12, tzinfo=UTC)
        self.ledgers = QuotaLedgers(RedisQuotaLedgers(redis, clock=lambda: self.now), ceilings)
        self.meter = self.another()

    def another(self):
        name = f"reader-{next(NAMES)}"
        return Metering(self.ledgers, name, asyncio.to_thread, lambda: self.now)

    def taker(self, name, *quotas):
        limits = tuple(limit_of(self.tenant, name, quota) for quota in quotas)
        return Taker(name, Subscriber(tenant=self.tenant, biz="news", name=name), limits)

    async def admit(self, numbers, *takers, meter=None, **others):
        wanted = [Wanted(an_item(str(n)), takers, place) for place, n in enumerate(numbers)]
        return await (meter or self.meter).admit(len(wanted), wanted, **others)

    def standing(self, taker):
        return self.ledgers.standings(list(taker.limits), self.now)


@pytest.fixture
def run(redis_connection, tenant):
    def run_it(work):
        async def go():
            desk = Desk(redis_connection, tenant, MemoryQuotaCeilings())
            running = asyncio.ensure_future(desk.meter.run())
            try:
                return await work(desk)
            finally:
                running.cancel()

        return asyncio.run(go())

    return run_it


def names(admitted):
    return [[one.name for one in each.subscribers] for each in admitted.addressed]


def test_what_no_limit_holds_back_is_admitted_without_asking_anybody(run):
    async def work(desk):
        found = await desk.admit(range(3), desk.taker("press"), price=PRICE)

        assert names(found) == [["press"]] * 3
        assert (desk.meter.exchanges, found.reserved) == (0, {})

    run(work)


def test_of_a_quota_of_items_no_more_is_admitted_and_others_go_on(run):
    async def work(desk):
        few = desk.taker("few", Quota(unit=ITEMS, most=7, per=DAY))
        all_of_it = desk.taker("all")

        found = await desk.admit(range(10), few, all_of_it)
        desk.meter.settle(found)
        again = await desk.admit(range(10, 15), few, all_of_it)

        assert names(found) == [["few", "all"]] * 7 + [["all"]] * 3
        assert names(again) == [["all"]] * 5
        assert (found.dropped, again.dropped) == (3, 5)
        assert desk.meter.is_over(few.limits)
        assert not desk.meter.is_over(all_of_it.limits)

    run(work)


def test_an_item_is_paid_for_once_by_all_who_take_it(run):
    async def work(desk):
        takers = [desk.taker(name, Quota(unit=USD, most=1.0)) for name in ("a", "b", "c")]

        for turn in range(4):
            found = await desk.admit(range(turn * 10, turn * 10 + 10), *takers, price=PRICE)
            desk.meter.settle(found)
        await desk.meter.close()

        used = [desk.standing(one)[0].used for one in takers]
        assert sum(used) == 40 * PRICE
        assert max(used) - min(used) <= 40
        assert [desk.standing(one)[0].held for one in takers] == [0, 0, 0]

    run(work)


def test_what_came_before_costs_nothing_again(run):
    async def work(desk):
        press = desk.taker("press", Quota(unit=ITEMS, most=10))
        found = await desk.admit(range(4), press)
        fresh = {delivery_key(item_key(an_item("3").channel, "3"), press.subscriber)}
        desk.meter.settle(found, fresh)
        await desk.meter.close()

        [standing] = desk.standing(press)
        assert (standing.used, standing.held) == (1, 0)

    run(work)


def test_the_ceiling_of_a_channel_is_of_all_that_it_brings(run):
    async def work(desk):
        account = Account("", Scope.CHANNEL, desk.tenant, USD, DAY)
        ceiling = Limit(account, Quota(unit=USD, most=0.05, per=DAY), "streams")

        found = await desk.admit(range(12), desk.taker("press"), price=PRICE, ceilings=[ceiling])
        desk.meter.settle(found, set())
        await desk.meter.close()

        assert (len(found.addressed), found.dropped, found.is_over) == (10, 2, True)
        [standing] = desk.ledgers.standings([ceiling], desk.now)
        assert standing.used == 10 * PRICE

    run(work)


def test_a_new_day_and_a_higher_limit_have_room_again(run):
    async def work(desk):
        press = desk.taker("press", Quota(unit=ITEMS, most=2, per=DAY))
        desk.meter.settle(await desk.admit(range(5), press))
        raised = desk.taker("press", Quota(unit=ITEMS, most=3, per=DAY))
        more = await desk.admit(range(5, 9), raised)
        desk.meter.settle(more)
        desk.now += timedelta(days=1)
        next_day = await desk.admit(range(9, 14), raised)

        assert (len(more.addressed), len(next_day.addressed)) == (1, 3)

    run(work)


def test_without_its_ledger_nothing_is_admitted_and_nothing_dropped(run):
    async def work(desk):
        def away(*_):
            raise StoreUnavailableError("redis", "nobody answers")

        desk.ledgers.redis.exchange = away
        press = desk.taker("press", Quota(unit=ITEMS, most=10))

        with pytest.raises(StoreUnavailableError):
            await desk.admit(range(3), press)

    run(work)


# ---- by readers ------------------------------------------------------------------------------


def test_where_a_quota_ends_only_its_own_part_leaves_the_channel(
    redis_connection, mongo_connection, tenant
):
    nodes, channel = mongo_connection, tenant

    async def work():
        async with StreamServer() as server:
            quota = Quota(unit=ITEMS, most=2, per=DAY)
            subscribe(nodes, channel, "few", "storm", quotas=(quota,))
            subscribe(nodes, channel, "all", "storm")
            channels = Channels({channel: server.url})
            async with running(redis_connection, nodes, channels, "a", fleet=channel) as [one]:
                await until(lambda: server.open)
                await server.publish(*["a storm"] * 5)
                await until(lambda: delivered(nodes)["all"] == 5)
                # Its part leaves, and the connection stays.
                await until(lambda: one.report(channel).subscriptions == 1)
                await server.publish("a storm")
                await until(lambda: delivered(nodes)["all"] == 6)
                raised = Quota(unit=ITEMS, most=3, per=DAY)
                subscribe(nodes, channel, "few", "storm", quotas=(raised,))
                await until(lambda: one.report(channel).subscriptions == 2)
                await server.publish("a storm", "a storm")
                await until(lambda: delivered(nodes)["all"] == 8)
                await until(lambda: one.report(channel).subscriptions == 1)
                return server, one.report(channel)

    server, report = asyncio.run(work())

    assert delivered(nodes) == {"few": 3, "all": 8}
    assert report.dropped["quota"] == 4
    assert len(server.asked) == 1


def test_a_user_has_one_quota_over_all_of_its_subscriptions(
    redis_connection, mongo_connection, tenant
):
    nodes, channel = mongo_connection, tenant

    async def work():
        async with StreamServer() as server:
            for name in ("one", "two"):
                subscribe(nodes, channel, name, "storm", user=f"ann-{channel}")
            channels = Channels({channel: server.url})
            channels.user_quotas = (Quota(unit=ITEMS, most=5, per=DAY),)
            async with running(redis_connection, nodes, channels, "a", fleet=channel) as [one]:
                await until(lambda: server.open)
                await server.publish(*["a storm"] * 6)
                # Nobody is left, so nothing is read.
                await until(lambda: not server.open)
                assert not one.runner.is_needed

    asyncio.run(work())

    assert delivered(nodes).total() == 5


def test_at_its_own_ceiling_a_channel_is_read_for_nobody_until_that_is_raised(
    redis_connection, mongo_connection, tenant
):
    nodes, channel = mongo_connection, tenant

    async def work():
        async with StreamServer() as server:
            subscribe(nodes, channel, "all", "storm")
            channels = Channels({channel: server.url}, item_usd=0.01)
            channels.quotas = (Quota(unit=USD, most=0.03, per=DAY),)
            async with running(redis_connection, nodes, channels, "a", fleet=channel) as [one]:
                await until(lambda: server.open)
                await server.publish("a storm", "the sun", "a storm", "a storm")
                await until(lambda: not server.open)
                await until(lambda: "has used $0.03 of $0.03" in one.report(channel).stopped)
                assert not one.report(channel).is_read
                before = delivered(nodes)["all"]
                channels.quotas = (Quota(unit=USD, most=1.0, per=DAY),)
                await until(lambda: server.open)
                assert one.report(channel).stopped == ""
                return before

    assert asyncio.run(work()) == 2


def test_outside_of_its_hours_a_subscription_leaves_its_channel(
    redis_connection, mongo_connection, tenant
):
    nodes, channel = mongo_connection, tenant
    hour = datetime.now(UTC).hour
    later = Hours(begins=f"{(hour + 8) % 24:02}:00", ends=f"{(hour + 9) % 24:02}:00")

    async def work():
        async with StreamServer() as server:
            subscribe(nodes, channel, "later", "storm", active=Active(hours=(later,)))
            channels = Channels({channel: server.url})
            async with running(redis_connection, nodes, channels, "a", fleet=channel) as [one]:
                subscribe(nodes, channel, "now", "rain")
                await until(lambda: server.open)
                assert one.report(channel).subscriptions == 1
                # Its hours are others now, and it is back; nothing is connected to anew.
                subscribe(nodes, channel, "later", "storm")
                await until(lambda: one.report(channel).subscriptions == 2)
                return server

    assert len(asyncio.run(work()).asked) == 1
