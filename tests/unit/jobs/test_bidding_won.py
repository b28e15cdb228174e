"""Jobs from the award to the first task: the winner begins, or others get the job."""

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.bidding import BEGUN, ListingState
from tests.kit.examples import examples
from tests.kit.jobs import JobState
from tests.kit.kernel import StoreUnavailableError
from tests.kit.worlds.bidding import GB, KEY, TERMS, Fleet
from tests.kit.worlds.doubles import Failing
from tests.kit.worlds.memory import START


@pytest.fixture
def fleet():
    return Fleet()


def test_a_winner_that_does_not_begin_loses_the_job_to_another(fleet):
    fleet.start()
    dead, live = fleet.worker("w1"), fleet.worker("w2")
    fleet.look(dead)
    fleet.pass_time(2)
    assert fleet.standing.worker == "w1"

    assert fleet.pass_time(11).lapsed == 1
    fleet.look(live)
    fleet.pass_time(2)
    fleet.look(live, dead)

    assert (fleet.job().state, fleet.job().worker) == (JobState.EXPANDING, "w2")
    assert dead.placed == 0


def test_a_job_whose_winner_dies_before_it_is_placed_is_listed_again(fleet):
    fleet.start()
    jobs = Failing(fleet.world.jobs, place=1_000)
    dead = fleet.worker("w1", jobs=jobs)
    fleet.look(dead)
    fleet.pass_time(2)
    fleet.look(dead)
    assert fleet.standing is None
    assert dead.stays
    assert fleet.pass_time(30).offered == 0

    assert fleet.pass_time(BEGUN.total_seconds()).offered == 1
    jobs.left["place"] = 0
    asyncio.run(dead.close())
    assert fleet.job().state is JobState.PLACING
    live = fleet.worker("w2")
    fleet.look(live)
    fleet.pass_time(2)
    fleet.look(live)
    assert (fleet.job().state, fleet.job().worker) == (JobState.EXPANDING, "w2")


def test_a_winner_writes_it_down_when_mongodb_is_back(fleet):
    fleet.start()
    worker = fleet.worker("w1", jobs=Failing(fleet.world.jobs, place=2))
    fleet.look(worker)
    fleet.pass_time(2)
    fleet.look(worker)
    fleet.look(worker)
    assert fleet.job().state is JobState.PLACING
    fleet.look(worker)
    assert (fleet.job().state, worker.placed) == (JobState.EXPANDING, 1)


def test_a_lost_board_is_rebuilt_as_it_was(fleet):
    fleet.learn(100 * GB)
    fleet.start()
    fleet.start("july", board=False)
    fleet.look(fleet.worker("w1"))
    fleet.pass_time(31)
    fleet.world.board.withdraw(KEY)

    # july was offered by the first round, june again by a later one.
    assert fleet.pass_time(31).offered == 1

    assert fleet.standing.listing.lowered == 1
    assert fleet.standing.listing.since == START
    assert {one.job for one in fleet.world.board.head("main", 5)} == {"june", "july"}


def test_where_bidding_is_taken_out_jobs_that_wait_go_on(fleet):
    fleet.start()
    worker = fleet.worker("w1")
    fleet.look(worker)
    fleet.bid(None)

    assert fleet.pass_time(40).released == 1
    fleet.look(worker)

    assert (fleet.job().state, fleet.job().pool) == (JobState.EXPANDING, None)
    assert fleet.standing is None
    assert not worker.stays


def test_a_cancelled_job_leaves_the_board(fleet):
    fleet.start()
    fleet.world.jobs.cancel(*KEY, fleet.world.now)

    fleet.pass_time(31)

    assert fleet.standing is None


def test_who_leaves_takes_its_application_back(fleet):
    fleet.start()
    worker = fleet.worker("w1")
    fleet.look(worker)

    asyncio.run(worker.close())

    assert fleet.standing.state is ListingState.WAITING
    assert not worker.stays


def test_one_jobs_failure_does_not_keep_others_from_being_awarded(fleet):
    fleet.bid(replace(TERMS, applicants=1))
    fleet.start()
    fleet.start("july")
    fleet.look(fleet.worker("w1"), fleet.worker("w2"))
    board = fleet.world.board

    class Odd:
        def __getattr__(self, name):
            return getattr(board, name)

        def read(self, key):
            if key == KEY:
                raise RuntimeError("odd")
            return board.read(key)

    assert fleet.pass_time(2, board=Odd()).awarded == 1

    assert any("june" in said for said in fleet.world.warnings)


def test_an_unreadable_application_is_withdrawn(fleet):
    fleet.start()
    now = fleet.world.now
    fleet.world.board.apply("odd", KEY, b"{", now, timedelta(seconds=1))

    fleet.pass_time(2)

    assert fleet.standing.state is ListingState.WAITING
    assert fleet.world.board.held("odd") is None


def test_a_worker_applies_for_one_job_at_a_time(fleet):
    fleet.start()
    fleet.start("july")
    worker = fleet.worker("w1")
    for _ in range(3):
        fleet.look(worker)

    states = [
        fleet.world.board.read(("default", "docs", name))[0].state for name in ("june", "july")
    ]
    assert sorted(states) == [ListingState.APPLIED, ListingState.WAITING]


def test_workers_pass_over_a_job_with_enough_applicants(fleet):
    fleet.bid(replace(TERMS, applicants=1))
    fleet.start()
    fleet.start("july")

    fleet.look(fleet.worker("w1"), fleet.worker("w2"))

    held = {fleet.world.board.held(name).listing.job for name in ("w1", "w2")}
    assert held == {"june", "july"}


POINTS = ["held", "head", "read", "apply", "acknowledge", "decline"]


@examples(0.4)
@given(
    board=st.dictionaries(st.sampled_from(POINTS), st.integers(1, 2), max_size=3),
    place=st.integers(0, 3),
    dies=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_whatever_fails_and_whoever_dies_each_job_is_placed_once(board, place, dies):
    fleet = Fleet()
    names = ["a", "b", "c"]
    for name in names:
        fleet.start(name)
    faulty = Failing(fleet.world.board, **board)
    jobs = Failing(fleet.world.jobs, place=place)
    workers = [fleet.worker("w0", board=faulty, jobs=jobs), fleet.worker("w1")]
    placed: dict[str, int] = {}
    for turn in range(40):
        for at, worker in enumerate(workers):
            if turn < len(dies) and dies[turn] and at == 0:
                # It vanishes, whatever it held, and another comes in its place.
                workers[0] = fleet.worker(f"x{turn}", board=faulty, jobs=jobs)
                continue
            try:
                fleet.look(worker)
            except StoreUnavailableError:
                continue
        fleet.pass_time(7)
        for name in names:
            award = fleet.job(name).award
            if award is not None:
                assert placed.setdefault(name, award) == award
    assert [fleet.job(name).state for name in names] == [JobState.EXPANDING] * 3
    assert len(set(placed.values())) == 3
