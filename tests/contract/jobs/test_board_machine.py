"""The board's contract as a state machine: memory, Redis, a cluster and a model in lockstep.

Whatever workers do, late, twice or not at all: a job is waiting, applied for, awarded to one, or
gone because somebody has acknowledged or withdrawn it; no worker holds two; every number is given
once; and who is lowered often enough is out.
"""

from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.contract.board_model import Model
from tests.fakes.bidding import MemoryBoard
from tests.kit.bidding import JobListing, ListingResult, RedisBoard
from tests.kit.examples import examples

BEGINNING = datetime(2026, 3, 1, 12, tzinfo=UTC)
START = int(BEGINNING.timestamp())
JOBS = [
    (tenant, biz, job)
    for tenant, biz, job in [
        *[("acme", "docs", name) for name in ("a", "b", "c.1", "a-b")],
        *[("acme", "news", name) for name in ("a", "z")],
        *[("bolt", "docs", name) for name in ("a", "b")],
        ("ab", "docs", "a"),
    ]
]
KEYS = st.sampled_from(JOBS)
WORKERS = st.sampled_from(["w1", "w2", "w3", "eu.w1", "w*"])
POOLS = st.sampled_from([None, None, None, "main", "eu"])
SECONDS = st.integers(0, 70)
TWICE = st.booleans()
#: As often as jobs.bidding.selection lowers: 0.9 ** 7 is below a half.
OUT = 7


def at(seconds):
    return BEGINNING + timedelta(seconds=seconds - START)


def span(seconds):
    return timedelta(seconds=seconds)


class BoardMachine(RuleBasedStateMachine):
    def __init__(self, boards):
        super().__init__()
        self.model = Model()
        self.boards = boards
        self.now = START
        self.numbers = [set() for _ in boards]
        #: Awards as each board told them: key, worker, the model's number, and each one's own.
        self.awards = []
        self.offered = set()
        self.ended = set()

    def ask(self, expected, question):
        for board in self.boards:
            assert question(board) == expected

    @rule(seconds=SECONDS)
    def time_passes(self, seconds):
        self.now += seconds

    @rule(
        key=KEYS,
        priority=st.integers(0, 10),
        weight=st.sampled_from([1, 1, 2, 3]),
        pool=POOLS,
        ago=st.integers(0, 3),
        wait=SECONDS,
    )
    def add(self, key, priority, weight, pool, ago, wait):
        tenant, biz, job = key
        listing = JobListing(
            tenant=tenant,
            biz=biz,
            job=job,
            document=job.encode(),
            priority=priority,
            weight=weight,
            pool=pool,
            since=at(self.now - ago) if ago else None,
        )
        expected = self.model.add(key, priority, weight, pool, ago, self.now, wait)
        self.ask(expected, lambda board: board.add(listing, at(self.now), span(wait)))
        if expected is ListingResult.LISTED:
            self.offered.add(key)
            self.ended.discard(key)

    @rule(worker=WORKERS, pool=st.sampled_from(["main", "eu"]), seen=st.integers(0, 3))
    def read_and_apply(self, worker, pool, seen):
        found = self.model.head(pool, 4, 0)
        if found:
            self.apply(worker, found[seen % len(found)], 3)

    @rule(workers=st.lists(WORKERS, min_size=2, unique=True), pool=st.sampled_from(["main", "eu"]))
    def several_apply_for_the_first(self, workers, pool):
        for key in self.model.head(pool, 1, 0):
            for worker in workers:
                self.apply(worker, key, 3)

    @rule(worker=WORKERS, key=KEYS, window=st.integers(0, 5))
    def apply(self, worker, key, window):
        expected = self.model.apply(worker, key, self.now, window)
        document = b"%d" % self.now
        self.ask(
            expected,
            lambda board: board.apply(worker, key, document, at(self.now), span(window)),
        )

    @rule(worker=WORKERS, wait=SECONDS)
    def retract(self, worker, wait):
        expected = self.model.retract(worker, self.now, wait)
        self.ask(expected, lambda board: board.retract(worker, at(self.now), span(wait)))

    @precondition(lambda self: any(one["bids"] for one in self.model.jobs.values()))
    @rule(data=st.data(), term=st.integers(0, 20), late=st.booleans(), wait=SECONDS)
    def award(self, data, term, late, wait):
        """Also by two who have read the same, and by one who has read it before a change."""
        able = sorted(key for key, one in self.model.jobs.items() if one["bids"])
        key = data.draw(st.sampled_from(able))
        worker = data.draw(st.sampled_from(sorted(self.model.jobs[key]["bids"])))
        read = [board.read(key) for board in self.boards]
        for _, bids in read:
            assert {one.worker: one.document for one in bids} == self.model.jobs[key]["bids"]
        if late:
            other = data.draw(WORKERS)
            before = dict(self.model.jobs[key]["bids"])
            self.retract(other, wait)
            if self.model.jobs[key]["bids"] != before:
                for board, (standing, _) in zip(self.boards, read, strict=True):
                    assert board.award(key, standing.version, worker, at(self.now)) is None
                return
        until = self.now + term
        self.model.award(key, worker, until)
        numbers = []
        for n, (board, (standing, _)) in enumerate(zip(self.boards, read, strict=True)):
            won = board.award(key, standing.version, worker, at(until))
            assert (won.listing.key, won.worker, won.until) == (key, worker, at(until))
            assert board.award(key, standing.version, worker, at(until)) is None
            assert won.number not in self.numbers[n]
            self.numbers[n].add(won.number)
            numbers.append(won.number)
        self.model.jobs[key]["number"] = len(self.awards)
        self.awards.append((key, worker, len(self.awards), numbers))

    @precondition(lambda self: self.awards)
    @rule(late=st.integers(0, 3), other=st.none() | WORKERS, twice=TWICE)
    def acknowledge(self, late, other, twice):
        key, winner, number, numbers = self.awards[-1 - late % len(self.awards)]
        worker = other or winner
        for _ in range(1 + twice):
            expected = self.model.acknowledge(worker, key, number, self.now)
            for board, own in zip(self.boards, numbers, strict=True):
                assert board.acknowledge(worker, key, own, at(self.now)) is expected
        if key not in self.model.jobs:
            self.ended.add(key)

    @rule(wait=SECONDS)
    def lapse(self, wait):
        expected = self.model.lapse(self.now, wait)
        self.ask(expected, lambda board: board.lapse(at(self.now), span(wait), 100))

    @rule(wait=SECONDS, twice=TWICE)
    def lower_what_nobody_applied_for(self, wait, twice):
        for key in self.model.due("waiting", self.now):
            lowered = self.model.jobs[key]["lowered"]
            if lowered + 1 == OUT:
                self.withdraw(key)
                continue
            for _ in range(1 + twice):
                expected = self.model.lower(key, lowered, self.now, wait)
                self.ask(
                    expected,
                    lambda board, key=key, lowered=lowered: board.lower(
                        key, lowered, at(self.now), span(wait)
                    ),
                )

    @rule(key=KEYS, stale=st.booleans(), stays=st.booleans(), wait=SECONDS)
    def let_one_wait_on(self, key, stale, stays, wait):
        """Defer a job, at the tail or in its place; a stale reader's call changes nothing."""
        lowered = self.model.jobs[key]["lowered"] + stale if key in self.model.jobs else 0
        expected = self.model.defer(key, lowered, self.now, wait, stays)
        self.ask(
            expected,
            lambda board: board.defer(key, lowered, at(self.now), span(wait), stays=stays),
        )

    @rule(key=KEYS)
    def withdraw(self, key):
        expected = self.model.withdraw(key)
        self.ask(expected, lambda board: board.withdraw(key))
        self.ended.add(key)

    @invariant()
    def all_hold_the_same_and_every_job_is_in_one_place(self):
        model = self.model
        assert set(model.jobs) == self.offered - self.ended
        self.ask([], lambda board: board.missing(sorted(model.jobs)))
        for pool in ("main", "eu"):
            order = model.head(pool, 5, 1)
            self.ask(order, lambda board, pool=pool: [one.key for one in board.head(pool, 5, 1)])
        self.ask(model.due("applied", self.now), lambda board: board.due_windows(at(self.now), 99))
        self.ask(model.due("waiting", self.now), lambda board: board.due_waits(at(self.now), 99))
        for tenant in ("acme", "bolt", "ab"):
            expected = [
                (one["key"], one["state"], one["lowered"], len(one["bids"]), one["worker"])
                for one in sorted(model.of(tenant), key=lambda one: "/".join(one["key"]))
            ]
            self.ask(expected, lambda board, tenant=tenant: stands(board, tenant))
        for worker in ("w1", "w2", "w3", "eu.w1", "w*"):
            held = model.holds(worker)
            expected = None if held is None else (held["key"], held["state"], at(held["until"]))
            self.ask(expected, lambda board, worker=worker: holding(board, worker))
        holders = [
            name for one in model.jobs.values() for name in (*one["bids"], one["worker"]) if name
        ]
        assert len(holders) == len(set(holders))

    def teardown(self):
        """Lower every job, without applicants, until it is off the board."""
        for _ in range(2 * OUT):
            self.now += 200
            self.lapse(1)
            for worker in ("w1", "w2", "w3", "eu.w1", "w*"):
                self.retract(worker, 1)
            self.now += 10
            self.lower_what_nobody_applied_for(1, twice=False)
        assert self.model.jobs == {}
        for board in self.boards:
            assert board.head("main", 10) == board.head("eu", 10) == []


def stands(board, tenant):
    return [
        (one.listing.key, one.state, one.listing.lowered, one.applications, one.worker)
        for one in board.stands(tenant, None, None, 50)
    ]


def holding(board, worker):
    found = board.held(worker)
    return None if found is None else (found.listing.key, found.state, found.until)


@pytest.mark.hypothesis
@pytest.mark.parametrize(("where", "weight"), [("redis", 0.4), ("cluster", 0.15)])
def test_memory_and_redis_keep_what_the_model_keeps(request, tenant, where, weight):
    connection = request.getfixturevalue(f"{where}_connection")
    fleets = count()

    def machine():
        fleet = f"{tenant}-{next(fleets)}"
        return BoardMachine([MemoryBoard(), RedisBoard(connection, fleet=fleet)])

    run_state_machine_as_test(
        machine,
        settings=examples(weight, steps=40),
    )
