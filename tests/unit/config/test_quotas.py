"""Quotas in documents: what is refused, and by which field."""

import json
from datetime import UTC, datetime

import pytest

from tests.config_documents import biz
from tests.kit.config import read_document, unchecked
from tests.kit.quotas import (
    Account,
    JobTerms,
    Limit,
    Quota,
    QuotaPeriod,
    QuotaUnit,
    Scope,
    limits_of,
    window_of,
)
from tests.kit.worlds.memory import make_biz, make_tree
from tests.kit.worlds.quotas import limited


def problems(path: str, document: object) -> list[str]:
    return [str(one) for one in read_document(path, json.dumps(document), unchecked).problems]


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"quotas": [{"unit": "pages", "most": 5}]}, "quotas[0].unit"),
        ({"quotas": [{"unit": "requests", "most": 0}]}, "quotas[0].most"),
        ({"quotas": [{"unit": "requests"}]}, "quotas[0].most"),
        ({"quotas": [{"unit": "requests", "most": 5, "per": "week"}]}, "quotas[0].per"),
        ({"quotas": [{"unit": "requests", "most": 5, "at_limit": "x"}]}, "quotas[0].at_limit"),
        ({"quotas": [{"unit": "money", "most": 5}]}, "quotas[0].unit"),
        (
            {"quotas": [{"unit": "requests", "most": most, "per": "day"} for most in (5, 9)]},
            "quotas[1]: says requests per day a second time",
        ),
        ({"user_quotas": [{"unit": "bytes", "most": -1}]}, "user_quotas[0].most"),
        ({"users": {"ann": [{"unit": "bytes", "most": 5, "each": 1}]}}, "users.ann[0].each"),
        ({"users": {"-ann": [{"unit": "bytes", "most": 5}]}}, "users"),
    ],
)
def test_what_is_wrong_with_a_tenants_quotas_is_named(document, field):
    found = problems("tenants/acme", document)

    assert len(found) == 1, found
    assert field in found[0]


def test_a_quota_of_bytes_below_one_body_is_refused_as_no_download_could_begin():
    small = {"unit": "bytes", "most": 9_999_999}
    [found] = problems("bizs/acme/docs", biz(quotas=[small]))

    assert "quotas[0].most: is less than one page may have (fetch.max_body_bytes is" in found
    assert problems("bizs/acme/docs", biz(quotas=[small], fetch={"max_body_bytes": 1_000})) == []


def test_the_limits_of_work_are_those_of_its_tenant_user_biz_and_job():
    one = Quota(unit=QuotaUnit.REQUESTS, most=5)
    tree = limited(
        make_tree(make_biz(quotas=(one,))),
        quotas=(one,),
        user_quotas=(one,),
        users={"bob": (one, Quota(unit=QuotaUnit.RECORDS, most=9))},
    )

    found = limits_of(tree, "default", "docs", None, "june", JobTerms(quotas=(one,), user="ann"))
    of_bob = limits_of(tree, "default", "docs", "bob", "june", JobTerms(user="ann"))

    assert [(limit.account.owner, limit.field) for limit in found] == [
        ("tenant default", "quotas[0]"),
        ("user ann", "user_quotas[0]"),
        ("biz docs", "quotas[0]"),
        ("job june of biz docs", "quotas[0]"),
    ]
    assert [limit.field for limit in of_bob if limit.account.scope is Scope.USER] == [
        "users.bob[0]",
        "users.bob[1]",
    ]


def test_periods_are_days_and_months_of_utc():
    moment = datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC)
    account = Account("acme", Scope.TENANT, "acme", QuotaUnit.BYTES, QuotaPeriod.DAY)

    paths = [account.path(window_of(per, moment)) for per in QuotaPeriod]

    assert [path.rsplit(":", 1)[1] for path in paths] == ["2026-12-31", "2026-12", "all"]
    assert Limit(account, Quota(unit=QuotaUnit.BYTES, most=1), "").account.is_rate
