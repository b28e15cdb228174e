"""Filling the board again: what is wrong with one job is its own, and is told."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.bidding import ListingResult, listing_jobs
from tests.kit.jobs import JobState
from tests.kit.kernel import RejectedError, StoreUnavailableError
from tests.kit.warned import Warned
from tests.kit.worlds.bidding import TERMS, start
from tests.kit.worlds.memory import World


class Board:
    """The world's board; ``offer`` answers otherwise for the jobs that ``fate`` names."""

    def __init__(self, world, **fate):
        self._board, self._fate = world.board, fate
        self.tried = []

    def __getattr__(self, name):
        return getattr(self._board, name)

    def add(self, listing, now, wait):
        self.tried.append(listing.job)
        fate = self._fate.get(listing.job)
        if isinstance(fate, Exception):
            raise fate
        return fate or self._board.add(listing, now, wait)


@pytest.fixture
def world() -> World:
    made = World()
    made.tree = replace(made.tree, stage=replace(made.tree.stage, bidding=TERMS))
    return made


def fill(world, board, time_left=lambda: 60.0):
    auction, warned = world.auction(board=board), Warned()
    listed = auction.relist_missing(world.tree, TERMS, world.clock, time_left)
    return listed, warned.texts


def job(world, number):
    return world.jobs.get("default", "docs", f"docs{number:02}")


def wait_of(world, number):
    return job(world, number).due_at - world.now


def test_on_a_full_board_a_job_says_so_until_it_is_listed(world):
    start(world, "default", "docs", 2, board=False)

    assert fill(world, Board(world, docs00=ListingResult.FULL)) == (1, [])

    assert "as many" in job(world, 0).trouble
    assert (job(world, 1).trouble, wait_of(world, 1)) == (None, listing_jobs.AGAIN)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RejectedError("no such thing"), "it cannot wait for a worker now (RejectedError)"),
        (ValueError("secret"), "for a reason that nobody foresaw"),
    ],
)
def test_a_faulty_job_keeps_no_other_from_being_listed(world, error, said):
    start(world, "default", "docs", 3, board=False)
    board = Board(world, docs01=error)

    offered, [warning] = fill(world, board)

    assert offered == 2
    assert "default/docs/docs01" in warning
    assert warning.endswith(f": {error}")
    assert said in job(world, 1).trouble
    assert "secret" not in job(world, 1).trouble
    # It has waited its time, and longer each time that it fails.
    waited = [wait_of(world, 1)]
    for _ in range(6):
        world.now = job(world, 1).due_at
        fill(world, board)
        waited.append(wait_of(world, 1))
    assert waited == sorted(waited)
    assert waited[-1] > waited[0] >= listing_jobs.AGAIN


def test_a_job_without_its_biz_says_which_biz_is_missing(world):
    start(world, "default", "docs", 1, board=False)
    world.tree = replace(world.tree, bizs={"default": {}})

    offered, [_] = fill(world, Board(world))

    assert offered == 0
    assert "docs" in job(world, 0).trouble


def test_a_store_that_is_away_ends_the_round(world):
    start(world, "default", "docs", 2, board=False)

    with pytest.raises(StoreUnavailableError):
        fill(world, Board(world, docs00=StoreUnavailableError("redis", "away")))


def test_who_has_no_time_any_more_leaves_the_rest_to_the_next(world):
    start(world, "default", "docs", 3, board=False)
    left = iter([9.0, 9.0, 0.0])

    assert fill(world, Board(world), lambda: next(left, 0.0)) == (1, [])
    assert fill(world, Board(world)) == (2, [])


def test_many_jobs_are_looked_up_in_rounds(world):
    count = 2 * listing_jobs.JOBS_A_ROUND + 1
    start(world, "default", "docs", count, board=False)

    assert fill(world, Board(world)) == (count, [])


def test_a_job_cancelled_between_the_two_reads_is_not_listed(world):
    start(world, "default", "docs", 1, board=False)

    class Jobs:
        def __getattr__(self, name):
            return getattr(world.jobs, name)

        def get(self, *key):
            return replace(world.jobs.get(*key), state=JobState.CANCELLED)

    auction = world.auction(jobs=Jobs())

    assert auction.relist_missing(world.tree, TERMS, world.clock, lambda: 60.0) == 0
    assert list(world.board.head("main", 1)) == []


def test_a_link_that_is_too_long_to_try_is_the_sites_own_page(world):
    start(world, "default", "docs", 1, board=False)
    found = job(world, 0)
    long = replace(found, link=replace(found.link, test_url="https://example.org/" + "a" * 5_000))

    listing_jobs.list_for_bids(
        world.board, TERMS, world.biz, long, world.now + timedelta(seconds=1)
    )

    (listing,) = world.board.head("main", 1)
    assert b'"url":"https://example.org/"' in listing.document
