"""The limits of a tenant, its users, bizs and open jobs, found by their accounts and paths."""

from datetime import UTC, datetime

from msgspec.structs import replace

from tests.kit.config import Channel, StreamTerms, Tenant, Tree
from tests.kit.quotas import (
    Account,
    AtLimit,
    JobTerms,
    Limit,
    Quota,
    QuotaPeriod,
    QuotaUnit,
    Scope,
    Standing,
    described,
    for_tenant,
    limit_of,
    limits_at,
    limits_of,
    limits_of_channel,
    limits_of_jobs,
    limits_of_tenant,
    window_of,
)
from tests.kit.worlds.memory import make_tree

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
DAILY = Quota(unit=QuotaUnit.REQUESTS, most=9, per=QuotaPeriod.DAY)
BYTES = Quota(unit=QuotaUnit.BYTES, most=99)
TENANT = Tenant(quotas=(BYTES,), user_quotas=(DAILY, BYTES), users={"ann": (DAILY,)})


def a_tree(**tenants: Tenant) -> Tree:
    tree = make_tree()
    biz = replace(tree.bizs["acme"]["docs"], quotas=(DAILY,))
    return replace(tree, tenants=tenants, bizs={"acme": {"docs": biz}})


def path_of(limit) -> str:
    return limit.account.path(window_of(limit.quota.per, NOW))


def test_a_limit_is_found_by_its_account_whatever_it_is_of():
    tree, terms = a_tree(acme=TENANT), JobTerms(quotas=(DAILY,))
    every = [*limits_of_tenant(tree, "acme"), *limits_of(tree, "acme", "docs", None, "june", terms)]

    assert {one.account.scope for one in every} == {
        *(Scope.TENANT, Scope.USER, Scope.BIZ, Scope.JOB)
    }
    for limit in every:
        assert limit_of(tree, limit.account, lambda *_: terms) == limit


def test_of_an_account_whose_quota_is_gone_there_is_no_limit():
    account = Account("acme", Scope.JOB, "docs/june", QuotaUnit.REQUESTS, QuotaPeriod.DAY)

    assert limit_of(a_tree(), account, lambda *_: None) is None


def test_a_tenant_without_a_document_has_the_limits_of_its_bizs():
    found = limits_of_tenant(a_tree(), "acme")

    assert [(one.account.scope, one.account.name) for one in found] == [(Scope.BIZ, "docs")]


def test_of_users_those_limits_are_found_whose_paths_are_asked_for():
    tree = a_tree(acme=TENANT)
    mine, theirs = limits_of(tree, "acme", None, "bob")[1:]

    assert list(limits_at(tree, "acme", [path_of(mine), "biz:docs:requests:all"], NOW)) == [mine]
    assert list(limits_at(tree, "acme", [path_of(theirs)], NOW)) == [theirs]


def test_of_open_jobs_those_limits_are_found_whose_paths_are_asked_for():
    tree, terms = a_tree(acme=TENANT), JobTerms(quotas=(DAILY, BYTES))
    *_, daily, in_all = limits_of(tree, "acme", "docs", None, "june", terms)
    paths = [path_of(daily), "job:gone/june:bytes:all", "user:bob:bytes:all"]
    asked = []

    def of_open(tenant, biz, jobs):
        asked.append((tenant, biz, jobs))
        return {"june": terms}

    assert in_all != daily
    assert list(limits_of_jobs(tree, "acme", paths, of_open, NOW)) == [daily]
    assert asked == [("acme", "docs", ["june"])]


def with_channel(item_usd: float) -> Tree:
    items = Quota(unit=QuotaUnit.ITEMS, most=5, per=QuotaPeriod.DAY)
    money = Quota(unit=QuotaUnit.USD, most=1.0)
    wire = Channel(
        kind="ndjson_stream", url="https://a.example", item_usd=item_usd, quotas=(items, money)
    )
    tree = make_tree()
    stage = replace(tree.stage, streams=StreamTerms(channels={"wire": wire}))
    return replace(tree, stage=stage)


def test_a_channel_whose_items_cost_nothing_has_no_limit_of_money():
    of_free, of_dear = (limits_of_channel(with_channel(usd), "wire") for usd in (0.0, 0.5))

    assert [one.quota.unit for one in of_free] == [QuotaUnit.ITEMS]
    assert [one.quota.unit for one in of_dear] == [QuotaUnit.ITEMS, QuotaUnit.USD]
    assert limits_of_channel(make_tree(), "wire") == ()


def test_an_item_needs_its_price_of_a_budget_and_says_so_once_that_is_not_left():
    tree = with_channel(0.5)
    items, money = limits_of_channel(tree, "wire")
    window = window_of(QuotaPeriod.ALL, NOW)
    spent = Standing(limit=money, window=window, used=600_000_000)

    asked = for_tenant(spent, tree)

    assert asked.least == 500_000_000
    assert asked.is_used_up
    assert "an item costs up to" in described(asked)
    counted = Standing(limit=items, window=window_of(QuotaPeriod.DAY, NOW), used=5)
    assert for_tenant(counted, tree) == counted
    assert for_tenant(spent, make_tree()) == spent


def test_a_limit_at_which_work_ends_says_what_becomes_of_it_and_which_use_is_in_doubt():
    quota = Quota(unit=QuotaUnit.REQUESTS, most=9, at_limit=AtLimit.END)
    limit = Limit(Account("acme", Scope.BIZ, "docs", quota.unit, quota.per), quota, "quotas[0]")
    standing = Standing(
        limit=limit, window=window_of(QuotaPeriod.ALL, NOW), used=8, in_doubt=1, held=1
    )

    said = described(standing)

    assert "1 more count as used, whose workers died" in said
    assert said.endswith("its requests end as dead letters; it goes on with a higher limit")
