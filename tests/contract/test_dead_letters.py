"""Dead letters over both stores: what is found and in which order, made pending again, removed."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawlfleet.adapters.memory.dead_letters import MemoryDeadLetters
from crawlfleet.adapters.memory.store import MemoryRequestStore
from crawlfleet.adapters.mongo import dead_letters as mongo_dead_letters
from crawlfleet.adapters.mongo.dead_letters import MongoDeadLetters
from crawlfleet.model.letter import LetterFilter
from crawlfleet.model.outcome import Answer, Dead, Retry
from crawlfleet.model.request import Body, Entry, State
from crawlfleet.model.times import to_ms
from tests.contract.store_cases import (
    LONG_AGO,
    MINUTE,
    NOW,
    Fleet,
    a_biz,
    a_generation,
    a_request,
    done_with,
    entries_of,
    object_ids,
    snowflakes,
    uuids,
)

SECOND = timedelta(seconds=1)
ALL = LetterFilter()


class Letters:
    """Dead letters of a fleet's lane, with the arguments that nearly every call repeats."""

    def __init__(self, fleet: Fleet, scan: int = 10_000) -> None:
        self.fleet = fleet
        store = fleet.store
        if isinstance(store, MemoryRequestStore):
            self.port = MemoryDeadLetters(store.state, scan)
        else:
            self.port = MongoDeadLetters(store.nodes, scan)

    def look(self, letters=ALL, *, after=None, limit=1_000, now=NOW):
        return self.port.find(
            self.fleet.lane, self.fleet.biz, letters, after=after, limit=limit, now=now
        )

    def found(self, letters=ALL, *, limit=1_000):
        """Everything that matches, page by page, and how many looks it took."""
        found, after, looks = [], None, 0
        while True:
            page = self.look(letters, after=after, limit=limit)
            assert len(page.letters) <= limit
            found += page.letters
            looks += 1
            if page.reached is None:
                return found, looks
            assert page.reached != after, "no look may end where it began"
            after = page.reached

    def ids(self, letters=ALL, **options):
        return [one.request.id for one in self.found(letters, **options)[0]]

    def replay(self, requests, versions=None, by="api:me", now=NOW):
        ids = [r.id for r in requests]
        return self.port.replay(self.fleet.lane, self.fleet.biz, ids, versions or {}, by, now)

    def purge(self, requests):
        ids = [r.id for r in requests]
        return self.port.purge(self.fleet.lane, self.fleet.biz, ids, "api:me", NOW)


@pytest.fixture
def letters(fleet: Fleet) -> Letters:
    return Letters(fleet)


def kill(fleet, requests, error="PageGoneError: answered 404", reason="PageGone", answer=None):
    fleet.settle([(c, Dead(error, reason, answer)) for c in fleet.claim(requests)])


def submit(fleet, number, at=NOW, worker=7, **changes):
    """Requests whose body or job differs from the usual."""
    body = {n: changes.pop(n) for n in ("url", "rule") if n in changes}
    requests = []
    for an_id in snowflakes(number, at, worker):
        one = Body(
            **{"url": f"https://site.example/{an_id}", "rule": "detail", **body}, rule_version="v1"
        )
        requests.append(a_request(fleet.lane, an_id, at, body=one, **changes))
    assert fleet.insert(requests).refused == {}
    return requests


# ---- what is kept ------------------------------------------------------------------------------


def test_a_dead_letter_keeps_reason_answer_and_sample(fleet, letters) -> None:
    answer = Answer.of("http://a.example/", 404, {"server": "x"}, 0.25, b"\xff\x00<html>")
    (request,) = fleet.submit(1)
    kill(fleet, [request], answer=answer)

    (letter,), _ = letters.found()

    assert letter == fleet.get(request)
    assert (letter.reason, letter.answer, letter.state) == ("PageGone", answer, State.DEAD)
    assert letter.error == "PageGoneError: answered 404"


def test_what_waits_for_another_try_shows_why_and_what_is_done_shows_nothing(fleet) -> None:
    answer = Answer.of("http://a.example/", 503, {"retry-after": "9"}, 0.25)
    waits, done = fleet.submit(2)
    fleet.settle([(c, Retry(NOW, "busy", "Throttled", answer)) for c in fleet.claim([waits, done])])
    (claim,) = fleet.claim([done], "again", NOW + SECOND)

    fleet.settle([done_with(claim, {"n": 1})])

    found = fleet.get(waits)
    assert (found.error, found.reason, found.answer) == ("busy", "Throttled", answer)
    found = fleet.get(done)
    assert (found.error, found.reason, found.answer) == (None, None, None)


def test_an_attempt_without_an_answer_does_not_keep_that_of_the_one_before(fleet) -> None:
    answer = Answer.of("http://a.example/", 503, {}, 0.25)
    (request,) = fleet.submit(1)
    fleet.settle([(c, Retry(NOW, "busy", "Throttled", answer)) for c in fleet.claim([request])])
    (claim,) = fleet.claim([request], "again", NOW + SECOND)

    fleet.settle([(claim, Dead("no", "ConnectFailed"))])

    assert (fleet.get(request).reason, fleet.get(request).answer) == ("ConnectFailed", None)


# ---- found -------------------------------------------------------------------------------------


def test_each_filter_finds_its_own_and_all_of_them_must_hold(fleet, letters) -> None:
    gone = Answer.of("https://a.example/x", 404, {}, 0.1, b"")
    plain = submit(fleet, 1, worker=1, url="https://A.Example:8443/shop?q=100%25", job="j1")
    other = submit(fleet, 1, worker=2, url="https://b.example/", rule="list")
    later = submit(fleet, 1, NOW + MINUTE, worker=3, url="https://b.example/shop")
    kill(fleet, plain, answer=gone)
    kill(fleet, other, "ConnectFailedError: no (.*) route", "ConnectFailed")
    kill(fleet, later, "ThrottledError: answered 503", "Throttled", Answer(url="u", status=503))
    (first,), (second,), (third,) = plain, other, later

    expected = {
        LetterFilter(): [first, second, third],
        LetterFilter(reason="PageGone"): [first],
        LetterFilter(reason="pagegone"): [],
        LetterFilter(status=404): [first],
        LetterFilter(status=0): [second],
        LetterFilter(rule="list"): [second],
        LetterFilter(host="a.example"): [first],
        LetterFilter(host="b.example"): [second, third],
        LetterFilter(job="j1"): [first],
        LetterFilter(job="j2"): [],
        LetterFilter(text="answered"): [first, third],
        LetterFilter(text="(.*)"): [second],
        LetterFilter(text="."): [first, second, third],
        LetterFilter(text="$error"): [],
        LetterFilter(text="\0"): [],
        LetterFilter(text="/shop"): [first, third],
        LetterFilter(text="q=100%25"): [first],
        LetterFilter(since=NOW + MINUTE): [third],
        LetterFilter(until=NOW + MINUTE): [first, second],
        LetterFilter(since=NOW + MINUTE, until=NOW + MINUTE): [],
        LetterFilter(host="b.example", text="shop"): [third],
        LetterFilter(host="b.example", status=404): [],
        LetterFilter(job="j1", reason="PageGone", host="a.example", since=NOW): [first],
    }

    assert {meant: letters.ids(meant) for meant in expected} == {
        meant: [r.id for r in found] for meant, found in expected.items()
    }


def test_only_the_dead_are_found(fleet, letters) -> None:
    pending, leased, done, dead = fleet.submit(4)
    fleet.settle([done_with(c) for c in fleet.claim([done])])
    kill(fleet, [dead])
    fleet.claim([leased])

    assert letters.ids() == [dead.id]
    assert fleet.get(pending).state == State.PENDING


def test_another_tenants_letters_are_never_found_replayed_or_removed(fleet, letters) -> None:
    requests = fleet.submit(3)
    kill(fleet, requests)
    stranger = Letters(Fleet(fleet.store, fleet.lane.tenant + "x", fleet.biz))

    assert stranger.ids() == []
    assert stranger.replay(requests) == []
    assert stranger.purge(requests) == 0
    assert len(letters.ids()) == 3


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
def test_pages_go_on_where_the_last_one_ended_over_several_shards(fleet, letters, limit) -> None:
    same = fleet.submit(9)
    hexes = [a_request(fleet.lane, i) for i in (*uuids(5, NOW), *object_ids(5, NOW))]
    fleet.insert(hexes)
    later = submit(fleet, 6, NOW + SECOND, worker=3)
    requests = [*same, *hexes, *later]
    kill(fleet, requests)

    found = letters.ids(limit=limit)

    def place(r):
        return to_ms(r.queued_at), isinstance(r.id, str), r.id

    assert found == [r.id for r in sorted(requests, key=place)]


@pytest.mark.parametrize("limit", [1, 4, 50])
def test_a_look_is_bounded_and_says_how_far_it_came(fleet, monkeypatch, limit) -> None:
    monkeypatch.setattr(mongo_dead_letters, "_LEAST_SCAN", 1)
    letters = Letters(fleet, scan=16)  # 2 a shard
    requests = [r for s in range(4) for r in submit(fleet, 30, NOW + s * SECOND)]
    kill(fleet, requests)
    rare = submit(fleet, 5, NOW + 2 * SECOND, worker=9, url="https://rare.example/")
    kill(fleet, rare)

    first = letters.look(LetterFilter(host="rare.example"), limit=limit)
    found, looks = letters.found(LetterFilter(host="rare.example"), limit=limit)

    assert (first.letters, first.reached is None) == ((), False)
    assert sorted(one.request.id for one in found) == sorted(r.id for r in rare)
    assert looks > 5
    assert letters.found(LetterFilter(host="nowhere.example"), limit=limit)[0] == []


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    hosts=st.lists(st.sampled_from("abc"), max_size=25),
    scan=st.integers(1, 20),
    limit=st.integers(1, 9),
)
def test_whatever_the_bounds_all_that_match_are_found_once(store, hosts, scan, limit) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mongo_dead_letters, "_LEAST_SCAN", 1)
        fleet = Fleet(store, uuids(1, NOW)[0])
        at = [NOW + (n // 4) * SECOND for n in range(len(hosts))]
        requests = [
            submit(fleet, 1, at[n], worker=n, url=f"https://{host}.example/")[0]
            for n, host in enumerate(hosts)
        ]
        if requests:
            kill(fleet, requests)

        found = Letters(fleet, scan).ids(LetterFilter(host="a.example"), limit=limit)

    assert sorted(found) == sorted(r.id for r, h in zip(requests, hosts, strict=True) if h == "a")
    assert len(found) == len(set(found))


# ---- replayed ----------------------------------------------------------------------------------


def test_replayed_letters_are_pending_as_if_never_tried(fleet, letters) -> None:
    dead, other = fleet.submit(2)
    kill(fleet, [dead, other], answer=Answer.of("http://a.example/", 404, {}, 0.1, b"no"))
    assert (fleet.audit().dead, fleet.audit().pending) == (2, 0)

    entries = letters.replay([dead], now=NOW + SECOND)

    found = fleet.get(dead)
    assert entries == entries_of([dead])
    assert (found.state, found.attempts, found.request) == (State.PENDING, 0, dead)
    assert (found.error, found.reason, found.answer) == (None, None, None)
    assert (found.due_at, found.worker) == (None, None)
    line = found.timeline[-1]
    assert (line.by, line.at, line.state) == ("api:me", NOW + SECOND, State.PENDING)
    assert line.why == "replayed with rule version v1"
    assert (fleet.audit().dead, fleet.audit().pending) == (1, 1)
    assert letters.ids() == [other.id]


def test_a_replay_counts_in_the_ledger_of_the_job_too(fleet, letters) -> None:
    mine = submit(fleet, 3, worker=1, job="mine")
    other = submit(fleet, 2, worker=2, job="other")
    kill(fleet, [*mine, *other])

    letters.replay(mine[:2])

    assert [fleet.audit(job=job).dead for job in (None, "mine", "other")] == [3, 1, 2]
    assert [fleet.audit(job=job).pending for job in (None, "mine", "other")] == [2, 2, 0]


def test_replaying_twice_is_replaying_once(fleet, letters) -> None:
    requests = fleet.submit(7)
    kill(fleet, requests)

    first = letters.replay([*requests, *requests])
    second = letters.replay(requests)

    assert sorted(e.id for e in first) == sorted(r.id for r in requests)
    assert second == []
    assert fleet.audit().dead == 0
    assert len(fleet.get(requests[0]).timeline) == 4  # submitted, claimed, dead, replayed


def test_two_callers_at_once_never_replay_the_same_letter(fleet, letters) -> None:
    requests = fleet.submit(60)
    kill(fleet, requests)
    callers = 4
    together = Barrier(callers)

    def call(_: int) -> list[Entry]:
        together.wait(10)
        return letters.replay(requests)

    with ThreadPoolExecutor(callers) as crew:
        parts = list(crew.map(call, range(callers)))

    replayed = [entry.id for part in parts for entry in part]
    assert sorted(replayed) == sorted(r.id for r in requests)
    assert (fleet.audit().dead, fleet.audit().pending) == (0, 60)


def test_what_is_not_dead_is_left_alone(fleet, letters) -> None:
    pending, leased, done, unknown = [*fleet.submit(3), a_request(fleet.lane, 99)]
    fleet.settle([done_with(c) for c in fleet.claim([done])])
    (claim,) = fleet.claim([leased])
    before = [fleet.get(r) for r in (pending, leased, done)]

    assert letters.replay([pending, leased, done, unknown]) == []
    assert letters.purge([pending, leased, done, unknown]) == 0

    assert [fleet.get(r) for r in (pending, leased, done)] == before
    assert fleet.renew([claim], NOW + MINUTE) == set()


def test_a_late_workers_token_is_worth_nothing_after_a_replay(fleet, letters) -> None:
    (request,) = fleet.submit(1)
    (late,) = fleet.claim([request], "late", until=NOW + SECOND)
    (killer,) = fleet.claim([request], "killer", NOW + MINUTE)
    fleet.settle([(killer, Dead("no", "Internal"))])
    letters.replay([request])
    (new,) = fleet.claim([request], "new", NOW + MINUTE)

    for claim in (late, killer):
        assert fleet.settle([done_with(claim, {"n": 1})]) == {request.id}
        assert fleet.renew([claim], NOW + MINUTE) == {request.id}
    assert (new.attempt, fleet.records()) == (1, [])
    assert fleet.settle([done_with(new, {"n": 2})]) == set()
    assert [r.fields for r in fleet.records()] == [{"n": 2}]


def test_the_rule_version_changes_only_where_it_is_told_to(fleet, letters) -> None:
    detail = submit(fleet, 2, worker=1)
    listing = submit(fleet, 2, worker=2, rule="list")
    same = submit(fleet, 1, worker=3, rule="same")
    requests = [*detail, *listing, *same]
    kill(fleet, requests)

    letters.replay(requests, {"detail": "v9", "same": "v1", "unused": "v3"})

    versions = {r.id: fleet.get(r).request.body.rule_version for r in requests}
    assert [versions[r.id] for r in requests] == ["v9", "v9", "v1", "v1", "v1"]
    whys = [fleet.get(r).timeline[-1].why for r in requests]
    assert whys == [f"replayed with rule version {versions[r.id]}" for r in requests]
    assert all(
        fleet.get(r).request.body.url == r.body.url
        and fleet.get(r).request.body.rule == r.body.rule
        for r in requests
    )
    assert {c.request.body.rule_version for c in fleet.claim(detail, "t2")} == {"v9"}


def test_a_replayed_letter_that_dies_again_is_dead_once(fleet, letters) -> None:
    (request,) = fleet.submit(1)
    kill(fleet, [request])
    for _ in range(3):
        letters.replay([request])
        kill(fleet, [request])

    assert fleet.audit().dead == 1
    assert letters.ids() == [request.id]


def test_counters_ids_of_every_generation_are_found(store, tenant) -> None:
    old = a_generation(starts_at=LONG_AGO, nodes=("east",), databases=("one",), shards=3)
    new = a_generation(starts_at=NOW - SECOND, nodes=("west",), databases=("two",), shards=3)
    before = Fleet(store, tenant, a_biz(generations=(old,)))
    after = Fleet(store, tenant, a_biz(generations=(old, new)))
    aged = [a_request(before.lane, i, NOW - MINUTE) for i in range(1, 8)]
    fresh = [a_request(after.lane, i) for i in range(11, 18)]
    before.insert(aged)
    after.insert(fresh)
    kill(after, [*aged, *fresh])
    letters = Letters(after)

    replayed = letters.replay([*aged[:5], *fresh[:5]])
    removed = letters.purge([*aged, *fresh])

    assert sorted(e.id for e in replayed) == [*range(1, 6), *range(11, 16)]
    assert removed == 4
    assert after.audit().dead == 4


# ---- removed -----------------------------------------------------------------------------------


def test_purged_letters_are_gone_and_stay_dead_in_the_ledger(fleet, letters) -> None:
    requests = fleet.submit(9)
    kill(fleet, requests)

    assert letters.purge([*requests[:5], *requests[:5]]) == 5
    assert letters.purge(requests[:5]) == 0

    assert letters.ids() == [r.id for r in requests[5:]]
    assert fleet.get(requests[0]) is None
    ledger = fleet.audit()
    assert (ledger.submitted, ledger.dead, ledger.difference) == (9, 9, 0)


def test_a_single_submission_that_is_purged_at_once_was_submitted(fleet, letters) -> None:
    (request,) = fleet.submit(1)
    kill(fleet, [request])

    letters.purge([request])

    assert (fleet.audit().submitted, fleet.audit().dead) == (1, 1)
