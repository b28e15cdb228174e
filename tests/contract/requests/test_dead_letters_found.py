"""Dead letters over both stores: what they keep, what finds them, in which order and pages."""

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.contract.dead_letter_cases import SECOND, DeadLetterCases, kill, submit
from tests.contract.store_cases import (
    MINUTE,
    NOW,
    Fleet,
    a_biz,
    a_generation,
    a_request,
    done_with,
    object_ids,
    uuids,
)
from tests.kit.dead_letters import DeadLetterFilter
from tests.kit.examples import examples
from tests.kit.kernel import to_ms
from tests.kit.requests import Answer, Dead, Retry, State


@pytest.fixture
def dead_letters(fleet: Fleet) -> DeadLetterCases:
    return DeadLetterCases(fleet)


# ---- what is kept ------------------------------------------------------------------------------


def test_a_dead_letter_keeps_reason_answer_and_sample(fleet, dead_letters) -> None:
    answer = Answer.of("http://a.example/", 404, {"server": "x"}, 0.25, b"\xff\x00<html>")
    (request,) = fleet.submit(1)
    kill(fleet, [request], answer=answer)

    (dead_letter,), _ = dead_letters.found()

    assert dead_letter == fleet.get(request)
    assert (dead_letter.reason, dead_letter.answer, dead_letter.state) == (
        "PageGone",
        answer,
        State.DEAD,
    )
    assert dead_letter.error == "PageGone: answered 404"


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


def test_each_filter_finds_its_own_and_all_of_them_must_hold(fleet, dead_letters) -> None:
    gone = Answer.of("https://a.example/x", 404, {}, 0.1, b"")
    plain = submit(fleet, 1, worker=1, url="https://A.Example:8443/shop?q=100%25", job="j1")
    other = submit(fleet, 1, worker=2, url="https://b.example/", rule="list")
    later = submit(fleet, 1, NOW + MINUTE, worker=3, url="https://b.example/shop")
    kill(fleet, plain, answer=gone)
    kill(fleet, other, "ConnectFailed: no (.*) route", "ConnectFailed")
    kill(fleet, later, "Throttled: answered 503", "Throttled", Answer(url="u", status=503))
    (first,), (second,), (third,) = plain, other, later

    expected = {
        DeadLetterFilter(): [first, second, third],
        DeadLetterFilter(reason="PageGone"): [first],
        DeadLetterFilter(reason="pagegone"): [],
        DeadLetterFilter(status=404): [first],
        DeadLetterFilter(status=0): [second],
        DeadLetterFilter(rule="list"): [second],
        DeadLetterFilter(host="a.example"): [first],
        DeadLetterFilter(host="b.example"): [second, third],
        DeadLetterFilter(job="j1"): [first],
        DeadLetterFilter(job="j2"): [],
        DeadLetterFilter(text="answered"): [first, third],
        DeadLetterFilter(text="(.*)"): [second],
        DeadLetterFilter(text="."): [first, second, third],
        DeadLetterFilter(text="$error"): [],
        DeadLetterFilter(text="\0"): [],
        DeadLetterFilter(text="/shop"): [first, third],
        DeadLetterFilter(text="q=100%25"): [first],
        DeadLetterFilter(since=NOW + MINUTE): [third],
        DeadLetterFilter(until=NOW + MINUTE): [first, second],
        DeadLetterFilter(since=NOW + MINUTE, until=NOW + MINUTE): [],
        DeadLetterFilter(host="b.example", text="shop"): [third],
        DeadLetterFilter(host="b.example", status=404): [],
        DeadLetterFilter(job="j1", reason="PageGone", host="a.example", since=NOW): [first],
    }

    assert {meant: dead_letters.ids(meant) for meant in expected} == {
        meant: [r.id for r in found] for meant, found in expected.items()
    }


def test_only_the_dead_are_found(fleet, dead_letters) -> None:
    pending, leased, done, dead = fleet.submit(4)
    fleet.settle([done_with(c) for c in fleet.claim([done])])
    kill(fleet, [dead])
    fleet.claim([leased])

    assert dead_letters.ids() == [dead.id]
    assert fleet.get(pending).state == State.PENDING


def test_another_tenants_dead_letters_are_never_found_replayed_or_removed(
    fleet, dead_letters
) -> None:
    requests = fleet.submit(3)
    kill(fleet, requests)
    stranger = DeadLetterCases(Fleet(fleet.store, fleet.queue_key.tenant + "x", fleet.biz))

    assert stranger.ids() == []
    assert stranger.replay(requests) == []
    assert stranger.purge(requests) == 0
    assert len(dead_letters.ids()) == 3


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
def test_pages_go_on_where_the_last_one_ended_over_several_shards(
    fleet, dead_letters, limit
) -> None:
    same = fleet.submit(9)
    hexes = [a_request(fleet.queue_key, i) for i in (*uuids(5, NOW), *object_ids(5, NOW))]
    fleet.insert(hexes)
    later = submit(fleet, 6, NOW + SECOND, worker=3)
    requests = [*same, *hexes, *later]
    kill(fleet, requests)

    found = dead_letters.ids(limit=limit)

    def place(r):
        return to_ms(r.queued_at), isinstance(r.id, str), r.id

    assert found == [r.id for r in sorted(requests, key=place)]


#: What is looked through is a shard's: two tell as much as eight.
TWO_SHARDS = a_biz(generations=(a_generation(nodes=("east",), databases=("one",)),))


@pytest.mark.parametrize("limit", [1, 4, 50])
def test_a_look_is_bounded_and_says_how_far_it_came(store, tenant, limit) -> None:
    fleet = Fleet(store, tenant, TWO_SHARDS)
    dead_letters = DeadLetterCases(fleet, scan=4)  # 2 a shard
    requests = [r for s in range(4) for r in submit(fleet, 10, NOW + s * SECOND)]
    kill(fleet, requests)
    rare = submit(fleet, 5, NOW + 2 * SECOND, worker=9, url="https://rare.example/")
    kill(fleet, rare)

    first = dead_letters.look(DeadLetterFilter(host="rare.example"), limit=limit)
    found, looks = dead_letters.found(DeadLetterFilter(host="rare.example"), limit=limit)

    assert (first.dead_letters, first.reached is None) == ((), False)
    assert sorted(one.request.id for one in found) == sorted(r.id for r in rare)
    assert looks > 5
    assert dead_letters.found(DeadLetterFilter(host="nowhere.example"), limit=limit)[0] == []


@examples(0.25, suppress_health_check=list(HealthCheck))
@given(
    hosts=st.lists(st.sampled_from("abc"), max_size=25),
    scan=st.integers(1, 20),
    limit=st.integers(1, 9),
)
def test_whatever_the_bounds_all_that_match_are_found_once(store, hosts, scan, limit) -> None:
    fleet = Fleet(store, uuids(1, NOW)[0], TWO_SHARDS)
    at = [NOW + (n // 4) * SECOND for n in range(len(hosts))]
    requests = [
        submit(fleet, 1, at[n], worker=n, url=f"https://{host}.example/")[0]
        for n, host in enumerate(hosts)
    ]
    if requests:
        kill(fleet, requests)

    found = DeadLetterCases(fleet, scan).ids(DeadLetterFilter(host="a.example"), limit=limit)

    assert sorted(found) == sorted(r.id for r, h in zip(requests, hosts, strict=True) if h == "a")
    assert len(found) == len(set(found))
