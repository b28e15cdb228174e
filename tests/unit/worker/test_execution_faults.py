"""Unforeseen errors: no exception of any part stops a worker or is retried for ever."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.config import DetectorLimits
from tests.kit.fetching import NO_FETCH_CONTEXT
from tests.kit.kernel import NoProxyError, NoSecretError, StoreUnavailableError, to_ms
from tests.kit.requests import CUT_OFF, CUT_OFFS, Entry, State
from tests.kit.warned import named
from tests.kit.worker import Worker
from tests.kit.worlds.doubles import Failing, Titles
from tests.kit.worlds.memory import DOCS, OTHER, START
from tests.kit.worlds.worker import submitted, tracked, until, work
from tests.waiting import eventually


class Raising:
    """A port of which the named method raises, for as long as ``when`` says so of its arguments."""

    def __init__(self, port, method, error, when=lambda *_: True):
        self._port, self._method, self._error, self._when = port, method, error, when

    def __getattr__(self, name):
        method = getattr(self._port, name)
        if name != self._method:
            return method

        def call(*args, **kwargs):
            if self._when(*args):
                raise self._error
            return method(*args, **kwargs)

        return call


def times(count):
    left = [count]

    def when(*_):
        left[0] -= 1
        return left[0] >= 0

    return when


URLS = [f"https://example.org/{n}" for n in range(20)]
PAGES = dict.fromkeys(URLS, b"x")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("odd"),
        MemoryError(),
        RecursionError("too deep"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        KeyError("x"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("port", ["fetcher", "extractor"])
def test_an_error_nobody_foresaw_is_a_dead_letter_and_the_worker_goes_on(world, port, error):
    ids = submitted(world, *URLS)

    class Fetcher:
        async def fetch(self, body, limits, hop_guard=None, fetch_context=NO_FETCH_CONTEXT):
            if body.url in URLS[:10]:
                raise error
            return await world.work(PAGES).fetcher.fetch(body, limits, hop_guard, fetch_context)

    class Extractor(Titles):
        def harvest(self, rule, page, depth=0, meta=None):
            if page.url in URLS[:10]:
                raise error
            return super().harvest(rule, page, depth, meta)

    faulty = {"fetcher": Fetcher()} if port == "fetcher" else {"extractor": Extractor()}

    report = work(world, PAGES, **faulty)

    assert (report.dead, report.done, report.stopped_because) == (10, 10, "idle")
    assert type(error).__name__ in tracked(world, ids[0]).error
    assert world.warned.errors == [named(error)] * 10


def test_outcomes_that_break_the_store_are_dead_lettered_alone(world):
    ids = submitted(world, *URLS)

    def has_poison(queue_key, biz, outcomes, *_):
        return any(
            claim.request.id == ids[3] and getattr(outcome, "records", ())
            for claim, outcome in outcomes
        )

    store = Raising(world.store, "settle", TypeError("cannot be encoded"), has_poison)

    report = work(world, PAGES, store=store)

    assert (report.dead, report.done, report.stopped_because) == (1, 19, "idle")
    assert "cannot be encoded" in tracked(world, ids[3]).error


def test_a_dead_letter_that_breaks_the_store_is_left_to_its_lease(world):
    ids = submitted(world, *URLS[:3])

    def has_poison(queue_key, biz, outcomes, *_):
        return any(claim.request.id == ids[1] for claim, _ in outcomes)

    store = Raising(world.store, "settle", TypeError("cannot be encoded"), has_poison)

    report = work(world, PAGES, store=store)

    assert (report.dead, report.done, report.stopped_because) == (0, 2, "idle")
    assert tracked(world, ids[1]).state == State.LEASED


@pytest.mark.parametrize(
    ("port", "method"),
    [
        ("workers", "beat"),
        ("workers", "leave"),
        ("queue", "loads"),
        ("queue", "lease"),
        ("queue", "add_phases"),
        ("queue", "finish"),
        ("store", "claim"),
        ("rules", "get_version"),
    ],
)
def test_a_call_that_fails_in_a_way_nobody_foresaw_is_made_again(world, port, method):
    ids = submitted(world, *URLS)
    faulty = Raising(getattr(world, port), method, LookupError("odd"), times(2))

    report = work(world, PAGES, **{port: faulty})

    assert (report.done, report.stopped_because) == (20, "idle")
    assert {tracked(world, an_id).attempts for an_id in ids} == {1}


def beating(world, seconds):
    limits = DetectorLimits(beat_seconds=seconds)
    return replace(world.tree, stage=replace(world.tree.stage, detector=limits))


def test_the_heartbeat_outlives_what_it_did_not_foresee(world):
    world.tree = beating(world, 0.001)
    beats = []

    class Workers:
        def beat(self, worker, now, worker_status):
            beats.append(worker)
            raise ValueError("odd")

        def __getattr__(self, name):
            return getattr(world.workers, name)

    submitted(world, *URLS[:2])

    class Patient:
        async def fetch(self, body, limits, hop_guard=None, fetch_context=NO_FETCH_CONTEXT):
            await until(lambda: len(beats) >= 5)
            return await world.work(PAGES).fetcher.fetch(body, limits, hop_guard, fetch_context)

    assert work(world, workers=Workers(), fetcher=Patient()).done == 2


def test_requests_whose_rule_cannot_be_read_now_go_back_without_an_attempt(world):
    ids = submitted(world, *URLS[:3])
    rules = Failing(world.rules, frozen=1)

    report = work(world, PAGES, rules=rules)

    assert report.done == 3
    assert {tracked(world, an_id).attempts for an_id in ids} == {1}


def test_a_request_whose_worker_dies_each_time_is_given_up(world):
    [an_id] = submitted(world, URLS[0])
    entry = Entry(an_id, "docs", to_ms(START))
    most = world.biz.retry.max_attempts + CUT_OFFS
    for attempt in range(most):  # leased, claimed, and never heard of again
        until = world.now + timedelta(seconds=60)
        world.queue.lease(DOCS, f"dead.{attempt}", 5, world.now, until)
        [claim] = world.store.claim(
            DOCS, world.biz, [entry], "dead", world.now, until, f"dead.{attempt}"
        )
        assert claim.attempt == attempt + 1
        world.now = until + timedelta(seconds=1)

    report = work(world, {})

    assert (report.dead, tracked(world, an_id).state) == (1, State.DEAD)
    assert tracked(world, an_id).reason == CUT_OFF


def test_two_runs_of_one_invocation_do_not_share_leases(world):
    submitted(world, *URLS[:2])
    tokens = set()

    def remember(queue_key, token, *_):
        tokens.add(token)
        return False

    for _ in range(2):  # Lambda repeats an invocation under its id
        work(world, {}, "same", queue=Raising(world.queue, "lease", ValueError(), remember))
        submitted(world, *URLS[2:4])

    assert len(tokens) == 2


def test_a_worker_that_slept_through_its_lease_goes_on_with_the_page_it_was_at(world):
    [an_id] = submitted(world, URLS[0])
    asked = []

    class Fetcher:
        async def fetch(self, body, limits, hop_guard=None, fetch_context=NO_FETCH_CONTEXT):
            asked.append(body.url)
            world.now += timedelta(minutes=10)  # stopped, and gone on later
            await until(lambda: tracked(world, an_id).attempts == 2)
            return await world.work(PAGES).fetcher.fetch(body, limits, hop_guard, fetch_context)

    report = work(world, PAGES, fetcher=Fetcher())

    assert (asked, report.done, report.lost) == ([URLS[0]], 1, 0)
    assert tracked(world, an_id).state == State.DONE
    assert world.queue.depth(DOCS).leased == 0


def test_an_outcome_that_was_claimed_anew_while_it_was_written_is_written_again(world):
    [an_id] = submitted(world, URLS[0])
    attempts = []

    def claimed_anew(queue_key, biz, outcomes, *_):
        attempts.append(outcomes[0][0].attempt)
        if len(attempts) == 1:
            world.now += timedelta(minutes=10)
            eventually(lambda: tracked(world, an_id).attempts == 2)
        return False

    store = Raising(world.store, "settle", ValueError(), claimed_anew)

    report = work(world, PAGES, store=store)

    assert (report.done, report.lost, attempts) == (1, 0, [1, 2])
    assert tracked(world, an_id).state == State.DONE


def test_a_queue_whose_node_is_away_does_not_hold_up_the_others(world):
    world.pace(rest=60.0)
    submitted(world, URLS[0], tenant="acme")
    submitted(world, *URLS)  # four batches
    down = Raising(
        world.store,
        "claim",
        StoreUnavailableError("x", "away"),
        lambda queue_key, *_: queue_key == OTHER,
    )
    left = [600.0]

    async def run():
        ports = world.work(PAGES, store=down, remaining=lambda: left[0])
        running = asyncio.create_task(Worker(ports, "w").run())
        await until(lambda: world.ledger().done == len(URLS))
        tried = len(world.warnings)
        left[0] = 0.0
        await running
        return tried

    assert asyncio.run(run()) == 1


def test_an_entry_that_is_anothers_comes_back_when_the_lease_of_that_one_ends(world):
    """The index handed it out too early; that other worker may be dead, and the entry the last."""
    [an_id] = submitted(world, URLS[0])
    until = world.now + timedelta(seconds=60)
    entry = Entry(an_id, "docs", to_ms(world.now))
    world.store.claim(DOCS, world.biz, [entry], "other", world.now, until, "other.aa.1")

    assert work(world, PAGES).done == 0
    depth = world.queue.depth(DOCS)
    assert (depth.queued, depth.leased, depth.delayed) == (0, 0, 1)

    world.now = until
    assert work(world, PAGES).done == 1


def test_without_its_secret_a_request_waits_and_no_attempt_counts(world):
    ids = submitted(world, URLS[0])
    fault = NoSecretError("the secret 'token' of tenant 'acme' cannot be read", again_seconds=15.0)

    for _ in range(world.biz.retry.max_attempts + 1):
        report = work(world, {URLS[0]: fault})
        found = tracked(world, ids[0])
        assert (report.dead, report.deferred, found.attempts) == (0, 1, 0)
        assert "'token' of tenant 'acme'" in found.timeline[-1].why
        world.now += timedelta(seconds=15)

    assert work(world, PAGES).done == 1


def test_without_proxies_requests_wait_no_attempt_counts_and_the_timeline_says_why(world):
    ids = submitted(world, URLS[0])
    fault = NoProxyError("the pool of proxies 'eu' has none: the secret 's'", again_seconds=15.0)

    for _ in range(world.biz.retry.max_attempts + 1):
        report = work(world, {URLS[0]: fault})
        assert (report.dead, report.deferred) == (0, 1)
        found = tracked(world, ids[0])
        assert (found.state, found.attempts) == (State.PENDING, 0)
        assert "'eu'" in found.timeline[-1].why
        world.now += timedelta(seconds=15)

    report = work(world, PAGES)
    assert (report.done, tracked(world, ids[0]).state) == (1, State.DONE)
