"""Whom work is for: the user of a job, and of what a page links to."""

from datetime import UTC, datetime

from msgspec.structs import replace

from tests.kit.frontier import spec_of_link
from tests.kit.jobs import JobOrder, is_as_ordered, job_of
from tests.kit.quotas import AtLimit, Quota, QuotaUnit
from tests.kit.requests import Body, Claim, Link, Request
from tests.kit.spiders import Start

NOW = datetime(2026, 11, 23, tzinfo=UTC)
START = Start(urls=("https://example.org/",))
QUOTA = Quota(unit=QuotaUnit.REQUESTS, most=5, at_limit=AtLimit.END)
ORDER = JobOrder(tenant="acme", biz="docs", by="api", rule="page", start=START)


def test_a_job_has_the_user_and_the_quotas_of_its_order():
    order = replace(ORDER, user="ann", quotas=(QUOTA,))

    job = job_of(order, None, "page", "v", START, None, NOW, waits=False)

    assert (job.user, job.quotas) == ("ann", (QUOTA,))
    assert is_as_ordered(job, order)
    assert not is_as_ordered(job, replace(order, user="bob"))
    assert not is_as_ordered(job, replace(order, quotas=()))


def test_what_a_page_links_to_is_for_the_pages_user():
    body = Body(url="https://example.org/", rule="page", rule_version="v")
    request = Request(id=1, tenant="acme", biz="docs", queued_at=NOW, body=body, user="ann")
    claim = Claim(request=request, entry=request.entry, token="t", attempt=1)

    assert spec_of_link(claim, Link(url="https://example.org/2")).user == "ann"
