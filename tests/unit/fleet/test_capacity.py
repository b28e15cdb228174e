"""Stated capacity as workers: bounded by tenant, shared by fairness, released when idle."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.config import (
    CapacityLimits,
    Needs,
    PoolLimits,
    Stage,
    Tenant,
    Tree,
    every_queue,
    limits_of,
    needs_problems,
    served_queues,
    serves,
    shares_work,
    stage_problems,
)
from tests.kit.fleet import active, capacity, shares, stated_by
from tests.kit.incidents import Kind, capacity_findings, unknown_of_capacity
from tests.kit.kernel import QueueKey
from tests.kit.monitoring import PoolSample, WorkersSample, short_of
from tests.kit.worlds.memory import make_biz


def tree(
    tenants: dict[str, Needs] | None = None,
    bizs: dict[str, Needs] | None = None,
    stage: Stage | None = None,
) -> Tree:
    """A tree whose tenants and bizs (``tenant/biz``) state these needs."""
    found: dict[str, dict[str, object]] = {}
    for path, needs in (bizs or {}).items():
        tenant, _, name = path.partition("/")
        found.setdefault(tenant, {})[name] = replace(make_biz(), needs=needs)
    return Tree(
        revision="1",
        stage=stage or Stage(),
        tenants={name: Tenant(needs=needs) for name, needs in (tenants or {}).items()},
        bizs=found,  # type: ignore[arg-type]
    )


def test_workers_that_are_stated_are_kept():
    found = capacity(tree(bizs={"acme/docs": Needs(workers=3)}), "main", 10, throughputs={})

    assert (found.floor, found.stated, found.short) == (3, 3, ())


def test_requests_an_hour_become_workers_by_the_reported_throughput():
    stated = tree(bizs={"acme/docs": Needs(requests_per_hour=36_000)})

    assert capacity(stated, "main", 99, throughputs={"acme/docs": 2.0}).floor == 5
    assert capacity(stated, "main", 99, throughputs={}, throughput=4.0).floor == 3
    assert capacity(stated, "main", 99, throughputs={}).floor == 1  # a guess: 64 a second


def test_parts_of_workers_add_up_so_that_small_ones_share_one():
    bizs = {f"t{n}/docs": Needs(requests_per_hour=36) for n in range(100)}

    assert capacity(tree(bizs=bizs), "main", 99, throughputs={}, throughput=1.0).floor == 1


def test_a_tenants_own_statement_is_for_all_of_its_bizs_together():
    stated = tree(
        {"acme": Needs(workers=4)}, {"acme/a": Needs(workers=1), "acme/b": Needs(workers=2)}
    )
    more = tree(
        {"acme": Needs(workers=2)}, {"acme/a": Needs(workers=1), "acme/b": Needs(workers=2)}
    )

    assert capacity(stated, "main", 99, throughputs={}).floor == 4
    assert capacity(more, "main", 99, throughputs={}).floor == 3


def test_a_tenants_throughput_is_that_of_its_bizs():
    stated = tree({"acme": Needs(requests_per_hour=7_200)})
    throughputs = {"acme/a": 1.0, "acme/b": 3.0, "other/a": 100.0}

    assert capacity(stated, "main", 99, throughputs=throughputs).asked["acme"] == pytest.approx(1.0)


def test_what_is_stated_for_a_pool_is_kept_there_alone():
    stated = tree(bizs={"acme/docs": Needs(workers=3, pool="large")})

    assert capacity(stated, "main", 10, throughputs={}).floor == 0
    assert capacity(stated, "large", 10, throughputs={}).floor == 3


def test_who_has_nothing_to_do_for_long_has_its_capacity_released():
    stated = tree(bizs={"acme/docs": Needs(workers=3, idle_seconds=60)})
    kept = tree(bizs={"acme/docs": Needs(workers=3, idle_seconds=None)})
    idle = {"acme/docs": 61.0}

    assert capacity(stated, "main", 9, throughputs={}, idle_seconds=idle).floor == 0
    assert capacity(stated, "main", 9, throughputs={}, idle_seconds={"acme/docs": 60.0}).floor == 3
    assert capacity(kept, "main", 9, throughputs={}, idle_seconds=idle).floor == 3


def test_a_tenant_is_at_work_where_any_of_its_bizs_is():
    stated = tree({"acme": Needs(workers=1), "b": Needs(workers=1)}, {"acme/a": Needs(workers=1)})

    assert [name for name, _ in stated_by(stated)] == ["acme", "b", "acme/a"]
    assert active(stated, {"acme/z"}) == {"acme"}
    assert active(stated, {"acme/a"}) == {"acme", "acme/a"}


def test_stating_too_much_takes_nothing_of_others():
    stage = Stage(capacity=CapacityLimits(workers_per_tenant=100))
    modest = tree(
        bizs={"small/docs": Needs(workers=2), "greedy/docs": Needs(workers=900)}, stage=stage
    )

    found = capacity(modest, "main", 10, throughputs={})
    assert found.given == {"greedy": 8.0, "small": 2.0}
    assert (found.floor, found.stated, found.short) == (10, 902, ("greedy",))


def test_the_stages_cap_holds_whatever_room_there_is():
    greedy = tree(bizs={"greedy/docs": Needs(workers=900)})

    assert capacity(greedy, "main", 500, throughputs={}).floor == 10


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 100), max_size=8),
    st.floats(0, 200),
    st.integers(0, 50),
)
def test_shares_are_bounded_fair_and_waste_nothing(asked, most, cap):
    given_ = shares(asked, most, Stage(capacity=CapacityLimits(workers_per_tenant=cap)))

    wanted = {name: min(workers, cap) for name, workers in asked.items()}
    assert sum(given_.values()) <= most + 1e-6
    assert all(given_[name] <= wanted[name] + 1e-9 for name in asked)
    assert math.isclose(sum(given_.values()), min(most, sum(wanted.values())), abs_tol=1e-6)
    # Whoever is given less than it wants is given no less than anybody.
    for name in asked:
        if given_[name] < wanted[name] - 1e-6:
            assert all(given_[name] >= other - 1e-6 for other in given_.values())


# ---- findings ------------------------------------------------------------------------------------


def findings(pool: PoolSample, stated: Tree) -> list:
    return list(capacity_findings(WorkersSample(pools=(PoolSample(name="main"), pool)), stated))


def test_a_pool_that_has_what_is_stated_is_no_finding():
    stated = tree(bizs={"acme/docs": Needs(workers=3, pool="large")})

    assert findings(PoolSample(name="large", alive=3, kept=3, stated=3), stated) == []
    assert short_of(PoolSample(name="large", alive=9)) == 0


def test_what_does_not_fit_is_reported_with_what_bounds_it_and_who_states_it():
    bizs = {f"t{n}/docs": Needs(workers=1, pool="large") for n in range(7)}
    [found] = findings(PoolSample(name="large", alive=4, kept=4, stated=7), tree(bizs=bizs))

    assert (found.kind, found.value, str(found.place)) == (Kind.CAPACITY_SHORT, 3, "workers large")
    assert "7 workers and 4 are" in found.said
    assert "max_consumers" in found.said
    assert found.said.endswith("t3/docs, t4/docs and 2 more")


def test_workers_that_are_kept_and_do_not_live_are_reported():
    stated = tree(bizs={"acme/docs": Needs(workers=5, pool="large")})
    [found] = findings(PoolSample(name="large", alive=2, kept=4, stated=5), stated)

    assert found.value == 3
    assert "2 are alive" in found.said
    assert "come to 5" in found.said


def test_needs_of_a_pool_that_is_not_deployed_are_reported():
    stated = tree({"acme": Needs(workers=1, pool="far")})
    [found] = findings(PoolSample(name="large"), stated)

    assert "no such pool" in found.said
    assert found.said.endswith("stated by acme")


def test_nothing_is_known_of_capacity_where_workers_could_not_be_counted():
    stage = Stage(pools={"large": PoolLimits()})
    stated = tree({"acme": Needs(workers=1, pool="far")}, stage=stage)

    assert len(set(unknown_of_capacity(stated))) == 3


# ---- documents, queues ---------------------------------------------------------------------------


@pytest.mark.parametrize("needs", [Needs(), Needs(workers=1, requests_per_hour=1)])
def test_needs_say_one_of_two(needs):
    assert [problem.field for problem in needs_problems(needs)] == ["needs"]
    assert list(needs_problems(None)) == list(needs_problems(Needs(workers=1))) == []


def test_a_pool_has_a_name_of_its_own_and_bounds_that_fit():
    stage = Stage(pools={"main": PoolLimits(), "far": PoolLimits(min_consumers=3, max_consumers=2)})

    assert [problem.field for problem in stage_problems(stage)] == [
        "pools.main",
        "pools.far.min_consumers",
    ]


def test_who_serves_what_is_said_in_one_place():
    stage = Stage(pools={"large": PoolLimits(), "far": PoolLimits(bound_only=False)})
    found = tree(bizs={"acme/docs": Needs(workers=1)}, stage=stage)
    usual, bound = QueueKey("acme", "docs", "main"), QueueKey("acme", "docs", "main@large")

    assert served_queues(found, "main") == (usual,)
    assert served_queues(found, "large") == (bound,)
    assert served_queues(found, "far") == (QueueKey("acme", "docs", "main@far"), usual)
    assert every_queue(found) == (usual, QueueKey("acme", "docs", "main@far"), bound)
    for pool in ("main", "large", "far"):
        queues = served_queues(found, pool)
        assert all(
            serves(stage, pool, queue_key) == (queue_key in queues)
            for queue_key in every_queue(found)
        )
    assert [shares_work(stage, pool) for pool in ("main", "large", "far")] == [True, False, True]


def test_a_pool_has_its_own_number_of_workers_and_the_fleets_way_of_working():
    stage = Stage(pools={"large": PoolLimits(min_consumers=1, max_consumers=7)})

    assert limits_of(stage, "main") is stage.fleet
    large = limits_of(stage, "large")
    assert (large.min_consumers, large.max_consumers) == (1, 7)
    assert (large.batch, large.concurrency) == (stage.fleet.batch, stage.fleet.concurrency)


def test_a_stage_without_pools_has_the_queues_that_it_had():
    found = tree(bizs={"acme/docs": Needs(workers=1)})

    assert every_queue(found) == served_queues(found, "main") == found.queues()
