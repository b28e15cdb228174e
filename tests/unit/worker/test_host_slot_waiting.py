"""A worker takes what has a turn at its host, and puts the rest aside until it has one."""

import asyncio
from datetime import timedelta

from msgspec.structs import replace

from tests.kit.politeness import reason
from tests.kit.requests import State
from tests.kit.worker import NOTHING, Worker
from tests.kit.worlds.doubles import Broken, Failing
from tests.kit.worlds.memory import DOCS, OTHER, make_tree
from tests.kit.worlds.worker import (
    ROBOTS,
    URLS,
    Parts,
    Spy,
    Web,
    depth,
    idle,
    leave_alone,
    obedient,
    polite,
    state_of,
    submitted,
    tracked,
    while_time_passes,
    work,
)

CALM = {"https://b.example/1": b"x"}


def test_a_request_without_a_slot_is_deferred_with_the_reason_and_counts_no_attempt(world):
    polite(world, per_second=1, concurrency=50)
    ids = submitted(world, *URLS)

    taken = Parts(world).leases.take()

    assert [one.claim.request.id for one in taken.leased] == ids[:3]
    assert taken.entries == 4
    assert [round(one.interval_seconds, 3) for one in taken.leased] == [1.0, 1.0, 1.0]
    assert depth(world) == (1, 1, 3)
    aside = tracked(world, ids[3])
    assert (aside.state, aside.attempts) == (State.PENDING, 0)
    assert aside.timeline[-1].why == reason("rate")


def test_requests_of_a_host_that_is_anothers_are_left_to_its_worker_which_has_them_at_once(world):
    polite(world, per_second=1, concurrency=50)
    ids = submitted(world, *URLS)
    for name in ("a", "b"):
        world.workers.beat(name, world.now)
    workers = {name: Parts(world, name=name) for name in ("a", "b")}
    for parts in workers.values():
        parts.leases.affinity.refresh(world.now)
    [owner] = [n for n, p in workers.items() if not p.leases.affinity.is_left(DOCS, "a.example", 9)]
    [other] = set(workers) - {owner}

    assert workers[other].leases.take() == ([], 4)
    assert depth(world) == (4, 4, 0)
    assert {tracked(world, an_id).timeline[-1].why for an_id in ids} == {reason("owner")}

    taken = workers[owner].leases.take()
    assert [one.claim.request.id for one in taken.leased] == ids[:3]


def test_a_host_in_back_off_puts_requests_aside_and_they_come_back_later_in_order(world):
    polite(world, per_second=1_000, concurrency=1)
    ids = submitted(world, *URLS, *CALM)
    leave_alone(world, "a.example", 60)
    pages = dict.fromkeys(URLS, b"x") | CALM

    report = work(world, pages)

    assert (report.done, report.deferred, report.stopped_because) == (1, 4, "idle")
    assert [state_of(world, an_id) for an_id in ids] == [State.PENDING] * 4 + [State.DONE]
    assert depth(world) == (4, 4, 0)

    world.now += timedelta(seconds=45)
    assert work(world, pages).leased == 0

    world.now += timedelta(seconds=10)
    ports = world.work(pages)
    asyncio.run(while_time_passes(world, Worker(ports, "w").run()))
    assert [body.url for body in ports.fetcher.asked] == URLS
    assert {state_of(world, an_id) for an_id in ids} == {State.DONE}
    assert depth(world) == (0, 0, 0)
    assert world.ledger().done == 5
    assert idle(world)


def test_two_tenants_are_deferred_and_served_each_in_its_own_queue(world):
    polite(world, per_second=1_000)
    mine = submitted(world, *URLS)
    theirs = submitted(world, *URLS, tenant="acme")
    leave_alone(world, "a.example", 60)

    assert work(world, {}).deferred == 8
    assert depth(world) == depth(world, OTHER) == (4, 4, 0)

    world.now += timedelta(seconds=61)
    pages = dict.fromkeys(URLS, b"x")
    while depth(world)[0] or depth(world, OTHER)[0]:
        work(world, pages)
        world.now += timedelta(seconds=5)

    assert {state_of(world, an_id) for an_id in mine} == {State.DONE}
    assert {state_of(world, an_id, OTHER) for an_id in theirs} == {State.DONE}
    assert idle(world)


def test_only_as_many_requests_are_taken_from_due_hosts_as_get_slots(world):
    polite(world, per_second=1, concurrency=50)
    ids = submitted(world, *URLS)
    leave_alone(world, "a.example", 60)
    assert Parts(world).leases.take().leased == []
    assert depth(world) == (4, 4, 0)

    world.now += timedelta(seconds=61)
    taken = Parts(world).leases.take()

    assert [one.claim.request.id for one in taken.leased] == ids[:3]
    assert all(one.slot_at is not None for one in taken.leased)
    assert depth(world) == (1, 1, 3)


def test_due_hosts_without_a_slot_after_all_are_asked_again_later(world):
    polite(world, per_second=1_000)
    submitted(world, *URLS)
    leave_alone(world, "a.example", 60)
    Parts(world).leases.take()
    world.now += timedelta(seconds=61)
    leave_alone(world, "a.example", 300)

    taken = Parts(world).leases.take()

    assert (taken.leased, depth(world)) == ([], (4, 4, 0))
    assert world.queue.deferred(DOCS, world.now + timedelta(seconds=299), 9) == []
    assert world.queue.deferred(DOCS, world.now + timedelta(seconds=300), 9)


def test_what_was_deferred_and_what_is_queued_come_in_one_batch_of_bounded_size(world):
    polite(world, per_second=1_000)
    world.tree = replace(
        world.tree, stage=replace(world.tree.stage, fleet=make_tree(batch=3).stage.fleet)
    )
    first = submitted(world, *URLS[:2])
    leave_alone(world, "a.example", 60)
    Parts(world).leases.take()
    world.now += timedelta(seconds=61)
    second = submitted(world, *(f"https://b.example/{n}" for n in range(4)))

    taken = Parts(world).leases.take()

    ids = [leased.claim.request.id for leased in taken.leased]
    assert taken.entries == 3
    assert ids == [*first, second[0]]


def test_a_host_spelled_otherwise_in_the_index_does_not_wait_for_ever(world):
    """Its requests are admitted by the host that they really are of."""
    polite(world, per_second=1_000)
    [an_id] = submitted(world, URLS[0])
    now = world.now
    entries = world.queue.lease(DOCS, "t:1", 1, now, now + timedelta(seconds=9))
    world.queue.defer(DOCS, "t:1", [("A.EXAMPLE", now, entries)])

    taken = Parts(world).leases.take()

    assert [one.claim.request.id for one in taken.leased] == [an_id]
    assert taken.leased[0].slot_at is not None


def test_an_entry_whose_request_is_over_is_dropped_from_the_list_of_its_host(world):
    polite(world, per_second=1_000)
    submitted(world, URLS[0])
    now = world.now
    entries = world.queue.lease(DOCS, "t:1", 1, now, now + timedelta(seconds=9))
    world.queue.defer(DOCS, "t:1", [("a.example", now, entries)])
    gone = Failing(world.store)
    gone.claim = lambda *_: []
    gone.due = lambda *_: []

    taken = Parts(world, store=gone).leases.take()

    assert (taken.leased, taken.entries) == ([], 1)
    assert depth(world) == (0, 0, 0)


def test_a_stage_without_any_queue_has_nothing_to_take(world):
    world.tree = replace(world.tree, bizs={})

    assert Parts(world).leases.take() == NOTHING


def test_a_batch_that_is_full_of_what_was_deferred_takes_nothing_of_the_queue(world):
    polite(world, per_second=1_000)
    submitted(world, *URLS, "https://a.example/4")
    leave_alone(world, "a.example", 60)
    assert Parts(world).leases.take().leased == []
    world.now += timedelta(seconds=120)
    submitted(world, "https://b.example/1")
    limits = replace(world.tree.stage.fleet, batch=1)
    world.tree = replace(world.tree, stage=replace(world.tree.stage, fleet=limits))

    taken = Parts(world).leases.take()

    assert [one.host[0] for one in taken.leased] == ["a.example"]
    assert world.queue.depth(DOCS).queued == 5


def test_an_entry_that_another_took_in_between_is_not_waited_for(world):
    """The entry was counted as ready, and then leased by another worker."""
    submitted(world, URLS[0])
    queue = Failing(world.queue)
    queue.lease = lambda *_: []

    assert Parts(world, queue=queue).leases.take() == NOTHING


def test_many_requests_of_a_site_ask_for_its_robots_txt_once(world):
    obedient(world)
    urls = [f"https://a.example/{n}" for n in range(40)]
    submitted(world, *urls)
    submitted(world, *urls, tenant="acme")
    site = Web(dict.fromkeys(urls, b"x") | {ROBOTS: b"User-agent: *\nAllow: /\n"})

    report = work(world, fetcher=site)

    assert (report.done, report.dead) == (80, 0)
    assert site.times(ROBOTS) == 1


def test_the_fleet_is_reported_of_what_was_seen_and_that_nothing_is_under_way_any_more(world):
    polite(world, per_second=1_000, concurrency=100)
    submitted(world, *URLS)
    hosts = Spy(world.hosts)

    work(world, dict.fromkeys(URLS, b"x"), hosts=hosts)

    reports = [one for args in hosts.of("report") for one in args[0]]
    assert sum(one.answered for one in reports) == 4
    assert reports[-1].running == 0
    assert idle(world)


def test_entries_of_cancelled_requests_spend_no_slots_of_their_host(world):
    polite(world, per_second=1, concurrency=50)
    many = [f"https://a.example/cancelled/{number}" for number in range(2_000)]
    submitted(world, *many, job="big")
    leave_alone(world, "a.example", 60)
    while Parts(world).leases.take().entries:
        pass
    later = submitted(world, *URLS)
    Parts(world).leases.take()
    assert depth(world) == (2_004, 2_004, 0)
    world.store.cancel_job(DOCS, world.biz, "big", 2_000, "a caller", world.now)

    world.now += timedelta(seconds=61)
    taken = Parts(world).leases.take()

    slots = [one for one in taken.leased if one.slot_at is not None]
    assert [one.claim.request.id for one in slots] == later[:3]
    assert depth(world) == (1, 1, 3)
    assert tracked(world, later[3]).state == State.PENDING


def test_what_was_claimed_is_kept_when_what_follows_cancelled_requests_cannot_be_leased(world):
    polite(world, per_second=1, concurrency=50)
    ids = submitted(world, URLS[0])
    submitted(world, *URLS[1:3], job="big")
    ids += submitted(world, URLS[3])
    leave_alone(world, "a.example", 60)
    Parts(world).leases.take()
    world.store.cancel_job(DOCS, world.biz, "big", 10, "a caller", world.now)
    world.now += timedelta(seconds=61)

    class FailingAfterOne:
        calls = 0

        def lease_deferred(self, *args):
            self.calls += 1
            return (Broken() if self.calls > 1 else world.queue).lease_deferred(*args)

        def __getattr__(self, name):
            return getattr(world.queue, name)

    queue = FailingAfterOne()
    taken = Parts(world, queue=queue).leases.take()

    assert queue.calls == 2
    assert [one.claim.request.id for one in taken.leased] == ids[:1]
    assert depth(world) == (1, 1, 1)
