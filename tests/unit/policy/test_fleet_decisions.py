from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.errors import UnknownTenantError
from crawlfleet.model.biz import FleetLimits, Stage, Tenant, Thresholds, Tree
from crawlfleet.model.totals import Depth, Load, NodeHealth
from crawlfleet.policy.health import breaches, is_late
from crawlfleet.policy.scaling import queued_before, wanted_consumers
from crawlfleet.policy.tenancy import tenant_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TREE = Tree(
    revision="1",
    stage=Stage(),
    tenants={"acme": Tenant(api_keys=("k1", "k2")), "default": Tenant()},
    bizs={},
)


@given(st.lists(st.integers(0, 10**7)), st.integers(0, 5), st.integers(1, 50))
def test_the_wanted_consumers_stay_within_the_stage(ready, least, most):
    limits = FleetLimits(min_consumers=min(least, most), max_consumers=most)
    loads = [Load(ready=count, leased=0) for count in ready]

    assert limits.min_consumers <= wanted_consumers(loads, limits) <= most


def test_one_request_wants_one_consumer_whether_it_waits_or_is_worked_on():
    assert wanted_consumers([Load(ready=1, leased=0)], FleetLimits()) == 1
    assert wanted_consumers([Load(ready=0, leased=1)], FleetLimits()) == 1
    assert wanted_consumers([Load(ready=0, leased=0)], FleetLimits()) == 0


def test_what_is_older_than_the_oldest_entry_is_not_queued():
    oldest_ms = int(NOW.timestamp() * 1000) - 60_000
    depth = Depth(queued=5, leased=0, delayed=0, oldest_ts=oldest_ms)

    assert queued_before(depth, NOW, 5) == oldest_ms / 1000
    assert queued_before(Depth(queued=0, leased=0, delayed=0), NOW, 5) == NOW.timestamp() - 5


def test_the_slack_holds_for_a_young_queue_too():
    young = Depth(queued=1, leased=0, delayed=0, oldest_ts=int(NOW.timestamp() * 1000))

    assert queued_before(young, NOW, 5) == NOW.timestamp() - 5


def test_the_tenant_is_the_one_that_claims_the_key():
    assert tenant_of(TREE, "k2", "d") == "acme"
    assert tenant_of(TREE, "d", "d") == "default"


@pytest.mark.parametrize("key", [None, "", "k3"])
def test_a_key_of_nobody_is_nobodys(key):
    with pytest.raises(UnknownTenantError):
        tenant_of(TREE, key, "d")


def test_no_default_key_makes_nobody_the_default_tenant():
    with pytest.raises(UnknownTenantError):
        tenant_of(TREE, None, None)


def test_each_figure_beyond_its_threshold_is_a_sentence():
    look = NodeHealth(
        part="mongodb",
        name="main",
        up=True,
        figures={"StorageBytes": 2e12, "SlowOperations": 101, "MemoryRatio": 0.2},
    )

    found = breaches(look, Thresholds())

    assert [sentence.split()[0] for sentence in found] == ["StorageBytes", "SlowOperations"]


def test_a_replica_that_is_not_well_is_a_sentence():
    look = NodeHealth(part="mongodb", name="main", up=True, figures={"MembersUnwell": 1.0})

    assert breaches(look, Thresholds()) == ["MembersUnwell is 1, more than 0"]


@pytest.mark.parametrize(
    ("oldest", "queued", "per_second", "planned", "late"),
    [
        (61, 5, 9.0, None, True),
        (10, 5_000, 0.1, None, False),
        (10, 101, 1.0, 100, True),
        (10, 99, 1.0, 100, False),
        (50, 5, 0.0, 40, True),
        (50, 5, 0.0, 55, False),
        (0, 0, 0.0, 1, False),
    ],
    ids=[
        "older than the stage bears",
        "no plan",
        "longer than planned",
        "within the plan",
        "nothing moves",
        "nothing moves yet",
        "nothing waits",
    ],
)
def test_a_biz_is_late_by_age_or_by_forecast(oldest, queued, per_second, planned, late):
    assert late is is_late(
        oldest_seconds=oldest,
        longest_seconds=60,
        queued=queued,
        per_second=per_second,
        planned_seconds=planned,
    )
