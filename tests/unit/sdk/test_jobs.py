"""Jobs through the SDK: started once whatever happens on the way, followed, cancelled, retried."""

import json
import re
from datetime import timedelta

import pytest

from tests.kit.api_server import BIZ, Fault
from tests.kit.api_server.jobs import START
from tests.kit.jobs import JobState
from tests.kit.kernel import ConflictError, InvalidRequestError, NotFoundError
from tests.kit.requests import Ledger
from tests.kit.sdk import OwnAmount, WaitTimeoutError


def test_a_job_of_pages_is_started(client, api):
    job = client.start_job(BIZ, rule="article", urls=["https://example.org/1"], name="june")

    assert (job.name, job.state, job.size, job.rule, job.ended) == (
        "june",
        "running",
        1,
        "article",
        False,
    )
    sent = json.loads(api.calls[-1].body)
    assert sent == {"rule": "article", "urls": ["https://example.org/1"], "name": "june"}


def test_a_job_of_a_spider_or_a_pattern_says_what_fills_its_places(client, api):
    job = client.start_job(BIZ, spider="shop", version=2, values={"kind": "new"}, priority=0)
    assert (job.spider, job.values, job.priority) == ("shop", {"kind": "new"}, 0)

    start = {"pattern": "https://example.org/{n}", "values": {"n": {"last": 50}}}
    assert client.start_job(BIZ, start=start).size == 50
    client.start_job(BIZ, urls="https://example.org/")
    sent = json.loads(api.calls[-1].body)
    assert (sent.pop("name")[:4], sent) == ("job-", {"urls": ["https://example.org/"]})


def test_a_job_states_its_link_and_its_demand(client, api):
    link = {"test_url": "https://example.org/speed", "seconds_below": 0.5}
    demand = {"memory": {"maximum": 5e8}, "cpu": {"average": 0.5, "maximum": 1.5}}

    client.start_job(BIZ, spider="shop", name="june", link=link, demand=demand)

    found = client.job(BIZ, "june")
    assert (found.link.test_url, found.link.seconds_below) == ("https://example.org/speed", 0.5)
    assert found.demand.memory == OwnAmount(maximum=5e8)
    assert found.demand.cpu == OwnAmount(average=0.5, maximum=1.5)
    assert found.demand.bandwidth is None


def test_a_lost_answer_makes_no_second_job(client, api):
    api.faults.append(Fault(cut=True, carry_out=True))

    job = client.start_job(BIZ, urls=["https://example.org/1"])

    assert list(api.jobs.kept) == [job.name]
    names = {json.loads(call.body)["name"] for call in api.made("POST")}
    assert (len(api.made("POST")), names) == (2, {job.name})


def test_a_job_that_nobody_named_says_what_it_is_a_run_of_in_a_name_the_api_takes(client, api):
    pages = {"urls": ["https://example.org/1"]}
    odd = "a." + "b" * 60
    of = [
        client.start_job(BIZ, **each).name for each in ({"spider": "shop"}, {"rule": odd} | pages)
    ]

    assert [re.fullmatch(r"(.{1,32})-\d{8}-\d{6}-[0-9a-f]{6}", name)[1] for name in of] == [
        "shop",
        "a-" + "b" * 30,
    ]
    with pytest.raises(InvalidRequestError) as caught:
        client.start_job(BIZ, rule="_ä", **pages)
    assert [problem.field for problem in caught.value.problems] == ["rule"]


def test_a_key_and_a_trace_of_ones_own_are_sent(client, api):
    traceparent = f"00-{'ab' * 16}-{'cd' * 8}-01"
    urls = ["https://example.org/1"]
    client.start_job(BIZ, urls=urls, idempotency_key="order-1", traceparent=traceparent)

    assert api.calls[-1].headers["idempotency-key"] == "order-1"
    assert api.calls[-1].headers["traceparent"] == traceparent


def test_what_is_wrong_with_an_order_is_named(client):
    with pytest.raises(InvalidRequestError) as caught:
        client.start_job(BIZ, spider="shop", rule="article", priority=11)

    assert [problem.field for problem in caught.value.problems] == ["priority"]


def test_jobs_are_read_page_by_page_the_newest_first(client, api):
    for name in "abcde":
        api.jobs.keep(name)
    api.jobs.keep("f", state=JobState.DONE)

    assert [job.name for job in client.jobs(BIZ)] == ["f", "e", "d", "c", "b", "a"]
    assert [job.name for job in client.jobs(BIZ, state="done")] == ["f"]
    assert len(list(client.jobs(BIZ, state=["done", "running"], spider="s", schedule="n"))) == 6
    assert api.calls[-1].params["state"] == "done,running"


def test_what_has_ended_of_a_job_that_goes_on_is_read_with_when_it_was_counted(client, api):
    api.jobs.keep("june", by="submission", size=0)
    api.jobs.ledgers["june"] = Ledger(submitted=9, done=4, dead=1, pending=4)
    api.jobs.keep("july")

    july, june = client.jobs(BIZ)
    whole = client.job(BIZ, "july")

    at = START + timedelta(seconds=30)
    assert (june.counts["done"], june.counts["dead"], june.open, june.counted_at) == (4, 1, 4, at)
    assert (july.counts, july.open, july.counted_at) == ({}, None, None)
    assert (whole.counts["done"], whole.open, whole.counted_at) == (0, 3, at)


def test_a_job_is_waited_for_with_its_progress(client, api, clock):
    api.jobs.keep("june")
    seen = []

    job = client.wait_job(BIZ, "june", progress=lambda each: seen.append(each.progress.ended))

    assert (job.state, job.ended, job.counts["done"]) == ("done", True, 3)
    assert seen == [0, 1, 2, 3]
    assert (job.ledger.done, job.progress.ended_share) == (3, 1.0)
    assert len(clock.slept) == 3


def test_whoever_has_waited_long_enough_hears_how_much_is_left(client, api):
    api.jobs.keep("june", size=1_000)

    with pytest.raises(WaitTimeoutError) as caught:
        client.wait_job(BIZ, "june", timeout=1.0)
    assert 900 < caught.value.unfinished <= 1_000


def test_a_job_is_cancelled_and_once_more(client, api):
    api.jobs.keep("june")
    api.faults.append(Fault(cut=True, carry_out=True))

    assert client.cancel_job(BIZ, "june").state == "cancelled"
    assert client.cancel_job(BIZ, "june").state == "cancelled"


def test_what_has_ended_is_not_cancelled_and_what_is_not_there_not_found(client, api):
    api.jobs.keep("june", state=JobState.DONE)

    with pytest.raises(ConflictError):
        client.cancel_job(BIZ, "june")
    for call in (client.job, client.cancel_job, client.retry_job, client.wait_job):
        with pytest.raises(NotFoundError):
            call(BIZ, "july")


def test_a_retry_goes_on_until_all_is_retried(client, api):
    api.jobs.keep("june", state=JobState.DONE)
    api.jobs.unfinished_retries = 2

    done = client.retry_job(BIZ, "june", rule="current")

    assert (done.retried, done.skipped, done.more, done.job.name) == (6, 1, False, "june")
    assert api.jobs.retried == [{"rule": "current"}] * 3
