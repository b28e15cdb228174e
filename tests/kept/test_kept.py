"""The product goes on with the stores of older versions, and the API answers as before.

The dump was written by the version that tests/kept/README.md names. Each test has it anew, as if it
was written now or some time ago.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.functions.http import ask, submit
from tests.kept.dump import bare, kept_api, restore
from tests.kept.stage import BUSY, SHOP, SLOW, Web, a_kept_world, a_web, push, through
from tests.kept.write import HELD, TICK, job, sent, tick, until_done, working
from tests.kit.fleet import LAMBDA_MEMORY
from tests.kit.kernel import SEQUENCE_BITS, QueueKey, names
from tests.kit.queue import RedisLeaseBook
from tests.kit.requests import Claim, Done, State
from tests.kit.scrapy import Marks, Pushed, RedisCrawl
from tests.kit.worlds.functions import World
from tests.waiting import eventually

DOCS, WAITS = QueueKey("acme", "docs", "main"), QueueKey("acme", "waits", "main")
pytestmark = pytest.mark.early

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    with a_web(well=True) as made:
        yield made


@pytest.fixture(scope="module")
def standing_world(own_redis: str, web: Web) -> Iterator[World]:
    with a_kept_world(own_redis) as world:
        through(world, web)
        yield world


@pytest.fixture
def world(standing_world: World, web: Web) -> World:
    """The stage as it was left a minute ago: no worker of then lives, and its leases go on."""
    web.asked.clear()
    standing_world.clocks.clear()
    standing_world.lambdas.woken.clear()
    push(standing_world)
    put_back(standing_world, MINUTE)
    return standing_world


def put_back(world: World, ago: timedelta = timedelta()) -> None:
    world.end_environments()
    restore(world, ago=ago)


def left_alone(world: World) -> World:
    """The stage without leases: no tick stays for as long as it takes to be sure of a death."""
    for token, entry in RedisLeaseBook(world.own.redis).leases(DOCS):
        world.own.queue.give_back(DOCS, token, [entry])
    return world


def biz_of(world: World, place: QueueKey) -> Any:
    return world.own.config.current().bizs[place.tenant][place.biz]


def listed(world: World, biz: str = "docs") -> dict[str, dict[str, Any]]:
    """Requests of a biz by their URLs."""
    found = sent(world, "GET", f"{biz}/requests", query={"limit": "1000"})["requests"]
    return {one["url"]: one for one in found}


def worked(world: World, *urls: str, biz: str = "docs") -> None:
    """Work until these are done."""

    def are_done() -> bool:
        found = listed(world, biz)
        return all(found[url]["state"] == "done" for url in urls)

    working(world, are_done, f"the end of {urls}")


def in_balance(world: World) -> bool:
    places = [("acme", one) for one in ("docs", "news", "shop", "waits")] + [("rival", "docs")]
    found = [sent(world, "GET", f"{biz}/ledger", key=first) for first, biz in places]
    return all(one["balanced"] and one["difference"] == 0 for one in found)


# ---- requests ------------------------------------------------------------------------------------


def test_what_was_queued_is_leased_by_its_priority_and_claimed(world: World):
    own, now = world.own, datetime.now(UTC)

    entries = own.queue.lease(DOCS, "new.1.1", 100, now, now + HOUR)

    assert [entry.priority for entry in entries] == [10, 9, 7, 5, 5, 5, 1]
    claims = own.store.claim(
        DOCS, biz_of(world, DOCS), entries, "new.1", now, now + HOUR, "new.1.1"
    )
    urls = {claim.request.body.url for claim in claims}
    assert urls >= {f"{SHOP}/queued/{priority}" for priority in (1, 5, 9, 10)}
    assert len(urls) == len(entries)
    assert in_balance(world)


def test_what_was_leased_is_renewed_and_settled_by_its_owner(world: World):
    own, biz, now = world.own, biz_of(world, DOCS), datetime.now(UTC)
    leases = RedisLeaseBook(own.redis).leases(DOCS)

    assert len(leases) == HELD
    for token, entry in leases:
        found = own.store.get(DOCS, biz, entry.id)
        assert found.state == State.LEASED
        claim = Claim(request=found.request, entry=entry, token=token, attempt=found.attempts)
        assert own.queue.renew(DOCS, token, [entry], now + HOUR) == []
        assert own.store.renew(DOCS, biz, [claim], now + HOUR) == set()
        assert not own.store.settle(DOCS, biz, [(claim, Done(()))], found.worker, now).lost
        assert own.queue.finish(DOCS, token, [entry], 1, now) == 1

    states = [listed(world)[f"{site}/slow"]["state"] for site in SLOW]
    assert sorted(states) == ["done"] * HELD + ["pending"] * (len(SLOW) - HELD)
    assert in_balance(world)


def test_what_a_worker_held_that_is_never_heard_of_again_is_done_by_another(world: World):
    put_back(world)
    [worker] = sent(world, "GET", "docs/workers")["workers"]
    assert (worker["held"], worker["pool"]) == (HELD, "main")
    put_back(world, 5 * MINUTE)

    assert tick(world)["buried"] == 1

    worked(world, *(f"{site}/slow" for site in SLOW))
    assert in_balance(world)


def test_what_waits_for_a_host_waits_until_its_back_off_is_over(world: World, web: Web):
    [host] = [one for one in sent(world, "GET", "waits/hosts")["hosts"] if one["host"] in BUSY]
    left = datetime.fromisoformat(host["backing_off_until"]) - datetime.now(UTC)
    assert timedelta(minutes=50) < left <= HOUR
    depth = world.own.queue.depth(WAITS)
    assert (depth.queued, depth.deferred, depth.delayed) == (2, 2, 3)
    assert world.own.queue.deferred(WAITS, datetime.now(UTC), 10) == []
    worked(world, f"{SHOP}/queued/1")
    assert not [url for url in web.urls if url.startswith(BUSY)]

    put_back(world, 2 * HOUR)

    [due] = world.own.queue.deferred(WAITS, datetime.now(UTC), 10)
    assert (BUSY.endswith(due.host), due.count) == (True, 2)
    worked(world, *(f"{BUSY}/{n}" for n in (0, 1, 2, 3, "urgent")), biz="waits")
    depth = world.own.queue.depth(WAITS)
    assert (depth.queued, depth.deferred, depth.delayed, depth.leased) == (0, 0, 0, 0)
    assert in_balance(world)


def test_a_dead_letter_is_shown_with_its_answer_and_replayed(world: World):
    found = sent(world, "GET", "docs/dead-letters", query={"job": "letters"})["dead_letters"]
    assert sorted(one["url"] for one in found) == [f"{SHOP}/gone/1", f"{SHOP}/gone/2"]
    dead_letter = sent(world, "GET", f"docs/dead-letters/{found[0]['id']}")
    assert (dead_letter["reason"], dead_letter["status"]) == ("PageGone", 404)
    assert "<title>/gone" in dead_letter["sample"]["content"]

    sent(world, "POST", f"docs/dead-letters/{dead_letter['id']}/replay")

    worked(world, dead_letter["url"])
    assert sent(world, "POST", "docs/dead-letters/purge", {"all": True})["purged"] == 3
    assert in_balance(world)


def test_a_submission_that_is_repeated_is_answered_from_its_key(world: World):
    one = {"url": f"{SHOP}/keyed"}
    before = len(sent(world, "GET", "docs/requests", query={"limit": "1000"})["requests"])
    key = {"Idempotency-Key": "submission-key"}

    again = [
        sent(world, "POST", "docs/requests", one, headers=key),
        sent(world, "POST", "docs/requests", {**one, "client_id": "client-1"}),
    ]

    after = sent(world, "GET", "docs/requests", query={"limit": "1000"})["requests"]
    assert {each["id"] for each in again} == {
        each["id"] for each in after if each["url"] == one["url"]
    }
    assert len(after) == before
    other = ask(world, "POST", "/v1/docs/requests", {"url": f"{SHOP}/other"}, headers=key)
    assert other.status == 422


def test_ids_are_never_given_twice(world: World):
    put_back(world)
    before = {int(one["id"]) for one in listed(world).values()}

    [(first, count)] = world.call(names.ID_ISSUER, {"count": 5})["runs"]
    counted = world.call(
        names.ID_ISSUER, {"count": 1, "kind": "counter", "tenant": "acme", "biz": "shop"}
    )

    numbers = {number_in(one) for one in before}
    assert number_in(first) not in numbers, "whose lease has not ended"
    assert not before & set(range(first, first + count))
    highest = max(int(one["id"]) for one in listed(world, "shop").values())
    assert counted["runs"][0][0] > highest


def number_in(an_id: int) -> int:
    """The number of the worker that has issued an id."""
    return (an_id >> SEQUENCE_BITS) & 1023


# ---- jobs, spiders, schedules --------------------------------------------------------------------


def test_a_finished_job_is_there_with_its_run_its_records_and_what_was_learnt(world: World):
    done = job(world, "nightly")
    assert (done["state"], done["size"], done["expanded"]) == ("done", 3, 3)
    assert (done["counts"]["done"], done["counts"]["dead"]) == (2, 1)
    run = sent(world, "GET", "docs/jobs/nightly/run")
    assert (run["spider"], run["requests"], run["records"], run["errors"]) == ("page", 3, 2, 1)
    assert run["learnt_at"] is not None
    ids = {one["id"] for one in listed(world).values() if one["job"] == "nightly"}
    records = sent(world, "GET", "docs/records")["records"]
    titles = {r["fields"]["title"] for r in records if r["request_id"] in ids}
    assert titles == {"/1", "/2"}
    assert {one["spider"] for one in sent(world, "GET", "docs/demands")["demands"]} == {
        "page",
        "all",
    }
    assert job(world, "off")["state"] == "cancelled"


def test_a_job_that_is_ordered_again_under_its_key_is_the_one_there_was(world: World):
    order = {"rule": "page", "urls": [f"{SHOP}/1", f"{SHOP}/2", f"{SHOP}/gone"], "name": "nightly"}

    again = ask(world, "POST", "/v1/docs/jobs", order, headers={"Idempotency-Key": "nightly-key"})

    assert (again.status, again.json["state"]) == (200, "done")


def test_a_job_of_which_some_tasks_were_made_goes_on_to_its_end(world: World, web: Web):
    half = job(world, "half", "shop")
    assert (half["state"], half["size"], half["expanded"]) == ("expanding", 8, 3)

    until_done(left_alone(world), "half", "shop")

    pages = [f"{SHOP}/half/{page}" for page in range(1, 9)]
    asked = Counter(url for url in web.urls if url in pages)
    assert asked == Counter(pages)
    assert job(world, "half", "shop")["counts"]["done"] == 8
    assert in_balance(world)


def test_failed_tasks_of_a_finished_job_are_retried(world: World):
    sent(world, "POST", "docs/jobs/nightly/retry")

    until_done(world, "nightly")

    assert job(world, "nightly")["counts"]["done"] == 3


def test_a_job_that_waits_on_the_board_is_placed_and_done(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    # As on Lambda a worker has its own part of the machine: runs have shown that the job takes some
    # of a processor, which a machine that others keep busy does not have left.
    monkeypatch.setenv(LAMBDA_MEMORY, "10240")
    push(world, bidding={"window_seconds": 0.1, "wait_seconds": 30})
    waiting = job(world, "placed")
    assert waiting["state"] == "placing"

    put_back(world, timedelta(minutes=2))

    until_done(world, "placed")
    assert job(world, "placed")["counts"]["done"] == 1


def test_a_spider_and_what_it_was_before_are_there_and_run(world: World):
    versions = sent(world, "GET", "docs/spiders/all/versions")["versions"]
    assert [(one["version"], one["tasks"]) for one in versions] == [(2, 2), (1, 1)]

    order = {"spider": "all", "version": 1, "values": {"zone": "w"}, "name": "again"}
    sent(world, "POST", "docs/jobs", order)

    until_done(left_alone(world), "again")
    assert listed(world)[f"{SHOP}/w/1"]["state"] == "done"


def test_a_schedule_fires_when_it_is_due_and_rests_where_it_rested(world: World):
    plans = {one["name"]: one for one in sent(world, "GET", "docs/schedules")["schedules"]}
    assert {name: plan["enabled"] for name, plan in plans.items()} == {
        "hourly": True,
        "zones": True,
        "resting": False,
    }
    for plan in (plans["hourly"], plans["zones"]):
        last = plan["last_outcome"]
        assert (last["outcome"], last["fire_at"]) == ("started", plan["last_fired_at"])
    due = max(datetime.fromisoformat(plans[name]["next_at"]) for name in ("hourly", "zones"))
    world.clocks[names.SCHEDULER] = lambda: due + timedelta(seconds=1)

    assert tick(left_alone(world))["fires"] == 2

    begun = {one["schedule"] for one in sent(world, "GET", "docs/jobs")["jobs"]}
    assert begun >= {"hourly", "zones"}
    assert "resting" not in begun
    worked(world, f"{SHOP}/hourly", f"{SHOP}/s/1", f"{SHOP}/s/2")
    last = sent(world, "GET", "docs/schedules/hourly")["last_outcome"]
    assert last["outcome"] == "started"


# ---- seeds, visits, records ----------------------------------------------------------------------


def test_seeds_are_dispatched_and_end(world: World):
    found = {one["segment"]: one for one in sent(world, "GET", "docs/seeds/totals")["segments"]}
    later, today = sorted(found.values(), key=lambda one: one["segment"], reverse=True)
    assert [today[name] for name in ("ready", "handed", "finished", "failed")] == [3, 2, 1, 1]
    assert later["waiting"] == 1
    failed = sent(world, "GET", "docs/seeds", query={"state": "failed"})["seeds"]
    assert [one["url"] for one in failed] == [f"{SHOP}/gone/seed"]

    sent(world, "POST", f"docs/seeds/{failed[0]['segment']}/{failed[0]['key']}/release")

    def are_finished() -> bool:
        totals = sent(world, "GET", "docs/seeds/totals")["segments"]
        [of_today] = [one for one in totals if one["segment"] == today["segment"]]
        return bool(of_today["finished"] == 7)

    working(world, are_finished, "the end of the seeds")
    assert in_balance(world)


def test_a_url_that_was_seen_is_no_seed_again(world: World):
    offers = [{"url": f"{SHOP}/seed/{number}"} for number in (1, 2, 6, 7)]

    answer = sent(world, "POST", "docs/seeds", {"seeds": offers})

    assert [one["accepted"] for one in answer["seeds"]] == [False, False, False, True]


def test_a_page_that_is_due_is_read_again_on_its_condition(world: World, web: Web):
    soon = datetime.now(UTC) + timedelta(days=2)
    world.clocks[names.SCHEDULER] = lambda: soon

    assert tick(left_alone(world))["recrawled"] == 2

    working(
        world,
        lambda: sent(world, "GET", "news/visits")["totals"]["saved"] == 2,
        "both pages have been read again",
    )
    assert {asked for asked in web.asked if asked[0] in {f"{SHOP}/a", f"{SHOP}/b"}} == {
        (f"{SHOP}/a", None, '"kept"'),
        (f"{SHOP}/b", None, '"kept"'),
    }
    visit = sent(world, "GET", "news/visits", query={"url": f"{SHOP}/a"})["visit"]
    assert (visit["visits"], visit["saved"], visit["etag"]) == (2, 1, '"kept"')
    again = [one for one in listed(world, "news").values() if one["meta"] == {"list_page": 3}]
    assert len(again) == 2


def test_items_of_a_drainer_that_is_gone_and_of_a_biz_that_comes_back_become_records(
    world: World,
):
    put_back(world, 2 * HOUR)
    push(world, later=True)

    def titles(biz: str) -> list[str]:
        found = sent(world, "GET", f"{biz}/records", query={"limit": "100"})["records"]
        return [one["fields"]["title"] for one in found if one["url"] == f"{SHOP}/item"]

    working(
        world,
        lambda: (titles("docs"), titles("later")) == (["item"], ["item"]),
        "a record of each: the two of the second are alike",
    )


def test_coverage_is_counted_on(world: World):
    [before] = sent(world, "GET", "docs/coverage")["coverage"]
    assert (before["rule"], before["pages"]) == ("page", 10)
    assert before["fields"] == [{"name": "title", "count": 10, "share": 1.0}]

    worked(world, f"{SHOP}/queued/10")

    [after] = sent(world, "GET", "docs/coverage")["coverage"]
    assert after["fields"][0]["count"] == after["pages"] > 10


# ---- hosts, incidents, Scrapy --------------------------------------------------------------------


def test_cookies_and_what_a_site_wants_are_remembered(world: World, web: Web):
    submit(world, f"{SHOP}/again", job="nightly")
    submit(world, f"{SHOP}/private", job="nightly")

    worked(world, f"{SHOP}/again")

    [(_, cookie, _)] = [asked for asked in web.asked if asked[0] == f"{SHOP}/again"]
    assert cookie == "visit=kept"
    assert f"{SHOP}/private" not in web.urls
    working(
        world,
        lambda: listed(world)[f"{SHOP}/private"]["state"] == "dead",
        "the end of a page that its site wants to itself",
    )


def test_an_incident_that_was_open_ends(world: World):
    [incident] = sent(world, "GET", "incidents")["incidents"]
    assert (incident["kind"], incident["biz"], incident["state"]) == (
        "oldest_waiting",
        "docs",
        "open",
    )

    def is_over() -> bool:
        world.call(names.MONITOR, TICK)
        return sent(world, "GET", "incidents")["incidents"] == []

    eventually(is_over, what="the end of the incident")
    [over] = sent(world, "GET", "incidents", query={"state": "all"})["incidents"]
    assert (over["id"], over["state"]) == (incident["id"], "over")


def test_a_scrapy_crawl_goes_on(world: World):
    redis = world.own.redis
    old, new = (RedisCrawl(redis, "acme", "crawl", f"process-{number}") for number in (1, 3))

    entered = new.enter()

    assert (entered.queued, entered.leased, entered.fingerprints) == (4, 1, "2.7")
    assert new.push([Pushed(content=b"0", marks=Marks.SEEN, mark=b"%16d" % 0)]) == [False]
    assert new.push([Pushed(content=b"s", marks=Marks.STARTS, mark=b"s" * 16)]) == [False]
    assert new.push([Pushed(content=b"m", marks=Marks.SEEN, mark=b"m" * 16)]) == [False]
    taken, _ = new.lease(10)
    assert [(one.content, one.start) for one in taken] == [
        (b"1", False),
        (b"2", False),
        (b"3", False),
        (b"start", True),
    ]
    assert old.renew(["000000000000001"]) == set()
    assert old.finish(["000000000000001"]) == 1


# ---- the API -------------------------------------------------------------------------------------


def test_the_api_is_what_it_was_but_for_what_it_says_to_people(world: World):
    assert bare(ask(world, "GET", "/openapi.json", key=None).json) == kept_api()
