"""A job is what an order asks for, or a name is taken by another one."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from tests.kit.jobs import Job, JobOrder, JobState, is_as_ordered
from tests.kit.spiders import Range, Start

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
