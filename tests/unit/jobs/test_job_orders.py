"""A job is what an order asks for, or a name is taken by another one."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from tests.kit.jobs import (
    Job,
    JobOrder,
    JobState,
    is_as_ordered,
    problems_of,
    rule_and_start,
    wake_for,
)
from tests.kit.quotas import Quota, QuotaUnit
from tests.kit.spiders import LinkNeeds, Range, Start
from tests.kit.worlds.doubles import Broken
from tests.kit.worlds.memory import make_biz, make_tree

AT = datetime(2026, 3, 1, tzinfo=UTC)
START = Start(urls=("https://example.org/",))
ORDER = JobOrder(tenant="acme", biz="docs", by="api", name="june", rule="page", start=START)
JOB = Job(
    tenant="acme",
    biz="docs",
    name="june",
    state=JobState.RUNNING,
    rule="page",
    rule_version="1",
    start=START,
    size=1,
    created_at=AT,
    by="api",
    spider_version=3,
)


@pytest.mark.parametrize(
    "wanted", [{}, {"version": 3}, {"pool": "main"}, {"rule": None}, {"start": None}]
)
def test_what_an_order_leaves_open_or_says_alike_is_the_same_job(wanted):
    assert is_as_ordered(JOB, replace(ORDER, **wanted))


@pytest.mark.parametrize(
    "wanted",
    [
        {"by": "somebody"},
        {"values": {"zone": "north"}},
        {"schedule": "nightly"},
        {"fire_at": AT},
        {"version": 4},
        {"rule": "list"},
        {"start": Start(urls=("https://example.org/2",))},
        {"pool": "far"},
        {"priority": 9},
        {"segment": "day"},
        {"user": "ann"},
    ],
)
def test_an_order_that_says_another_thing_is_another_job(wanted):
    assert not is_as_ordered(JOB, replace(ORDER, **wanted))


def test_a_job_with_several_values_in_a_place_is_known_by_all_of_them():
    pages = {"page": Range(last=9), "zone": ("n", "s")}
    start = Start(pattern="https://example.org/{kind}/{zone}/{page}", values=pages)
    job = replace(JOB, start=start, values={"kind": "new"}, several=("page", "zone"), spider="shop")
    order = replace(ORDER, start=None, spider="shop", rule=None)

    assert is_as_ordered(job, replace(order, values={"kind": "new", **pages}))
    for values in ({"kind": "new"}, {"kind": "new", **pages, "zone": "n"}, pages):
        assert not is_as_ordered(job, replace(order, values=values))


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"quotas": (Quota(unit=QuotaUnit.ITEMS, most=5),)}, "quotas[0].unit: is items"),
        ({"pool": "far"}, "pool: there is no pool 'far'"),
        ({"link": LinkNeeds(test_url="ftp://example.org/")}, "link.test_url: "),
        ({"segment": "week"}, "segment: "),
    ],
)
def test_what_is_wrong_with_an_order_beside_its_start_is_named(wanted, told):
    [found] = problems_of(replace(ORDER, **wanted), None, make_tree(), make_biz())

    assert str(found).startswith(told)


def test_an_order_without_a_rule_is_told_those_of_its_biz():
    page = make_biz().rules["page"]
    biz = make_biz(rules={"page": page, "list": page})

    _, _, [problem] = rule_and_start(replace(ORDER, rule=None), None, biz)

    assert str(problem) == "rule: is missing; this biz has: list, page"


def test_nobody_is_woken_for_a_job_that_makes_no_tasks():
    wake_for(JOB, Broken(), Broken())
