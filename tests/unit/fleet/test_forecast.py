"""The forecast for the workers: backlog, plans, and polite rates of hosts."""

import math
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.config import HostLimits, Politeness, Stage
from tests.kit.fleet import Demand, QueueDemand, forecasting
from tests.kit.kernel import StoreUnavailableError
from tests.kit.politeness import HostAsk, HostReport
from tests.kit.quotas import (
    AtLimit,
    Quota,
    QuotaDemand,
    QuotaLedgers,
    QuotaUnit,
    limits_of,
    worst_case,
)
from tests.kit.requests import Submission
from tests.kit.worlds.doubles import Broken
from tests.kit.worlds.memory import DOCS, OTHER, START, World, make_biz, make_tree
from tests.kit.worlds.quotas import hold_a_share, limited
from tests.kit.worlds.worker import work

SLOW = HostLimits(per_second=2, concurrency=8)


def polite(world: World, limits: HostLimits = SLOW, **biz: object) -> None:
    world.tree = make_tree(make_biz(**biz), concurrency=4, batch=5)
    stage: Stage = replace(world.tree.stage, hosts=limits)
    world.tree = replace(world.tree, stage=stage)


def submitted(world: World, *hosts: str, tenant: str = "default", **facts: object) -> None:
    pages = [Submission(url=f"https://{host}/{n}", **facts) for n, host in enumerate(hosts)]
    world.submission().submit(world.tree, tenant, "docs", pages, world.now)


def deferred(world: World, host: str, count: int, queue_key=DOCS, again_in: float = 0.0) -> None:
    """So many wait for a host, as after a worker got no slots for them."""
    submitted(world, *[host] * count, tenant=queue_key.tenant)
    until = world.now + timedelta(minutes=5)
    leased = world.queue.lease(queue_key, "t", count, world.now, until)
    again_at = world.now + timedelta(seconds=again_in)
    world.queue.defer(queue_key, "t", [(host, again_at, leased)])


def ahead(world: World, **changes: object) -> Demand:
    return world.ahead(**changes).demand(world.tree, world.now)


def test_of_an_idle_fleet_nothing_is_asked(world):
    assert ahead(world) == Demand(polite_per_second=0.0)
    assert ahead(world).backlog == 0


def test_a_stage_without_bizs_asks_nothing(world):
    world.tree = replace(world.tree, bizs={})

    assert ahead(world) == Demand()


def test_a_backlog_is_counted_whole_and_its_plan_runs_from_its_oldest(world):
    polite(world, planned_seconds=600.0)
    submitted(world, *["a.example"] * 30)
    world.now += timedelta(seconds=100)

    (queue,) = ahead(world).queues

    assert queue.backlog == 30
    assert queue.seconds_left == pytest.approx(500, abs=0.01)


def test_a_plan_that_is_over_has_less_than_no_time_left(world):
    polite(world, planned_seconds=60.0)
    submitted(world, "a.example")
    world.now += timedelta(seconds=100)

    assert ahead(world).queues[0].seconds_left == pytest.approx(-40, abs=0.01)


def test_hosts_that_requests_wait_for_bound_the_rate(world):
    polite(world)
    deferred(world, "a.example", 10)
    deferred(world, "b.example", 10)

    found = ahead(world)

    assert found.queues == (QueueDemand(backlog=20, polite_per_second=4.0),)
    assert found.polite_per_second == 4.0


def test_one_host_of_two_tenants_counts_once(world):
    polite(world)
    deferred(world, "a.example", 10)
    deferred(world, "a.example", 10, queue_key=OTHER)

    found = ahead(world)

    assert [queue.polite_per_second for queue in found.queues] == [2.0, 2.0]
    assert found.polite_per_second == 2.0


def test_a_biz_that_is_more_polite_than_the_stage_counts_as_that(world):
    polite(world, politeness=Politeness(per_second=0.5))
    deferred(world, "a.example", 10)

    assert ahead(world).polite_per_second == 0.5


def test_a_crawl_delay_bounds_the_product_it_was_given_to(world):
    polite(world)
    deferred(world, "a.example", 10)
    delayed = HostAsk(
        host="a.example",
        tenant="default",
        count=1,
        running=0,
        interval_seconds=10.0,
        concurrency=8,
    )
    world.hosts.reserve([delayed], "w")

    assert ahead(world).polite_per_second == 0.1


def test_a_host_that_is_left_alone_asks_for_nobody(world):
    polite(world, HostLimits(per_second=2, concurrency=8, backoff_seconds=100))
    deferred(world, "a.example", 10)
    report = HostReport(
        host="a.example",
        origin="https://a.example",
        tenant="default",
        running=0,
        overloads=1,
        limits=world.tree.stage.hosts,
    )
    world.hosts.report([report], "w")

    assert ahead(world).polite_per_second == 0.0


def test_what_waits_for_hosts_that_are_not_looked_at_soon_is_nothing_to_do(world):
    polite(world)
    deferred(world, "a.example", 10, again_in=600)

    assert ahead(world).queues == ()


def test_a_long_queue_of_one_host_is_distinguished_from_one_of_many(world):
    polite(world)
    submitted(world, *["a.example"] * 200)

    assert ahead(world).polite_per_second == 2.0

    submitted(world, *[f"h{n}.example" for n in range(200)], tenant="acme")
    found = ahead(world)
    assert found.queues[0].polite_per_second == math.inf
    assert found.queues[1].polite_per_second == 2.0
    assert found.polite_per_second == math.inf


def test_a_queue_of_some_hosts_is_taken_to_have_about_these(world):
    polite(world)
    submitted(world, *[f"h{n % 4}.example" for n in range(400)])

    assert ahead(world).polite_per_second == pytest.approx(8, rel=0.3)


def test_a_short_queue_beside_hosts_that_are_waited_for_widens_nothing(world):
    polite(world)
    deferred(world, "a.example", 100)
    submitted(world, "b.example")

    assert ahead(world).polite_per_second == 2.0


def test_what_is_under_way_and_waits_for_nothing_is_not_held_up(world):
    polite(world)
    submitted(world, "a.example")
    world.queue.lease(DOCS, "t", 1, world.now, world.now + timedelta(minutes=1))

    found = ahead(world)

    assert found.queues == (QueueDemand(backlog=1, leased=1),)


def test_of_many_hosts_some_are_looked_at_for_all(world):
    polite(world)
    for n in range(40):
        deferred(world, f"h{n}.example", 1)

    assert ahead(world, most_hosts=8).polite_per_second == pytest.approx(80.0)


def test_no_more_requests_are_looked_up_than_said_however_long_the_queue(world):
    polite(world)
    submitted(world, *["a.example"] * 300)
    asked = []

    class Counting:
        def get(self, queue_key, biz, request_id):
            asked.append(request_id)
            return world.store.get(queue_key, biz, request_id)

    ahead(world, store=Counting())

    assert len(asked) == forecasting.SAMPLED_ENTRIES


def test_entries_whose_requests_are_gone_say_nothing_of_hosts(world):
    polite(world)
    submitted(world, *["a.example"] * 100)

    class Empty:
        def get(self, *_):
            return None

    assert ahead(world, store=Empty()).polite_per_second == math.inf


def test_items_of_the_data_queue_are_work_without_hosts(world):
    polite(world)
    world.data.put(DOCS, [b"{}", b"{}"])

    found = ahead(world)

    assert found.queues == (QueueDemand(backlog=2),)
    assert found.polite_per_second == math.inf


@pytest.mark.parametrize("part", ["sampler", "overview", "data", "hosts"])
def test_where_a_part_is_away_nothing_is_known(world, part):
    polite(world, planned_seconds=600.0)
    deferred(world, "a.example", 1)
    submitted(world, *["a.example"] * 100)

    with pytest.raises(StoreUnavailableError):
        ahead(world, **{part: Broken()})


def test_a_biz_whose_requests_cannot_be_read_asks_for_no_more_than_its_known_hosts_do(world):
    """Its node is away: nobody could claim them. The others' are looked at all the same."""
    polite(world)
    submitted(world, *["a.example"] * 100)
    submitted(world, *["a.example"] * 50, tenant="acme")

    class OneAway:
        def get(self, queue_key, biz, request_id):
            if queue_key == DOCS:
                return Broken().get()
            return world.store.get(queue_key, biz, request_id)

    found = ahead(world, store=OneAway())

    assert [(queue.backlog, queue.polite_per_second) for queue in found.queues] == [
        (50, 2.0),
        (100, 0.0),
    ]
    assert len(world.warnings) == 1


class Hanging:
    """A node that is slow to answer, or does not answer in the end; how long others take."""

    def __init__(self, world: World, *, fails: bool, each: float = 10.0) -> None:
        self.world, self.fails, self.each = world, fails, each
        self.seconds = 0.0
        self.asked = 0

    def get(self, queue_key, biz, request_id):
        self.asked += 1
        self.seconds += self.each
        return Broken().get() if self.fails else self.world.store.get(queue_key, biz, request_id)

    def steady(self) -> float:
        return self.seconds


def many_queues(world: World, count: int, node: str) -> None:
    """So many bizs, each with a long queue, each on a node of its own or all on one."""
    polite(world)
    (generation,) = make_biz().generations
    bizs = {
        f"b{n}": make_biz(generations=(replace(generation, nodes=(node.format(n),)),))
        for n in range(count)
    }
    world.tree = replace(world.tree, bizs={"default": bizs})
    for name in bizs:
        pages = [Submission(url=f"https://{name}.example/{n}") for n in range(100)]
        world.submission().submit(world.tree, "default", name, pages, world.now)


@pytest.mark.parametrize(("fails", "rate"), [(True, 0.0), (False, math.inf)])
def test_a_node_that_hangs_holds_up_a_decision_once_and_not_with_each_queue(world, fails, rate):
    """At ten seconds for each of eight queues the tick would time out before its decision."""
    many_queues(world, 8, "main")
    node = Hanging(world, fails=fails)

    found = ahead(world, store=node, steady=node.steady)

    assert (node.asked, node.seconds) == (1, 10.0)
    assert [queue.backlog for queue in found.queues] == [100] * 8
    assert [queue.polite_per_second for queue in found.queues][1:] == [rate] * 7


def test_many_nodes_that_are_slow_hold_it_up_for_a_bounded_time(world):
    many_queues(world, 8, "node{}")
    nodes = Hanging(world, fails=False, each=4.0)

    found = ahead(world, store=nodes, steady=nodes.steady)

    assert (nodes.asked, nodes.seconds) == (3, 12.0)
    assert [queue.backlog for queue in found.queues] == [100] * 8


def test_a_node_that_is_quick_is_looked_at_to_the_end(world):
    many_queues(world, 4, "main")
    node = Hanging(world, fails=False, each=0.1)

    ahead(world, store=node, steady=node.steady)

    assert node.asked == 4 * forecasting.SAMPLED_ENTRIES


def test_the_first_of_a_plan_begins_with_all_its_time(world):
    polite(world, planned_seconds=600.0)
    submitted(world, "a.example")
    world.queue.lease(DOCS, "t", 1, START, START + timedelta(minutes=1))

    assert ahead(world).queues[0].seconds_left == 600


def test_no_queues_hosts_push_out_another_queues(world):
    polite(world)
    for n in range(20):
        deferred(world, f"a{n}.example", 1)
        deferred(world, f"b{n}.example", 1, queue_key=OTHER)

    found = ahead(world, most_hosts=8)

    assert [queue.polite_per_second for queue in found.queues] == [40.0, 40.0]


def test_hosts_that_nothing_is_reported_of_are_taken_to_be_as_the_others_are(world):
    """Their node of a cluster is away: that is no reason to do nothing for the rest."""
    polite(world)
    for n in range(4):
        deferred(world, f"h{n}.example", 5)

    class PartlyAway:
        def __init__(self, there: int) -> None:
            self._there = there

        def states(self, hosts):
            return world.hosts.states(hosts)[: self._there]

    assert ahead(world, hosts=PartlyAway(2)).polite_per_second == 8.0
    assert ahead(world, hosts=PartlyAway(0)).polite_per_second == math.inf


def test_hosts_of_a_queue_that_nothing_is_reported_of_are_no_hosts_that_may_not_be_asked(world):
    polite(world)
    submitted(world, *["a.example"] * 200)

    class Away:
        def states(self, hosts):
            return []

    assert ahead(world, hosts=Away()).polite_per_second == math.inf


def test_how_fast_a_queue_goes_on_is_seen_where_it_has_a_plan(world):
    polite(world, planned_seconds=600.0)
    submitted(world, *["a.example"] * 30)
    leased = world.queue.lease(DOCS, "t", 20, world.now, world.now + timedelta(minutes=9))
    world.queue.finish(DOCS, "t", leased[:10], 10, world.now)
    world.now += timedelta(seconds=5)

    (queue,) = ahead(world).queues
    assert (queue.leased, queue.drained) == (10, 2.0)

    polite(world)
    assert ahead(world).queues[0].drained is None


def test_a_queue_is_reported_with_what_workers_have_shown_of_it(world):
    polite(world)
    submitted(world, "a.example")
    submitted(world, "a.example", tenant="acme")

    found = world.ahead().demand(world.tree, world.now, {DOCS.path: 7.0})

    assert [queue.throughput for queue in found.queues] == [None, 7.0]


def test_a_stream_is_not_late_for_its_oldest(world):
    """The latest requests have all of their time left, and are as many as the older ones."""
    polite(world, planned_seconds=600.0)
    for _ in range(60):
        submitted(world, "a.example")
        world.now += timedelta(seconds=1)

    assert ahead(world).queues[0].seconds_left > 590


def limited_to(world: World, most: int, **quota: object) -> None:
    one = Quota(**{"unit": QuotaUnit.REQUESTS, "most": most} | quota)
    polite(world, HostLimits(per_second=1_000, concurrency=100), quotas=(one,))


def test_no_more_is_demanded_than_a_quota_lets_begin(world):
    limited_to(world, 12)
    submitted(world, *["a.example"] * 30)

    assert [queue.backlog for queue in ahead(world).queues] == [12]


def test_nothing_is_demanded_of_a_biz_whose_quota_is_used_up(world):
    limited_to(world, 12)
    submitted(world, *["a.example"] * 30)
    hold_a_share(world.quotas, DOCS, world.now, most=12, wanted=12, spent=12)

    assert ahead(world).queues == ()
    assert ahead(world).backlog == 0


def test_nothing_is_demanded_of_what_no_body_is_left_for(world):
    body = world.biz.fetch.max_body_bytes
    limited_to(world, body + 9, unit=QuotaUnit.BYTES)
    submitted(world, *["a.example"] * 30)
    assert ahead(world).backlog == 30
    work(world, dict.fromkeys((f"https://a.example/{n}" for n in range(30)), b"x" * 10))

    assert ahead(world).queues == ()


def test_nothing_is_demanded_of_what_workers_of_this_memory_have_no_money_left_for(world):
    limited_to(world, 1, unit=QuotaUnit.USD)
    worst = worst_case(world.tree.stage, world.biz)
    submitted(world, *["a.example"] * 30)
    limit, most = limits_of(world.tree, DOCS.tenant, DOCS.biz)[0], 10**9
    spent = most - 2 * worst
    hold_a_share(world.quotas, DOCS, world.now, wanted=most, spent=spent, limit=limit)

    def demand(gb):
        quotas = QuotaDemand(world.quotas, world.jobs.quota_terms, gb={"main": gb})
        return ahead(world, quotas=quotas).backlog

    assert (demand(1.0), demand(3.0)) == (30, 0)


def test_what_a_quota_ends_is_demanded_as_workers_end_it(world):
    limited_to(world, 12, at_limit=AtLimit.END)
    submitted(world, *["a.example"] * 30)
    hold_a_share(world.quotas, DOCS, world.now, most=12, wanted=12, spent=12)

    assert ahead(world).backlog == 30


def test_without_the_ledgers_all_is_demanded(world):
    limited_to(world, 12)
    submitted(world, *["a.example"] * 30)

    broken = QuotaDemand(QuotaLedgers(Broken(), Broken()), world.jobs.quota_terms)

    assert ahead(world, quotas=broken).backlog == 30
    assert any("how much of quotas is left is not known" in said for said in world.warnings)


def parked_for_ann(world: World, **quota: object) -> None:
    """Thirty requests of a user whose quota is used up, which a worker has parked."""
    polite(world, HostLimits(per_second=1_000, concurrency=100))
    one = Quota(unit=QuotaUnit.REQUESTS, most=2, **quota)
    world.tree = limited(world.tree, user_quotas=(one,))
    submitted(world, *["a.example"] * 32, user="ann")
    work(world, dict.fromkeys((f"https://a.example/{n}" for n in range(40)), b""))


def test_nothing_is_demanded_of_what_waits_for_a_users_quota(world):
    parked_for_ann(world)
    submitted(world, "b.example")
    world.now += timedelta(minutes=5)

    assert [queue.backlog for queue in ahead(world).queues] == [1]


def test_nothing_is_demanded_of_what_waits_for_more_users_quotas_than_are_looked_at(world):
    polite(world, HostLimits(per_second=1_000, concurrency=100))
    one = Quota(unit=QuotaUnit.REQUESTS, most=1)
    world.tree = limited(world.tree, user_quotas=(one,))
    for n in range(30):
        submitted(world, *["a.example"] * 2, user=f"u{n}")
    work(world, dict.fromkeys((f"https://a.example/{n}" for n in range(80)), b""))
    world.now += timedelta(minutes=5)

    assert ahead(world, most_hosts=5).backlog == 0

    submitted(world, "b.example")
    assert [queue.backlog for queue in ahead(world, most_hosts=5).queues] == [1]


def test_what_waited_for_a_users_quota_is_demanded_once_it_is_raised(world):
    parked_for_ann(world)
    assert ahead(world).backlog == 0

    raised = Quota(unit=QuotaUnit.REQUESTS, most=200)
    world.tree = limited(world.tree, user_quotas=(raised,))

    assert ahead(world).backlog == 30


def test_nothing_parked_is_demanded_without_the_ledgers(world):
    parked_for_ann(world)

    broken = QuotaDemand(QuotaLedgers(Broken(), Broken()), world.jobs.quota_terms)

    assert ahead(world, quotas=broken).backlog == 0
