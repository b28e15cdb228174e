from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from msgspec.structs import replace

from tests.kit.config import Stage, Tenant, Tree, tenant_of
from tests.kit.fleet import is_late
from tests.kit.kernel import UnknownTenantError, to_ms
from tests.kit.queue import Depth, each_queued_before, queued_before

DAY = timedelta(days=1)
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TREE = Tree(
    revision="1",
    stage=Stage(),
    tenants={"acme": Tenant(api_keys=("k1", "k2")), "default": Tenant()},
    bizs={},
)


def test_what_is_older_than_the_oldest_entry_is_not_queued():
    oldest_ms = int(NOW.timestamp() * 1000) - 60_000
    depth = Depth(queued=5, leased=0, delayed=0, heads={5: oldest_ms})

    assert queued_before(depth, NOW, 5) == oldest_ms
    assert queued_before(Depth(queued=0, leased=0, delayed=0), NOW, 5) == to_ms(NOW) - 5_000


def test_what_is_queued_of_one_priority_says_nothing_of_another_and_what_is_deferred_of_all():
    now_ms = to_ms(NOW)
    depth = Depth(queued=5, leased=0, delayed=0, heads={0: now_ms - 90_000, 10: now_ms - 20_000})
    deferred = msgspec.structs.replace(depth, deferred_ts=now_ms - 60_000)

    bounds = each_queued_before(depth, NOW, 5)
    below_deferred = each_queued_before(deferred, NOW, 5)

    assert bounds == (now_ms - 90_000, *[now_ms - 5_000] * 9, now_ms - 20_000)
    assert below_deferred == (now_ms - 90_000, *[now_ms - 60_000] * 10)


def test_the_slack_holds_for_a_young_queue_too():
    young = Depth(queued=1, leased=0, delayed=0, heads={5: to_ms(NOW)})

    assert queued_before(young, NOW, 5) == to_ms(NOW) - 5_000


def test_the_tenant_is_the_one_that_claims_the_key():
    assert tenant_of(TREE, "k2", "d", NOW) == "acme"
    assert tenant_of(TREE, "d", "d", NOW) == "default"


@pytest.mark.parametrize("key", [None, "", "k3"])
def test_a_key_of_nobody_is_nobodys(key):
    with pytest.raises(UnknownTenantError):
        tenant_of(TREE, key, "d", NOW)


def test_a_key_that_is_replaced_is_its_tenants_until_its_end_and_the_new_one_at_once():
    ends = dict.fromkeys(("old", "older"), NOW + timedelta(hours=1))
    tree = replace(TREE, tenants={"acme": Tenant(api_keys=("new",), retiring_keys=ends)})

    for key in ("new", "old", "older"):
        assert tenant_of(tree, key, "d", NOW + timedelta(minutes=59)) == "acme"
    later = NOW + timedelta(hours=1)
    assert tenant_of(tree, "new", "d", later) == "acme"
    for key in ("old", "older"):
        with pytest.raises(UnknownTenantError, match="was replaced, and ended at"):
            tenant_of(tree, key, "d", later)


def test_the_stages_own_key_ends_too_where_it_is_replaced():
    tree = replace(TREE, tenants={"default": Tenant(api_keys=("new",), retiring_keys={"d": NOW})})

    with pytest.raises(UnknownTenantError):
        tenant_of(tree, "d", "d", NOW)


def test_no_default_key_makes_nobody_the_default_tenant():
    with pytest.raises(UnknownTenantError):
        tenant_of(TREE, None, None, NOW)


@pytest.mark.parametrize(
    ("oldest", "queued", "per_second", "planned", "late"),
    [
        (61, 5, 9.0, None, True),
        (10, 5_000, 0.1, None, False),
        (10, 101, 1.0, 100, True),
        (10, 91, 1.0, 100, True),
        (10, 90, 1.0, 100, False),
        (50, 5, 0.0, 40, True),
        (50, 5, 0.0, 55, False),
        (0, 0, 0.0, 1, False),
    ],
    ids=[
        "older than the stage bears",
        "no plan",
        "longer than planned",
        "longer with what it has waited",
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
