"""The board of jobs: what people are shown of it, and how much it takes of tenants and pools."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from tests.contract.board_cases import NOW, SOON, WAIT, WINDOW, a_listing, lacks, list_jobs
from tests.kit.bidding import Applied, BoardBounds, Decline, ListingResult, Note, RedisBoard, WhyNot
from tests.kit.implementations import backend_over
from tests.kit.kernel import InvalidRequestError

boards = backend_over(RedisBoard)


@pytest.fixture
def board(boards):
    return boards[RedisBoard]


@pytest.fixture
def bounded(boards):
    """Makes a board that takes no more than so much."""
    return lambda **room: boards.make(RedisBoard, room=BoardBounds(**room))


def test_people_see_how_jobs_stand_and_why_nobody_applies(board):
    list_jobs(board, "a", "b")
    list_jobs(board, "c", biz="news")
    list_jobs(board, "d", tenant="acme-2")
    key = ("acme", "docs", "a")
    gone = ("acme", "docs", "gone")
    board.decline("main", {key: lacks("memory:\n1 MB left"), gone: lacks("x")}, NOW)
    board.decline("eu", {key: lacks("link: slow", lowered=3)}, NOW)
    board.decline("main", {key: lacks("memory: 2 MB left" + " " * 900 + "!")}, SOON)

    found = board.stands("acme", None, None, 9)

    assert [one.listing.job for one in found] == ["a", "b", "c"]
    assert found[0].why_not == {
        "main": a_note("memory: 2 MB left !", since=NOW, at=SOON),
        "eu": a_note("link: slow", lowered=3, since=NOW, at=NOW),
    }
    assert (found[0].listing.since, found[0].until) == (NOW, NOW + WAIT)
    assert [one.listing.job for one in board.stands("acme", "docs", key, 9)] == ["b"]
    assert [one.listing.job for one in board.stands("acme", "news", key, 9)] in ([], ["c"])
    assert len(board.stands("acme", None, None, 1)) == 1
    assert board.stands("acme", None, None, 0) == []
    assert board.stands("acm", None, None, 9) == []
    assert board.missing([key, gone]) == [gone]
    assert board.missing([]) == []


def a_note(why, lowered=0, *, since, at):
    return Note(kind=WhyNot.LACKS, lowered=lowered, why=why, since=since, at=at)


def test_a_note_of_no_answer_lasts_whatever_kept_the_workers_from_one(board):
    list_jobs(board, "a")
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
    list_jobs(board, "a")
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
    list_jobs(board, "a")
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
    list_jobs(board, "a", "b", "c")
    list_jobs(board, "a", biz="news")

    assert (board.drop("acme", "docs", 2), board.drop("acme", "docs", 9)) == (2, 1)
    assert [(one.biz, one.job) for one in board.head("main", 9)] == [("news", "a")]


def test_a_tenants_listings_are_bounded_and_fewer_among_many_tenants(bounded):
    board = bounded(tenant_listings=5, most_listings=8, least_listings=1)
    list_jobs(board, *"abcde", tenant="acme")
    assert board.add(a_listing("f"), NOW, WAIT) is ListingResult.FULL
    list_jobs(board, *"abcd", tenant="bolt")
    assert board.add(a_listing("e", tenant="bolt"), NOW, WAIT) is ListingResult.FULL

    board.withdraw(("acme", "docs", "a"))

    assert board.add(a_listing("f"), NOW, WAIT) is ListingResult.FULL
    list_jobs(board, "a", "b", tenant="corp")


def test_pools_and_applications_and_their_reasons_are_bounded(bounded):
    board = bounded(most_pools=2, most_applications=2, most_notes=2)
    key = ("acme", "docs", "a")
    list_jobs(board, "a")
    list_jobs(board, "b", pool="eu")
    assert board.add(a_listing("c", pool="us"), NOW, WAIT) is ListingResult.FULL
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
        board.add(a_listing(**{"job": "a", **fields}), NOW, WAIT)
    assert board.head("main", 9) == []


def test_an_application_is_bounded_and_its_worker_has_an_id(board):
    list_jobs(board, "a")
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
