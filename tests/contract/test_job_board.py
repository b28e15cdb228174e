"""The board of jobs that wait for a worker, over its twins: order, bounds, ways out, crowds."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from infra.local.redis_server import ENV_URL, RedisServer
from tests.kit.bidding import (
    Applied,
    BoardBounds,
    Decline,
    JobBoard,
    Note,
    Offer,
    Offered,
    OfferState,
    RedisBoard,
    WhyNot,
    applications_key,
    board_keys,
)
from tests.kit.bidding import board as bounds
from tests.kit.bidding import board_keys_module as dictionary
from tests.kit.implementations import backend_over
from tests.kit.kernel import InvalidRequestError, StoreUnavailableError
from tests.kit.redis import RedisConnection

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WAIT = timedelta(seconds=30)
WINDOW = timedelta(seconds=1)
SOON = NOW + timedelta(seconds=10)


backend = backend_over(JobBoard)


@pytest.fixture
def board(backend):
    return backend[JobBoard]


@pytest.fixture
def bounded(backend):
    """Makes a board that takes no more than so much."""
    return lambda **room: backend.make(JobBoard, room=BoardBounds(**room))


def an_offer(job, tenant="acme", biz="docs", **fields):
    return Offer(tenant=tenant, biz=biz, job=job, **fields)


def offer(board, *jobs, now=NOW, **fields):
    for job in jobs:
        assert board.offer(an_offer(job, **fields), now, WAIT) is Offered.OFFERED


def won(board, key, worker, *, until=SOON):
    """The worker applies alone, and is awarded the job."""
    assert board.apply(worker, key, b"{}", NOW, WINDOW) is Applied.APPLIED
    standing, _ = board.read(key)
    return board.award(key, standing.version, worker, until)


def names(board, pool="main", limit=50, first=0):
    return [one.job for one in board.head(pool, limit, first)]


# ---- order


def test_of_one_tenant_the_higher_priority_is_first_until_a_lower_one_has_waited(board):
    offer(board, "low", priority=4)
    offer(board, "high", priority=6, now=NOW + timedelta(seconds=119))
    offer(board, "late", priority=6, now=NOW + timedelta(seconds=121))

    assert names(board) == ["high", "low", "late"]


def test_tenants_have_their_jobs_awarded_by_weight_however_many_they_offer(board):
    offer(board, *(f"many{n:02}" for n in range(60)), tenant="acme", weight=1)
    offer(board, *(f"few{n:02}" for n in range(60)), tenant="bolt", weight=3)

    read = Counter(one.tenant for one in board.head("main", 40))
    served = Counter()
    for n in range(40):
        (first,) = board.head("main", 1)
        assert won(board, first.key, f"w{n}")
        served[first.tenant] += 1

    assert (read["acme"], served["acme"]) == (10, 10)


def test_who_comes_anew_has_no_turns_saved_up(board):
    offer(board, *(f"a{n}" for n in range(20)), tenant="acme")
    for n in range(10):
        (first,) = board.head("main", 1)
        won(board, first.key, f"w{n}")

    offer(board, *(f"b{n}" for n in range(20)), tenant="bolt")

    assert Counter(one.tenant for one in board.head("main", 10)) == {"acme": 5, "bolt": 5}


def test_who_offers_one_at_a_time_gets_no_more_than_its_weight(board):
    for tenant in ("acme", "bolt", "corp"):
        offer(board, *(f"j{n:02}" for n in range(30)), tenant=tenant)
    served = Counter()
    for n in range(40):
        board.offer(an_offer(f"one{n}", tenant="sly"), NOW, WAIT)
        (first,) = board.head("main", 1)
        award = won(board, first.key, f"w{n}")
        assert board.acknowledge(f"w{n}", first.key, award.number, NOW)
        served[first.tenant] += 1
        for one in board.head("main", 20):
            if one.tenant == "sly":
                board.withdraw(one.key)

    assert served["sly"] <= 11


def test_a_job_of_a_pool_is_read_by_its_workers_only_and_hides_no_other(board):
    offer(board, *(f"eu{n}" for n in range(40)), pool="eu", priority=10)
    offer(board, "any")

    assert names(board, "main") == ["any"]
    assert names(board, "eu", limit=2) == ["eu0", "eu1"]
    assert names(board, "eu", limit=50)[-1] == "any"


def test_who_finds_nothing_at_the_head_reads_on(board):
    offer(board, *(f"j{n:03}" for n in range(150)), priority=0)

    first, second = names(board, limit=100), names(board, limit=100, first=100)

    assert first + second == [f"j{n:03}" for n in range(150)]
    assert names(board, limit=500, first=0) == first
    assert names(board, limit=10, first=bounds.DEEPEST) == names(board, limit=0) == []
    assert names(board, limit=100, first=195) == []


def test_a_thousand_offers_of_one_tenant_hide_no_other(board):
    offer(board, *(f"j{n:04}" for n in range(1000)), tenant="acme", priority=10)
    offer(board, "mine", tenant="bolt", priority=0, now=SOON)

    assert "mine" in names(board, limit=2)


def test_what_nobody_applies_for_goes_behind_all_that_is_there(board):
    offer(board, "odd", priority=10)
    offer(board, "plain", priority=0)
    later = NOW + WAIT

    assert board.due_waits(later, 9) == [("acme", "docs", "odd"), ("acme", "docs", "plain")]
    assert board.due_waits(later - timedelta(milliseconds=1), 9) == []
    assert board.lower(("acme", "docs", "odd"), 0, later, WAIT)
    assert not board.lower(("acme", "docs", "odd"), 0, later, WAIT)

    assert names(board) == ["plain", "odd"]
    assert [one.lowered for one in board.head("main", 2)] == [0, 1]
    assert board.due_waits(later, 9) == [("acme", "docs", "plain")]


def test_what_nobody_applied_for_through_no_fault_of_its_own_waits_on_at_the_tail(board):
    offer(board, "away", "next")
    key = ("acme", "docs", "away")

    assert board.defer(key, 0, SOON, WAIT)

    standing, _ = board.read(key)
    assert (standing.offer.lowered, standing.until) == (0, SOON + WAIT)
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
    offer(board, "young", since=NOW, now=later)
    offer(board, "old", since=NOW - timedelta(seconds=1), now=later)

    assert names(board) == ["old", "young"]
    assert board.due_waits(later, 9) == []


# ---- one way through


def test_an_award_is_acknowledged_and_the_job_is_gone(board):
    key = ("acme", "docs", "june")
    offer(board, "june", document=b"{link}")
    assert board.apply("w1", key, b"one", NOW, WINDOW) is Applied.APPLIED
    assert board.apply("w2", key, b"two", SOON, WINDOW) is Applied.APPLIED
    assert board.due_windows(NOW, 9) == []
    assert board.due_windows(NOW + WINDOW, 9) == [key]

    standing, bids = board.read(key)
    award = board.award(key, standing.version, "w2", SOON)

    assert [(one.worker, one.document) for one in bids] == [("w1", b"one"), ("w2", b"two")]
    assert (award.state, award.offer.document) == (OfferState.AWARDED, b"{link}")
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


def test_what_was_acknowledged_is_not_offered_again_while_its_worker_writes_that_down(board):
    key = ("acme", "docs", "june")
    offer(board, "june")
    award = won(board, key, "w1")
    board.acknowledge("w1", key, award.number, NOW)

    soon, later = NOW + timedelta(seconds=59), NOW + timedelta(seconds=61)
    assert board.offer(an_offer("june"), soon, WAIT) is Offered.BEGUN
    assert board.offer(an_offer("june"), later, WAIT) is Offered.OFFERED
    assert not board.acknowledge("w1", key, award.number, later)


def test_an_award_that_nobody_acknowledges_goes_back_to_the_head(board):
    key = ("acme", "docs", "late")
    offer(board, "first", priority=10)
    offer(board, "late", priority=0)
    offer(board, "eu", priority=10, pool="eu")
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
    offer(board, "a", "b")
    a, b = ("acme", "docs", "a"), ("acme", "docs", "b")
    assert board.apply("w1", a, b"1", NOW, WINDOW) is Applied.APPLIED

    assert board.apply("w1", b, b"2", NOW, WINDOW) is Applied.BUSY
    assert board.apply("w1", a, b"3", NOW, WINDOW) is Applied.APPLIED
    assert board.read(a)[1][0].document == b"1"
    assert board.retract("w1", NOW, WAIT) == a
    assert board.retract("w1", NOW, WAIT) is None
    assert board.read(a)[0].state is OfferState.WAITING
    assert board.apply("w1", b, b"2", NOW, WINDOW) is Applied.APPLIED


def test_a_worker_that_leaves_gives_back_what_it_won(board):
    offer(board, "a", "b")
    key = ("acme", "docs", "b")
    award = won(board, key, "w1")

    assert board.retract("w1", NOW, WAIT) == key

    assert names(board) == ["b", "a"]
    assert not board.acknowledge("w1", key, award.number, NOW)


def test_what_has_changed_since_it_was_read_is_not_awarded(board):
    key = ("acme", "docs", "june")
    offer(board, "june")
    board.apply("w1", key, b"", NOW, WINDOW)
    standing, _ = board.read(key)
    board.apply("w2", key, b"", NOW, WINDOW)

    assert board.award(key, standing.version, "w1", SOON) is None
    standing, _ = board.read(key)
    assert board.award(key, standing.version, "w3", SOON) is None
    assert board.award(key, standing.version, "w1", SOON).worker == "w1"


def test_a_withdrawn_job_sets_its_workers_free(board):
    offer(board, "a", "b", "c")
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


# ---- people, tenants, bounds


def test_people_see_how_jobs_stand_and_why_nobody_applies(board):
    offer(board, "a", "b")
    offer(board, "c", biz="news")
    offer(board, "d", tenant="acme-2")
    key = ("acme", "docs", "a")
    gone = ("acme", "docs", "gone")
    board.decline("main", {key: lacks("memory:\n1 MB left"), gone: lacks("x")}, NOW)
    board.decline("eu", {key: lacks("link: slow", lowered=3)}, NOW)
    board.decline("main", {key: lacks("memory: 2 MB left" + " " * 900 + "!")}, SOON)

    found = board.stands("acme", None, None, 9)

    assert [one.offer.job for one in found] == ["a", "b", "c"]
    assert found[0].why_not == {
        "main": a_note("memory: 2 MB left !", since=NOW, at=SOON),
        "eu": a_note("link: slow", lowered=3, since=NOW, at=NOW),
    }
    assert (found[0].offer.since, found[0].until) == (NOW, NOW + WAIT)
    assert [one.offer.job for one in board.stands("acme", "docs", key, 9)] == ["b"]
    assert [one.offer.job for one in board.stands("acme", "news", key, 9)] in ([], ["c"])
    assert len(board.stands("acme", None, None, 1)) == 1
    assert board.stands("acme", None, None, 0) == []
    assert board.stands("acm", None, None, 9) == []
    assert board.missing([key, gone]) == [gone]
    assert board.missing([]) == []


def lacks(why, lowered=0):
    return Decline(kind=WhyNot.LACKS, lowered=lowered, why=why)


def a_note(why, lowered=0, *, since, at):
    return Note(kind=WhyNot.LACKS, lowered=lowered, why=why, since=since, at=at)


def test_a_note_of_no_answer_lasts_whatever_kept_the_workers_from_one(board):
    offer(board, "a")
    key = ("acme", "docs", "a")
    kinds = [WhyNot.AWAY, WhyNot.UNJUDGED, WhyNot.AWAY, WhyNot.LACKS, WhyNot.AWAY]
    lasted = []
    for n, kind in enumerate(kinds):
        said = Decline(kind=kind, lowered=n, why="")
        board.decline("main", {key: said}, NOW + timedelta(seconds=n))
        note = board.stands("acme", None, None, 1)[0].why_not["main"]
        lasted.append(note.lasted.total_seconds())

    assert lasted == [0, 1, 2, 0, 0]


@pytest.mark.parametrize("other", [{"kind": WhyNot.BUSY}, {"lowered": 1}], ids=["kind", "demand"])
def test_a_note_lasts_while_its_pool_says_the_same_of_the_same_demand(board, other):
    offer(board, "a")
    key = ("acme", "docs", "a")

    def said(note, at):
        board.decline("main", {key: note}, at)
        found = board.stands("acme", None, None, 1)[0].why_not["main"]
        return found.since, found.at, found.lasted

    later = [NOW + timedelta(seconds=n) for n in (0, 1, 2, 62)]
    assert said(lacks("memory"), later[0]) == (later[0], later[0], timedelta(0))
    assert said(lacks(""), later[1]) == (later[0], later[1], timedelta(seconds=1))
    assert said(replace(lacks("memory"), **other), later[2]) == (later[2], later[2], timedelta(0))
    assert said(lacks("memory"), later[3]) == (later[3], later[3], timedelta(0))


def test_a_pool_suits_a_job_while_any_worker_of_it_does(board):
    offer(board, "a")
    key = ("acme", "docs", "a")
    busy = Decline(kind=WhyNot.BUSY, lowered=0, why="busy now")
    said = []
    for seconds, note in (
        *((0, lacks("memory")), (1, busy), (2, lacks("memory")), (50, busy), (109, lacks("cpu"))),
        *(
            (110, lacks("cpu")),
            (111, busy),
            (112, lacks("cpu", 1)),
            (113, replace(busy, lowered=2)),
        ),
        *((114, Decline(kind=WhyNot.AWAY, lowered=2, why="")),),
    ):
        board.decline("main", {key: note}, NOW + timedelta(seconds=seconds))
        board.decline("far", {key: lacks("far")}, NOW + timedelta(seconds=seconds))
        notes = board.read(key)[0].why_not
        found = notes["main"]
        assert (notes["far"].kind, next(iter(notes))) == (WhyNot.LACKS, "far")
        since, at = ((when - NOW).total_seconds() for when in (found.since, found.at))
        said.append((found.kind.value, found.lowered, since, at))

    assert said == [
        ("lacks", 0, 0, 0),
        ("busy", 0, 1, 1),
        # What another worker lacks says nothing while one that suits it is there.
        ("busy", 0, 1, 1),
        ("busy", 0, 1, 50),
        ("busy", 0, 1, 50),
        ("lacks", 0, 110, 110),
        ("busy", 0, 111, 111),
        # Of another demand nobody has said that it suits.
        ("lacks", 1, 112, 112),
        ("busy", 2, 113, 113),
        ("away", 2, 114, 114),
    ]


def test_what_is_left_of_a_biz_that_is_gone_can_be_dropped(board):
    offer(board, "a", "b", "c")
    offer(board, "a", biz="news")

    assert (board.drop("acme", "docs", 2), board.drop("acme", "docs", 9)) == (2, 1)
    assert [(one.biz, one.job) for one in board.head("main", 9)] == [("news", "a")]


def test_a_tenant_has_so_many_offers_and_less_where_there_are_many_tenants(bounded):
    board = bounded(tenant_offers=5, most_offers=8, least_offers=1)
    offer(board, *"abcde", tenant="acme")
    assert board.offer(an_offer("f"), NOW, WAIT) is Offered.FULL
    offer(board, *"abcd", tenant="bolt")
    assert board.offer(an_offer("e", tenant="bolt"), NOW, WAIT) is Offered.FULL

    board.withdraw(("acme", "docs", "a"))

    assert board.offer(an_offer("f"), NOW, WAIT) is Offered.FULL
    offer(board, "a", "b", tenant="corp")


def test_pools_and_applications_and_their_reasons_are_bounded(bounded):
    board = bounded(most_pools=2, most_applications=2, most_notes=2)
    key = ("acme", "docs", "a")
    offer(board, "a")
    offer(board, "b", pool="eu")
    assert board.offer(an_offer("c", pool="us"), NOW, WAIT) is Offered.FULL
    for worker, result in (("w1", "applied"), ("w2", "applied"), ("w3", "full")):
        assert board.apply(worker, key, b"", NOW, WINDOW) == result
    for pool in ("main", "eu", "us"):
        board.decline(pool, {key: lacks(pool)}, NOW)
    notes = board.stands("acme", None, None, 1)[0].why_not
    assert notes == {pool: a_note(pool, since=NOW, at=NOW) for pool in ("us", "eu")}


@pytest.mark.parametrize(
    ("fields", "blamed"),
    [
        ({"document": b"x" * 9_000}, "document"),
        ({"priority": 11}, "priority"),
        ({"weight": 0}, "weight"),
        ({"lowered": -1}, "lowered"),
        ({"pool": "-"}, "pool"),
        ({"since": datetime(1999, 1, 1, tzinfo=UTC)}, "since"),
        ({"pool": "a b"}, "pool"),
        ({"tenant": "*"}, "tenant"),
        ({"biz": "a/b"}, "biz"),
        ({"job": "a\0b"}, "job"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(board, fields, blamed):
    with pytest.raises(InvalidRequestError, match=f"^{blamed}"):
        board.offer(an_offer(**{"job": "a", **fields}), NOW, WAIT)
    assert board.head("main", 9) == []


def test_an_application_is_bounded_and_its_worker_has_an_id(board):
    offer(board, "a")
    for worker, document, blamed in (("w 1", b"", "worker"), ("w1", b"x" * 9_000, "application")):
        with pytest.raises(InvalidRequestError, match=f"^{blamed}"):
            board.apply(worker, ("acme", "docs", "a"), document, NOW, WINDOW)
    with pytest.raises(InvalidRequestError, match=r"^pool"):
        board.decline("", {}, NOW)


def test_what_is_not_there_has_no_effect(board):
    key = ("acme", "docs", "none")

    assert board.apply("w1", key, b"", NOW, WINDOW) is Applied.GONE
    assert board.read(key) is board.held("w1") is board.award(key, 1, "w1", NOW) is None
    assert not board.acknowledge("w1", key, 1, NOW)
    assert not board.lower(key, 0, NOW, WAIT)
    assert board.due_waits(NOW, 0) == []


# ---- many at once


def test_twenty_workers_apply_for_two_hundred_jobs_and_each_is_awarded_once(board):
    for n in range(200):
        offer(board, f"j{n:03}", tenant=f"t{n % 3}", priority=n % 11)
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
            if held is not None and held.state is OfferState.AWARDED:
                assert held.worker == worker
                if board.acknowledge(worker, held.offer.key, held.number, NOW):
                    with lock:
                        taken.append((held.offer.key, held.number))
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


# ---- what only Redis shows


def test_every_key_is_in_the_dictionary_has_its_type_and_no_ttl(redis_connection, tenant):
    board = RedisBoard(redis_connection, fleet=tenant)
    offer(board, "a", "b", "c", "d")
    board.decline("main", {("acme", "docs", "a"): lacks("no")}, NOW)
    board.apply("w1", ("acme", "docs", "a"), b"", NOW, WINDOW)
    award = won(board, ("acme", "docs", "b"), "w2")
    board.acknowledge("w2", ("acme", "docs", "b"), award.number, NOW)
    won(board, ("acme", "docs", "d"), "w3")
    keys = [*board_keys(tenant), applications_key("acme/docs/a", tenant)]
    client = redis_connection.client

    assert {key.decode() for key in client.scan_iter(f"cf:{{{tenant}}}:*")} == set(keys)
    assert {client.ttl(key) for key in keys} == {-1}
    for key in keys:
        name = key.partition("}:")[2].partition(":")[0]
        row = next(line for line in dictionary.__doc__.splitlines() if f":{name}" in line)
        assert client.type(key).decode().upper() in row.split()


def test_a_board_on_which_nothing_is_left_takes_no_room(redis_connection, tenant):
    board = RedisBoard(redis_connection, fleet=tenant)
    offer(board, "a", "b", pool="eu")
    board.apply("w1", ("acme", "docs", "a"), b"", NOW, WINDOW)
    won(board, ("acme", "docs", "b"), "w2")
    board.drop("acme", "docs", 9)

    left = {key.decode() for key in redis_connection.client.scan_iter(f"cf:{{{tenant}}}:*")}

    assert {key.rpartition("_")[2] for key in left} <= {"serial", "passes"}


@pytest.fixture
def full(monkeypatch):
    """A Redis of one's own, and what fills it."""
    monkeypatch.delenv(ENV_URL, raising=False)
    with RedisServer() as server, RedisConnection(server.url) as connection:
        yield connection


def test_a_full_redis_takes_no_offers_but_lets_jobs_go_their_way(full):
    board = RedisBoard(full)
    offer(board, *"abcdef")
    won(board, ("acme", "docs", "b"), "w2")
    full.client.config_set("maxmemory", 1)
    try:
        with pytest.raises(StoreUnavailableError):
            board.offer(an_offer("g"), NOW, WAIT)
        award = won(board, ("acme", "docs", "a"), "w1")
        assert board.held("w1") == award
        assert board.acknowledge("w1", ("acme", "docs", "a"), award.number, NOW)
        assert board.lapse(SOON + WAIT, WAIT, 9) == [(("acme", "docs", "b"), "w2")]
        assert board.lower(("acme", "docs", "c"), 0, SOON, WAIT)
        won(board, ("acme", "docs", "d"), "w3")
        assert board.retract("w3", NOW, WAIT)
        assert board.withdraw(("acme", "docs", "e"))
        assert len(board.head("main", 9)) == len(board.stands("acme", None, None, 9)) == 4
    finally:
        full.client.config_set("maxmemory", 0)


@pytest.mark.long
def test_a_board_of_the_largest_size_is_read_in_milliseconds(full):
    board = RedisBoard(full)
    offer(board, "rare", tenant="bolt")
    for n in range(BoardBounds().tenant_offers):
        board.offer(an_offer(f"j{n:05}", document=b"x" * 400), NOW, WAIT)
    assert board.offer(an_offer("more"), NOW, WAIT) is Offered.FULL
    before = full.client.info("commandstats")["cmdstat_evalsha"]
    for _ in range(50):
        assert len(board.head("main", 20)) == 20
    after = full.client.info("commandstats")["cmdstat_evalsha"]

    assert (after["usec"] - before["usec"]) / 50 < 5_000
    assert full.client.info("memory")["used_memory"] < 40_000_000


def test_nobody_there_is_said_so():
    board = RedisBoard(RedisConnection("redis://127.0.0.1:1", connect_seconds=0.2))

    for question in (
        lambda: board.head("main", 1),
        lambda: board.offer(an_offer("a"), NOW, WAIT),
        lambda: board.retract("w1", NOW, WAIT),
        lambda: board.due_waits(NOW, 1),
        lambda: board.lapse(NOW, WAIT, 1),
    ):
        with pytest.raises(StoreUnavailableError):
            question()
