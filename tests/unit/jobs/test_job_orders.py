"""A job is what an order asks for, or a name is taken by another one."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from tests.kit.jobs import Job, JobOrder, JobState, is_as_ordered
from tests.kit.spiders import Start

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
    ],
)
def test_an_order_that_says_another_thing_is_another_job(wanted):
    assert not is_as_ordered(JOB, replace(ORDER, **wanted))
