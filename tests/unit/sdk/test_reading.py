import json
from datetime import UTC, datetime, timedelta, timezone
from itertools import islice

import pytest

from tests.kit.api_server import BIZ, FIRST_ID, KEY, Fault, record
from tests.kit.kernel import ConflictError, InvalidRequestError, NotFoundError
from tests.kit.sdk import ApiError, Client, Pages, WaitTimeoutError

URL = "https://example.org/a"


def submitted(client, count):
    return client.submit(BIZ, [f"https://example.org/{n}" for n in range(count)])


# ---- one request ---------------------------------------------------------------------------------


def test_a_request_is_read_with_its_timeline(client):
    sent = client.submit(BIZ, URL)

    status = client.get(BIZ, sent.id)

    assert (status.state, status.url, status.final) == ("pending", URL, False)
    assert status.queued_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert [(event.state, event.by) for event in status.timeline] == [("pending", "router")]


def test_an_unknown_request_is_not_found(client):
    with pytest.raises(NotFoundError):
        client.get(BIZ, "17")


def test_an_id_is_one_segment_of_the_path(client, api):
    with pytest.raises(NotFoundError):
        client.get(BIZ, "../stats")

    assert api.calls[0].path == f"/v1/{BIZ}/requests/..%2Fstats"


def test_a_pending_request_is_cancelled_once(client):
    sent = client.submit(BIZ, URL)

    assert client.cancel(BIZ, sent.id).state == "cancelled"
    with pytest.raises(ConflictError):
        client.cancel(BIZ, sent.id)


def test_a_cancelling_whose_answer_was_lost_still_reports_that_it_worked(client, api):
    sent = client.submit(BIZ, URL)
    api.faults.append(Fault(carry_out=True))

    assert client.cancel(BIZ, sent.id).state == "cancelled"


# ---- states of the biz's own ---------------------------------------------------------------------


def reviewed(client, ids, **more):
    states = {"from_state": "done", "to_state": "reviewed"}
    return list(client.transition_each(BIZ, ids, **states, **more))


def test_a_request_is_changed_to_a_state_of_the_bizs_own(client, api):
    sent = client.submit(BIZ, URL)
    api.finish()

    found = client.transition(BIZ, sent.id, from_state="done", to_state="reviewed", why="by Ann")

    assert (found.state, found.flag, found.final) == ("reviewed", 1_000, True)
    assert json.loads(api.calls[-1].body) == {
        "from_state": "done",
        "to_state": "reviewed",
        "why": "by Ann",
    }


def test_a_transition_that_is_not_possible_says_why(client):
    sent = client.submit(BIZ, URL)

    with pytest.raises(ConflictError, match="is pending, not done"):
        client.transition(BIZ, sent.id, from_state="done", to_state="reviewed")
    with pytest.raises(NotFoundError):
        client.transition(BIZ, "17", from_state="done", to_state="reviewed")
    with pytest.raises(InvalidRequestError, match="to_state"):
        client.transition(BIZ, sent.id, from_state="done", to_state="archived")


def test_many_requests_are_changed_a_thousand_a_call_and_each_is_answered(client, api):
    sent = submitted(client, 1_001)
    api.finish()
    ids = [one.id for one in sent]

    answers = reviewed(client, iter([*ids, "17"]))

    assert [one.id for one in answers] == [*ids, "17"]
    assert [one.state for one in answers] == ["reviewed"] * 1_001 + [None]
    assert answers[-1].error.status == 404
    sizes = [len(json.loads(one.body)["requests"]) for one in api.made("POST")[-2:]]
    assert sizes == [1_000, 2]


def test_a_transition_whose_answer_was_lost_is_sent_again_and_changes_nothing_more(client, api):
    sent = client.submit(BIZ, URL)
    api.finish()
    api.faults.append(Fault(carry_out=True))

    [answer] = reviewed(client, [sent.id])

    assert (answer.state, answer.repeated) == ("reviewed", True)


def test_no_call_is_made_where_nothing_is_to_be_changed(client, api):
    assert reviewed(client, []) == []
    assert api.calls == []


# ---- lists ---------------------------------------------------------------------------------------


def test_all_pages_of_records_come_as_one_stream(client, api):
    api.records = [record(str(n), 0, title=f"t{n}") for n in range(25)]
    api.page = 10

    records = client.records(BIZ)

    assert [each.fields["title"] for each in records] == [f"t{n}" for n in range(25)]
    assert len(api.calls) == 3


def test_records_of_one_request_are_asked_for_by_its_id(client, api):
    api.records = [record(str(n % 2), n) for n in range(6)]

    assert [each.request_id for each in client.records(BIZ, request_id="1")] == ["1"] * 3


def test_reading_goes_on_from_a_kept_cursor_without_a_gap(client, api):
    api.records = [record(str(n), 0) for n in range(25)]
    api.page = 10
    first = client.records(BIZ)
    seen = [each.id for each in islice(first, 14)]

    rest = [each.id for each in client.records(BIZ, cursor=first.cursor)]

    assert first.cursor == "10"  # the page being read: what is not kept yet is read again
    assert set(seen) | set(rest) == {each["id"] for each in api.records}


def test_a_reader_that_follows_sees_each_record_once(client, api, clock):
    api.records = [record("0", 0)]

    def grow():
        if len(clock.slept) % 3 == 0:
            api.records.append(record(str(len(api.records)), 0))

    clock.on_sleep = grow
    ids = [each.id for each in islice(client.records(BIZ, follow=True), 5)]

    assert ids == ["0-0", "1-0", "2-0", "3-0", "4-0"]
    assert clock.slept[0] < clock.slept[1] < clock.slept[2]
    assert clock.slept[3] == clock.slept[0]  # a new record, a quick look again


def test_a_finished_iterator_reads_on_when_asked_again(client, api):
    api.records = [record("0", 0)]
    records = client.records(BIZ)
    assert len(list(records)) == 1
    api.records.append(record("1", 0))

    assert [each.id for each in client.records(BIZ, cursor=records.cursor)] == ["0-0", "1-0"]


@pytest.mark.parametrize(("others", "again"), [(2, []), (3, ["a"])])
def test_old_ids_are_forgotten_so_that_memory_stays_bounded(others, again):
    ids = ["a", *(str(n) for n in range(others)), "a"]
    pages = {None: (ids, None, False)}

    read = Pages(pages.__getitem__, identity=str, remembered=3)

    assert list(read) == ids[:-1] + again


def test_a_server_whose_pages_do_not_advance_is_found_out(client, api):
    page = b'{"records": [], "cursor": "7", "more": true}'
    api.faults.extend(Fault(200, page) for _ in range(3))

    with pytest.raises(ApiError, match="nothing new"):
        list(client.records(BIZ))
    assert len(api.calls) == 2


def test_a_server_whose_cursors_run_in_circles_is_found_out():
    asked = []

    def circle(cursor):
        asked.append(cursor)
        return [], str(len(asked) % 2), True

    with pytest.raises(ApiError, match="nothing new"):
        list(Pages(circle, bare_pages=4))
    assert len(asked) == 4


def test_requests_are_listed_by_state_and_since(client, api):
    submitted(client, 3)
    since = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))

    found = list(client.requests(BIZ, state="pending", since=since, page_size=2))

    assert [each.id for each in found] == [str(FIRST_ID + n) for n in range(3)]
    asked = api.made("GET")[0].params
    assert asked == {"state": "pending", "since": "2026-01-01T00:00:00Z", "limit": "2"}


def test_requests_of_a_page_are_listed_the_newest_first_through_pages_that_have_none(client, api):
    submitted(client, 3)
    [url] = {one["url"] for one in api.requests.values() if one["id"] == str(FIRST_ID + 1)}

    found = list(client.requests(BIZ, url=url, newest_first=True))

    assert [each.id for each in found] == [str(FIRST_ID + 1)]
    asked = api.made("GET")[0].params
    assert (asked["url"], asked["order"]) == (url, "newest")
    # What is looked at in one call may all be of other pages.
    assert client.requests(BIZ, url=url)._bare_pages > client.requests(BIZ)._bare_pages > 0


def test_a_moment_without_a_zone_is_refused(client, api):
    with pytest.raises(InvalidRequestError, match="since: "):
        client.requests(BIZ, since=datetime(2026, 1, 1))  # noqa: DTZ001
    assert api.calls == []


def test_stats_are_typed(client, api):
    submitted(client, 2)

    stats = client.stats(BIZ)

    assert stats.states["pending"] == stats.unfinished == stats.queue.queued == 2
    assert stats.rates.processed.per_5s == 2.5
    assert stats.phases == {"fetch": 12.5, "extract": 1.5}
    assert stats.queue.oldest_at == datetime(2026, 1, 1, tzinfo=UTC)


# ---- waiting -------------------------------------------------------------------------------------


def test_waiting_ends_when_all_given_requests_are_final(client, api, clock):
    sent = submitted(client, 3)
    api.done_after = 4
    seen = []

    states = client.wait(BIZ, sent, progress=lambda done, of: seen.append((done, of)))

    assert [each.id for each in states] == [each.id for each in sent]
    assert {each.state for each in states} == {"done"}
    assert seen[0] == (0, 3)
    assert seen[-1] == (3, 3)


def test_many_requests_are_waited_for_through_the_list(client, api):
    sent = submitted(client, 700)
    api.done_after = 3

    states = client.wait(BIZ, [each.id for each in sent])

    assert [each.id for each in states] == [each.id for each in sent]
    assert len(api.made("GET")) < 20


def test_ids_that_carry_no_time_are_waited_for_one_by_one(client, api):
    api.held = False  # no id of ours is odd
    api.requests = {str(n): {"id": str(n), "state": "done", "url": URL} for n in range(1, 41)} | {
        "odd": {"id": "odd", "state": "done", "url": URL}
    }

    assert len(client.wait(BIZ, [str(n) for n in range(1, 41)])) == 40
    assert len(client.wait(BIZ, [*(str(n) for n in range(1, 41)), "odd"])) == 41


def test_one_id_may_be_waited_for_and_refused_entries_are_passed_over(client, api):
    sent = client.submit(BIZ, [URL, "ftp://x"])
    api.done_after = 0

    assert [each.state for each in client.wait(BIZ, sent)] == ["done"]
    assert [each.state for each in client.wait(BIZ, sent[0].id)] == ["done"]
    assert client.wait(BIZ, []) == []


def test_waiting_for_requests_ends_with_its_time(client, clock):
    sent = submitted(client, 40)

    with pytest.raises(WaitTimeoutError, match=r"40 requests .* within 30 seconds") as caught:
        client.wait(BIZ, sent, timeout=30)

    assert caught.value.pending == tuple(each.id for each in sent)
    assert clock.now == pytest.approx(30)
    assert clock.slept[:-1] == sorted(clock.slept[:-1])
    assert max(clock.slept) <= 5


def test_waiting_without_time_looks_once(client, clock):
    sent = submitted(client, 1)

    with pytest.raises(WaitTimeoutError):
        client.wait(BIZ, sent, timeout=0)
    assert clock.slept == []


def test_waiting_for_an_unknown_request_says_so(client):
    with pytest.raises(NotFoundError):
        client.wait(BIZ, "17")


def test_a_whole_biz_is_waited_for_by_its_totals(client, api):
    submitted(client, 5)
    api.done_after = 3
    api.final_state = lambda request: "dead" if request["url"].endswith("/1") else "done"

    stats = client.wait(BIZ, timeout=None)

    assert (stats.states["done"], stats.states["dead"]) == (4, 1)


def test_waiting_for_a_biz_ends_with_its_time(client):
    submitted(client, 2)

    with pytest.raises(WaitTimeoutError) as caught:
        client.wait(BIZ, timeout=3)
    assert (caught.value.unfinished, caught.value.pending) == (2, ())


# ---- schedules -----------------------------------------------------------------------------------


def test_a_schedule_is_put_read_listed_and_removed(client):
    put = client.put_schedule(BIZ, "nightly", cron="0 3 * * *", urls=[URL], rule="article")

    assert put.next_at == datetime(2026, 1, 2, tzinfo=UTC)
    assert client.schedule(BIZ, "nightly") == put
    assert client.schedules(BIZ) == [put]
    client.delete_schedule(BIZ, "nightly")
    assert client.schedules(BIZ) == []
    with pytest.raises(NotFoundError):
        client.delete_schedule(BIZ, "nightly")


def test_a_removal_whose_answer_was_lost_counts_as_done(client, api):
    client.put_schedule(BIZ, "nightly", cron="0 3 * * *", urls=URL)
    api.faults.append(Fault(carry_out=True))

    client.delete_schedule(BIZ, "nightly")

    assert api.schedules == {}


def test_a_wrong_cron_line_is_named(client):
    with pytest.raises(InvalidRequestError, match="cron: "):
        client.put_schedule(BIZ, "nightly", cron="often", urls=[URL])


def test_a_schedule_that_comes_without_its_name_gets_it(client, api):
    api.held = False
    api.schedules["x"] = {"cron": "* * * * *", "urls": [URL]}

    assert client.schedule(BIZ, "x").name == "x"


def test_a_schedule_of_a_spider_says_only_what_is_given(client, api):
    kept = client.put_schedule(
        BIZ,
        "weekly",
        cron="0 3 * * 1",
        spider="shop",
        version=3,
        values={"kind": "new"},
        priority=0,
        overlap="queue",
        missed="skip",
        tolerance_seconds=90,
        jitter_seconds=60,
    )

    [call] = api.made("PUT")
    assert json.loads(call.body) == {
        "cron": "0 3 * * 1",
        "time_zone": "UTC",
        "spider": "shop",
        "version": 3,
        "values": {"kind": "new"},
        "priority": 0,
        "overlap": "queue",
        "missed": "skip",
        "tolerance_seconds": 90,
        "jitter_seconds": 60,
        "enabled": True,
    }
    assert (kept.spider, kept.spider_version, kept.rule, kept.urls) == ("shop", 3, None, ())


def test_a_schedule_is_paused_resumed_and_its_versions_read(client):
    client.put_schedule(BIZ, "nightly", cron="0 3 * * *", urls=URL, rule="article")

    assert client.pause_schedule(BIZ, "nightly").next_at is None
    assert client.resume_schedule(BIZ, "nightly").enabled
    assert [each.version for each in client.schedule_versions(BIZ, "nightly")] == [2, 1]
    assert len(client.schedule_versions(BIZ, "nightly", 1)) == 1
    with pytest.raises(NotFoundError):
        client.pause_schedule(BIZ, "other")


def test_the_next_runs_of_a_schedule_or_of_a_line_are_reported(client, api):
    client.put_schedule(BIZ, "nightly", cron="0 3 * * *", urls=URL, rule="article")

    [run, back] = client.schedule_runs(BIZ, "nightly", 2)

    assert (run.at - run.fire_at, run.shift_seconds) == (timedelta(seconds=5), 3600)
    assert back.local_at.utcoffset() == timedelta(hours=1)
    assert len(client.preview_schedule(BIZ, "0 3 * * *", name="x", jitter_seconds=9)) == 3
    assert json.loads(api.calls[-1].body) == {
        "cron": "0 3 * * *",
        "time_zone": "UTC",
        "jitter_seconds": 9,
        "name": "x",
    }
    with pytest.raises(InvalidRequestError, match="cron"):
        client.preview_schedule(BIZ, "often")


def test_a_run_whose_answer_was_lost_is_asked_for_under_the_same_key(client, api):
    client.put_schedule(BIZ, "nightly", cron="0 3 * * *", urls=URL, rule="article")
    api.faults.append(Fault(carry_out=True))

    started = client.run_schedule(BIZ, "nightly")

    ran = api.schedule_desk.ran
    assert (len(ran), len(set(ran))) == (2, 1)
    assert (started.schedule, started.size) == ("nightly", 1234)
    assert client.run_schedule(BIZ, "nightly", idempotency_key="mine").job == "nightly.now.mine"


def test_a_schedule_that_runs_alone_may_not_be_run_beside_another(client):
    client.put_schedule(BIZ, "alone", cron="0 3 * * *", urls=URL, rule="r", overlap="skip")

    with pytest.raises(ConflictError, match="has not ended"):
        client.run_schedule(BIZ, "alone")


def test_threads_may_share_a_client(api):
    from concurrent.futures import ThreadPoolExecutor

    with Client(api.url, KEY) as fleet, ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: fleet.submit(BIZ, f"{URL}/{n}"), range(100)))

    assert len({each.id for each in results}) == 100
