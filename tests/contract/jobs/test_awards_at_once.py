"""Rounds of awards that run at once, over all boards: each job has one winner, each winner one job.

A turn keeps rounds apart to spare work; what is decided must not depend on it, so nobody keeps to
any here.
"""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import msgspec

from tests.contract.job_cases import a_job
from tests.contract.store_cases import a_biz
from tests.fakes.job_ends import MemoryDemands
from tests.fakes.jobs import MemoryJobs
from tests.kit.bidding import (
    Application,
    Applied,
    Awarded,
    JobAuction,
    ListingResult,
    ListingState,
    Probe,
    RedisBoard,
    list_for_bids,
)
from tests.kit.config import BiddingTerms, Stage, Tree
from tests.kit.fleet import Remaining
from tests.kit.implementations import fixture_over
from tests.kit.jobs import JobState
from tests.kit.warned import Warned

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TERMS = BiddingTerms(window_seconds=1.0)
AFTER = NOW + timedelta(seconds=2)
JOBS = 20
APPLICANTS = 4
ROUNDS = 4


class Turnless:
    """A watch in which it is everybody's turn."""

    def acquire_lock(self, *_: object) -> bool:
        return True

    def release_lock(self, *_: object) -> None:
        pass


board = fixture_over(RedisBoard)


def an_application(worker: str, memory: float) -> bytes:
    said = Application(
        worker=worker,
        pool="main",
        remaining=Remaining(memory=memory),
        probe=Probe(at=NOW, seconds=0.1, bytes_per_second=1e6),
        at=NOW,
    )
    return msgspec.json.encode(said)


def test_rounds_at_once_award_each_job_once_and_each_worker_has_one_at_most(
    board: RedisBoard,
) -> None:
    jobs, window = MemoryJobs(), timedelta(seconds=TERMS.window_seconds)
    best: dict[str, str] = {}
    for n in range(JOBS):
        job = jobs.create(a_job(f"t{n % 3}", f"j{n}", state=JobState.PLACING, created_at=NOW))
        assert list_for_bids(board, TERMS, a_biz(), job, NOW) is ListingResult.LISTED
        for at in range(APPLICANTS):
            worker = f"w{n}.{at}"
            said = an_application(worker, memory=1e9 * (1 + (at + n) % APPLICANTS))
            assert board.apply(worker, job.key, said, NOW, window) is Applied.APPLIED
        best[job.name] = f"w{n}.{(APPLICANTS - 1 - n) % APPLICANTS}"
    tree = Tree(revision="1", stage=Stage(bidding=TERMS), tenants={}, bizs={})
    together, said = Barrier(ROUNDS), []
    warned = Warned()
    ports = JobAuction(
        jobs=jobs,
        board=board,
        demands=MemoryDemands(),
        detector=Turnless(),  # type: ignore[arg-type]
        say=lambda message, extra: said.append((message, extra["job"])),
    )

    def award(number: int) -> Awarded:
        together.wait(60)
        return ports.run_round(tree, f"a{number}", lambda: AFTER, lambda: 60.0)

    with ThreadPoolExecutor(ROUNDS) as threads:
        done = list(threads.map(award, range(ROUNDS)))

    assert warned.texts == []
    assert sum(one.awarded for one in done) == JOBS
    assert Counter(message for message, _ in said) == {"a job is awarded": JOBS}
    assert len({job for _, job in said}) == JOBS
    stands = [one for n in range(3) for one in board.stands(f"t{n}", None, None, JOBS)]
    assert {one.state for one in stands} == {ListingState.AWARDED}
    assert {one.listing.job: one.worker for one in stands} == best
    # Whoever has lost is free.
    held = [board.held(f"w{n}.{at}") for n in range(JOBS) for at in range(APPLICANTS)]
    assert sum(one is not None for one in held) == JOBS
    numbers = [one.number for one in stands]
    assert len(set(numbers)) == JOBS
