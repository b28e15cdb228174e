"""The board of jobs that wait for a worker, over its implementations: order, ways out, crowds."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from tests.contract.board_cases import NOW, SOON, WAIT, WINDOW, a_listing, list_jobs, names, won
from tests.kit.bidding import Applied, ListingResult, ListingState, RedisBoard
from tests.kit.bidding import board as bounds
from tests.kit.implementations import backend_over

boards = backend_over(RedisBoard)


@pytest.fixture
def board(boards):
    return boards[RedisBoard]


# ---- order


def test_of_one_tenant_the_higher_priority_is_first_until_a_lower_one_has_waited(board):
    list_jobs(board, "low", priority=4)
    list_jobs(board, "high", priority=6, now=NOW + timedelta(seconds=119))
    list_jobs(board, "late", priority=6, now=NOW + timedelta(seconds=121))

    assert names(board) == ["high", "low", "late"]


def test_tenants_have_their_jobs_awarded_by_weight_however_many_they_list(board):
    list_jobs(board, *(f"many{n:02}" for n in range(60)), tenant="acme", weight=1)
    list_jobs(board, *(f"few{n:02}" for n in range(60)), tenant="bolt", weight=3)

    read = Counter(one.tenant for one in board.head("main", 40))
    served = Counter()
    for n in range(40):
        (first,) = board.head("main", 1)
        assert won(board, first.key, f"w{n}")
        served[first.tenant] += 1

    assert (read["acme"], served["acme"]) == (10, 10)


def test_a_returning_tenant_has_no_credit_saved_up(board):
    list_jobs(board, *(f"a{n}" for n in range(20)), tenant="acme")
    for n in range(10):
        (first,) = board.head("main", 1)
        won(board, first.key, f"w{n}")

    list_jobs(board, *(f"b{n}" for n in range(20)), tenant="bolt")

    assert Counter(one.tenant for one in board.head("main", 10)) == {"acme": 5, "bolt": 5}


def test_listing_one_at_a_time_gets_no_more_than_the_weight(board):
    for tenant in ("acme", "bolt", "corp"):
        list_jobs(board, *(f"j{n:02}" for n in range(30)), tenant=tenant)
    served = Counter()
    for n in range(40):
        board.add(a_listing(f"one{n}", tenant="sly"), NOW, WAIT)
        (first,) = board.head("main", 1)
        award = won(board, first.key, f"w{n}")
        assert board.acknowledge(f"w{n}", first.key, award.number, NOW)
        served[first.tenant] += 1
        for one in board.head("main", 20):
            if one.tenant == "sly":
                board.withdraw(one.key)

    assert served["sly"] <= 11


def test_a_job_of_a_pool_is_read_by_its_workers_only_and_hides_no_other(board):
    list_jobs(board, *(f"eu{n}" for n in range(40)), pool="eu", priority=10)
    list_jobs(board, "any")

    assert names(board, "main") == ["any"]
    assert names(board, "eu", limit=2) == ["eu0", "eu1"]
    assert names(board, "eu", limit=50)[-1] == "any"


def test_who_finds_nothing_at_the_head_reads_on(board):
    list_jobs(board, *(f"j{n:03}" for n in range(150)), priority=0)

    first, second = names(board, limit=100), names(board, limit=100, first=100)

    assert first + second == [f"j{n:03}" for n in range(150)]
    assert names(board, limit=500, first=0) == first
    assert names(board, limit=10, first=bounds.DEEPEST) == names(board, limit=0) == []
    assert names(board, limit=100, first=195) == []


def test_a_thousand_listings_of_one_tenant_hide_no_other(board):
    list_jobs(board, *(f"j{n:04}" for n in range(1000)), tenant="acme", priority=10)
    list_jobs(board, "mine", tenant="bolt", priority=0, now=SOON)

    assert "mine" in names(board, limit=2)


def test_what_nobody_applies_for_goes_behind_all_that_is_there(board):
    list_jobs(board, "odd", priority=10)
    list_jobs(board, "plain", priority=0)
    later = NOW + WAIT

    assert board.due_waits(later, 9) == [("acme", "docs", "odd"), ("acme", "docs", "plain")]
    assert board.due_waits(later - timedelta(milliseconds=1), 9) == []
    assert board.lower(("acme", "docs", "odd"), 0, later, WAIT)
    assert not board.lower(("acme", "docs", "odd"), 0, later, WAIT)

    assert names(board) == ["plain", "odd"]
    assert [one.lowered for one in board.head("main", 2)] == [0, 1]
    assert board.due_waits(later, 9) == [("acme", "docs", "plain")]


def test_what_nobody_applied_for_through_no_fault_of_its_own_waits_on_at_the_tail(board):
    list_jobs(board, "away", "next")
    key = ("acme", "docs", "away")

    assert board.defer(key, 0, SOON, WAIT)

    standing, _ = board.read(key)
    assert (standing.listing.lowered, standing.until) == (0, SOON + WAIT)
    assert names(board) == ["next", "away"]
    assert not board.defer(key, 1, SOON, WAIT)
    assert board.defer(("acme", "docs", "next"), 0, SOON, WAIT, stays=True)
    assert names(board) == ["next", "away"]
    assert board.due_waits(SOON + WAIT, 5) == [key, ("acme", "docs", "next")]
    assert board.apply("w1", key, b"{}", SOON, WINDOW) is Applied.APPLIED
    assert not board.defer(key, 0, SOON, WAIT)
    assert not board.defer(("acme", "docs", "gone"), 0, SOON, WAIT)


def test_a_board_that_is_filled_again_has_the_order_it_had(board):
    later = NOW + timedelta(hours=1)
    list_jobs(board, "young", since=NOW, now=later)
    list_jobs(board, "old", since=NOW - timedelta(seconds=1), now=later)

    assert names(board) == ["old", "young"]
    assert board.due_waits(later, 9) == []


# ---- one way through


def test_an_award_is_acknowledged_and_the_job_is_gone(board):
    key = ("acme", "docs", "june")
    list_jobs(board, "june", document=b"{link}")
    assert board.apply("w1", key, b"one", NOW, WINDOW) is Applied.APPLIED
    assert board.apply("w2", key, b"two", SOON, WINDOW) is Applied.APPLIED
    assert board.due_windows(NOW, 9) == []
    assert board.due_windows(NOW + WINDOW, 9) == [key]

    standing, bids = board.read(key)
    award = board.award(key, standing.version, "w2", SOON)

    assert [(one.worker, one.document) for one in bids] == [("w1", b"one"), ("w2", b"two")]
    assert (award.state, award.listing.document) == (ListingState.AWARDED, b"{link}")
    assert (board.held("w1"), board.held("w2")) == (None, award)
    assert names(board) == board.due_windows(SOON, 9) == []
    assert not board.acknowledge("w1", key, award.number, SOON)
    assert not board.acknowledge("w2", key, award.number + 1, SOON)
    assert board.acknowledge("w2", key, award.number, SOON)
    assert board.acknowledge("w2", key, award.number, SOON)
    assert (board.read(key), board.held("w2"), board.stands("acme", None, None, 9)) == (
        None,
        None,
        [],
    )


def test_an_acknowledged_job_is_not_listed_again_while_its_worker_stores_that(board):
    key = ("acme", "docs", "june")
    list_jobs(board, "june")
    award = won(board, key, "w1")
    board.acknowledge("w1", key, award.number, NOW)

    soon, later = NOW + timedelta(seconds=59), NOW + timedelta(seconds=61)
    assert board.add(a_listing("june"), soon, WAIT) is ListingResult.BEGUN
    assert board.add(a_listing("june"), later, WAIT) is ListingResult.LISTED
    assert not board.acknowledge("w1", key, award.number, later)


def test_an_award_that_nobody_acknowledges_goes_back_to_the_head(board):
    key = ("acme", "docs", "late")
    list_jobs(board, "first", priority=10)
    list_jobs(board, "late", priority=0)
    list_jobs(board, "eu", priority=10, pool="eu")
    award = won(board, key, "w1")

    after = SOON + timedelta(milliseconds=1)
    assert board.lapse(SOON, WAIT, 9) == []
    assert not board.acknowledge("w1", key, award.number, after)
    assert board.lapse(after, WAIT, 9) == [(key, "w1")]
    assert board.lapse(after, WAIT, 9) == []

    assert not board.acknowledge("w1", key, award.number, SOON)
    assert names(board) == ["late", "first"]
    assert names(board, "eu")[0] == "late"
    assert board.held("w1") is None
    assert board.apply("w1", key, b"", NOW, WINDOW) is Applied.APPLIED


def test_a_worker_has_one_application_open(board):
    list_jobs(board, "a", "b")
    a, b = ("acme", "docs", "a"), ("acme", "docs", "b")
    assert board.apply("w1", a, b"1", NOW, WINDOW) is Applied.APPLIED

    assert board.apply("w1", b, b"2", NOW, WINDOW) is Applied.BUSY
    assert board.apply("w1", a, b"3", NOW, WINDOW) is Applied.APPLIED
    assert board.read(a)[1][0].document == b"1"
    assert board.retract("w1", NOW, WAIT) == a
    assert board.retract("w1", NOW, WAIT) is None
    assert board.read(a)[0].state is ListingState.WAITING
    assert board.apply("w1", b, b"2", NOW, WINDOW) is Applied.APPLIED


def test_a_worker_that_leaves_gives_back_what_it_won(board):
    list_jobs(board, "a", "b")
    key = ("acme", "docs", "b")
    award = won(board, key, "w1")

    assert board.retract("w1", NOW, WAIT) == key

    assert names(board) == ["b", "a"]
    assert not board.acknowledge("w1", key, award.number, NOW)


def test_what_has_changed_since_it_was_read_is_not_awarded(board):
    key = ("acme", "docs", "june")
    list_jobs(board, "june")
    board.apply("w1", key, b"", NOW, WINDOW)
    standing, _ = board.read(key)
    board.apply("w2", key, b"", NOW, WINDOW)

    assert board.award(key, standing.version, "w1", SOON) is None
    standing, _ = board.read(key)
    assert board.award(key, standing.version, "w3", SOON) is None
    assert board.award(key, standing.version, "w1", SOON).worker == "w1"


def test_a_withdrawn_job_sets_its_workers_free(board):
    list_jobs(board, "a", "b", "c")
    a, b = ("acme", "docs", "a"), ("acme", "docs", "b")
    board.apply("w1", a, b"", NOW, WINDOW)
    award = won(board, b, "w2")

    assert board.withdraw(a)
    assert board.withdraw(b)
    assert not board.withdraw(b)

    assert (board.held("w1"), board.held("w2")) == (None, None)
    assert not board.acknowledge("w2", b, award.number, NOW)
    assert names(board) == ["c"]
    assert board.lapse(SOON + WAIT, WAIT, 9) == []


# ---- many at once


def test_twenty_workers_apply_for_two_hundred_jobs_and_each_is_awarded_once(board):
    for n in range(200):
        list_jobs(board, f"j{n:03}", tenant=f"t{n % 3}", priority=n % 11)
    taken, lock = [], threading.Lock()

    def work(worker):
        while found := board.head("main", 20):
            key = found[hash(worker) % len(found)].key
            if board.apply(worker, key, worker.encode(), NOW, WINDOW) is Applied.APPLIED:
                read = board.read(key)
                if read is not None and read[1]:
                    standing, bids = read
                    board.award(key, standing.version, bids[-1].worker, SOON)
            held = board.held(worker)
            if held is not None and held.state is ListingState.AWARDED:
                assert held.worker == worker
                if board.acknowledge(worker, held.listing.key, held.number, NOW):
                    with lock:
                        taken.append((held.listing.key, held.number))
            elif held is not None:
                board.retract(worker, NOW, WAIT)

    with ThreadPoolExecutor(20) as threads:
        for done in [threads.submit(work, f"w{n}") for n in range(20)]:
            done.result(timeout=120)

    # An award whose winner had looked away before is still there; it lapses, and goes to another.
    for key, _ in board.lapse(SOON + WAIT, WAIT, 200):
        award = won(board, key, "last")
        assert board.acknowledge("last", key, award.number, NOW)
        taken.append((key, award.number))
    assert len(taken) == len({key for key, _ in taken}) == len({n for _, n in taken}) == 200
    assert board.stands("t0", None, None, 9) == []
