"""No request is stuck or lost when its host slot or its site's rules cannot be had."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.config import RecrawlPolicy, Robots
from tests.kit.kernel import StoreUnavailableError, to_ms
from tests.kit.politeness import RobotsCopy
from tests.kit.requests import State
from tests.kit.worker import NOTHING, PAUSES
from tests.kit.worlds.doubles import Broken, Failing
from tests.kit.worlds.memory import DOCS, make_tree
from tests.kit.worlds.worker import (
    ROBOTS,
    URLS,
    Parts,
    Web,
    depth,
    idle,
    leave_alone,
    obedient,
    polite,
    state_of,
    submitted,
    tracked,
    work,
)


def test_leases_are_returned_while_slots_are_unknown(world):
    ids = submitted(world, *URLS)
    mine = Parts(world, hosts=Broken(), pauses=PAUSES).leases

    with pytest.raises(StoreUnavailableError):
        mine.take()

    assert depth(world) == (4, 0, 0)
    found = tracked(world, ids[0])
    assert (found.state, found.attempts) == (State.PENDING, 0)
    assert "handed back" in found.timeline[-1].why
    assert mine.is_backing_off(DOCS)
    assert mine.take() == NOTHING


def test_work_whose_site_is_not_known_yet_is_handed_back_with_the_rest(world):
    obedient(world)
    hosts = Failing(world.hosts)
    mine = Parts(world, {ROBOTS: b""}, hosts=hosts)
    asyncio.run(mine.robots.learn(mine.holds(URLS[0])))
    submitted(world, *URLS[1:3], "https://b.example/1")
    hosts.left["reserve"] = 1

    with pytest.raises(StoreUnavailableError):
        mine.leases.take()

    assert depth(world)[0] == 3


def test_what_was_deferred_and_is_taken_is_not_lost_when_the_queue_fails_after_it(world):
    polite(world, per_second=1_000)
    [an_id] = submitted(world, URLS[0])
    leave_alone(world, "a.example", 60)
    Parts(world).leases.take()
    world.now += timedelta(seconds=61)
    mine = Parts(world, queue=Failing(world.queue, lease=1), pauses=PAUSES).leases

    taken = mine.take()

    assert [one.claim.request.id for one in taken.leased] == [an_id]
    assert mine.is_backing_off(DOCS)
    [warning] = world.warnings
    assert "lease: no answer" in warning


def test_a_request_with_a_host_slot_is_handed_back_when_one_without_cannot_be_admitted(world):
    polite(world, per_second=1_000)
    submitted(world, URLS[0], "https://b.example/1")
    now = world.now
    here, there = world.queue.lease(DOCS, "t:1", 2, now, now + timedelta(seconds=9))
    world.queue.defer(DOCS, "t:1", [("a.example", now, [here]), ("B.EXAMPLE", now, [there])])

    class Once(Failing):
        asked = 0

        def reserve(self, *args):
            self.asked += 1
            return (Broken() if self.asked > 1 else world.hosts).reserve(*args)

    with pytest.raises(StoreUnavailableError):
        Parts(world, hosts=Once(None)).leases.take()

    assert depth(world) == (2, 0, 0)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("hosts", StoreUnavailableError),
        ("store", StoreUnavailableError),
        ("robots", ValueError),
        ("cache", ValueError),
    ],
)
def test_whatever_fails_while_a_site_is_learnt_no_request_is_stuck(world, fault, error):
    """The worker goes on, holds nothing in the end, and others may do what is left."""
    obedient(world)
    submitted(world, *URLS)
    pages: dict[str, object] = dict.fromkeys(URLS, b"x")
    pages[ROBOTS] = b"User-agent: *\nAllow: /\n"
    ports: dict[str, object] = {}
    if fault == "hosts":
        ports["hosts"] = Failing(world.hosts, reserve=2)
    elif fault == "store":  # what is to be deferred cannot be, and cannot be handed back either
        polite(world, Robots.OBEY, per_second=1, concurrency=50)
        known = RobotsCopy(status=404, fetched_ms=to_ms(world.now))
        world.robots.save("https://a.example", known, 3_600, "default")
        ports["store"] = Failing(world.store, release=2)
    elif fault == "robots":
        pages[ROBOTS] = ValueError("not foreseen")
        ports["fetcher"] = Web(pages)
    else:

        class Cursed:
            def load(self, origin):
                raise ValueError("not foreseen")

        ports["robots"] = Cursed()

    report = work(world, pages, **ports)

    assert report.stopped_because == "idle"
    assert report.done == (4 if fault == "hosts" else 0)
    ledger = world.ledger()
    assert ledger.done + ledger.dead + ledger.pending + ledger.leased + ledger.waiting == 4
    assert {name for name, _ in world.warned.errors} == {error.__name__}


def test_requests_whose_rule_cannot_be_looked_up_are_handed_back(world):
    ids = submitted(world, *URLS)

    with pytest.raises(StoreUnavailableError):
        Parts(world, rules=Broken()).leases.take()

    assert depth(world) == (4, 0, 0)
    assert "rule" in tracked(world, ids[0]).timeline[-1].why


@pytest.mark.parametrize("part", ["claim", "due", "finish"])
def test_entries_that_cannot_be_claimed_or_let_go_keep_nobody_waiting(world, part):
    """They are handed back, or their leases in the index end."""
    submitted(world, *URLS)
    store, queue = Failing(world.store, **{part: 1}), Failing(world.queue, **{part: 1})
    if part != "claim":
        store.claim = lambda *_: []
    mine = Parts(world, store=store, queue=queue).leases

    if part == "claim":
        with pytest.raises(StoreUnavailableError):
            mine.take()
        assert depth(world) == (4, 0, 0)
    else:
        assert mine.take().leased == []
        [warning] = world.warnings
        assert f"{part}: no answer" in warning


def test_a_site_that_nobody_may_ask_now_is_left_for_later_and_costs_no_attempt(world):
    """The site asked for fewer requests, and that for its robots.txt is one of them."""
    polite(world, Robots.OBEY, per_second=1_000)
    ids = submitted(world, *URLS)
    leave_alone(world, "a.example", 3_600)
    pages: dict[str, object] = dict.fromkeys(URLS, b"x")
    pages[ROBOTS] = b"User-agent: *\nDisallow: /3\n"

    report = work(world, pages)

    assert (report.deferred, report.retried, report.dead) == (4, 0, 0)
    assert [tracked(world, an_id).attempts for an_id in ids] == [0] * 4

    world.now += timedelta(seconds=3_601)
    while depth(world)[0]:
        work(world, pages)
        world.now += timedelta(seconds=10)
    assert [state_of(world, an_id) for an_id in ids] == [State.DONE] * 3 + [State.DEAD]


def test_requests_whose_robots_are_read_while_the_worker_ends_are_returned(world):
    obedient(world)
    ids = submitted(world, *URLS)
    seconds, asked = [600.0], asyncio.Event()

    class Silent(Web):
        async def fetch(self, *args):
            asked.set()
            seconds[:] = [0.0]
            await asyncio.Event().wait()

    report = work(world, fetcher=Silent({}), remaining=lambda: seconds[0])

    assert asked.is_set()
    assert (report.stopped_because, report.handed_back) == ("time", 4)
    assert {state_of(world, an_id) for an_id in ids} == {State.PENDING}
    assert depth(world) == (4, 0, 0)
    assert idle(world)


def test_a_page_counts_as_done_though_what_was_seen_of_it_cannot_be_kept(world):
    """The page is read in full next time."""
    world.tree = make_tree(replace(world.biz, recrawl=RecrawlPolicy()))
    submitted(world, URLS[0])

    report = work(world, {URLS[0]: b"x"}, visits=Failing(world.visits, saw=1))

    assert (report.done, report.dead) == (1, 0)
    [warning] = world.warnings
    assert "saw: no answer" in warning
