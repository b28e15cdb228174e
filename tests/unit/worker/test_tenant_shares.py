"""A worker's time is divided between tenants, however many bizs and however slow sites one has."""

import asyncio
import time
from collections import Counter
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from tests.fakes.fetching import MemoryFetcher
from tests.kit.config import Tenant
from tests.kit.kernel import FairParts, QueueKey
from tests.kit.politeness import LocalScheduler
from tests.kit.requests import Done, Submission
from tests.kit.worker import (
    HEAVY_BYTES,
    InFlight,
    SteadyTime,
    TenantShares,
    TenantSlots,
    Worker,
    store_cost,
)
from tests.kit.worlds.memory import World, make_biz, make_tree
from tests.kit.worlds.worker import Parts, until

BATCH = 8
MANY = [f"biz{n}" for n in range(20)]


def divided(world: World, shares: dict[str, int] | None = None, **fleet: object) -> None:
    """The world in which ``greedy`` has twenty bizs and ``small`` has one."""
    tree = make_tree(**({"batch": BATCH} | fleet))
    bizs = {"greedy": dict.fromkeys(MANY, make_biz()), "small": {"docs": make_biz()}}
    tenants = {one: Tenant(share=(shares or {}).get(one, 1)) for one in bizs}
    world.tree = replace(tree, bizs=bizs, tenants=tenants)


def submit(world: World, tenant: str, biz: str, count: int) -> None:
    pages = [Submission(url=f"https://{tenant}.example/{biz}/{n}") for n in range(count)]
    world.submission().submit(world.tree, tenant, biz, pages, world.now)


def flood(world: World, each: int = 10 * BATCH, small: int = 20 * BATCH) -> None:
    for biz in MANY:
        submit(world, "greedy", biz, each)
    submit(world, "small", "docs", small)


class Stand:
    """One worker's leases, each of whose requests runs for so long, by a clock of its own."""

    def __init__(self, world: World, seconds: dict[str, float]) -> None:
        self.now, self.seconds = [0.0], seconds
        self.parts = Parts(world, steady=SteadyTime(lambda: self.now[0]))
        self.had: Counter[str] = Counter()
        self.took: Counter[str] = Counter()

    def take(self) -> str:
        """Lease a batch and do it, one request after another."""
        [*leased] = self.parts.leases.take().leased
        tenant, shares = leased[0].queue_key.tenant, self.parts.session.shares
        for _ in leased:
            shares.began(tenant)
            self.now[0] += self.seconds[tenant]
            shares.ended(tenant, self.seconds[tenant])
        self.had[tenant] += len(leased)
        self.took[tenant] += len(leased) * self.seconds[tenant]
        return tenant


def test_a_tenant_with_twenty_bizs_has_one_share(world):
    divided(world)
    flood(world)
    stand = Stand(world, {"greedy": 0.1, "small": 0.1})

    for _ in range(20):
        stand.take()

    assert abs(stand.had["greedy"] - stand.had["small"]) <= BATCH


def test_bizs_of_a_tenant_take_turns_within_its_share(world):
    divided(world)
    flood(world)
    leases, served = Parts(world).leases, Counter()

    for _ in range(60):
        served.update(one.queue_key.biz for one in leases.take().leased[:1])

    assert min(served[biz] for biz in MANY) >= 1


@pytest.mark.parametrize("share", [1, 3])
def test_shares_are_of_time_so_slow_sites_are_no_loophole(world, share):
    """Of requests the one with slow sites has as many fewer as each takes longer."""
    divided(world, {"small": share})
    flood(world, small=60 * BATCH)
    stand = Stand(world, {"greedy": 1.0, "small": 0.1})

    for _ in range(40):
        stand.take()

    dearest = BATCH * (1.0 + 0.1 / share)
    assert abs(stand.took["greedy"] - stand.took["small"] / share) <= dearest


def test_a_share_that_is_changed_holds_from_the_next_lease_on(world):
    divided(world)
    flood(world, small=60 * BATCH)
    stand = Stand(world, {"greedy": 0.1, "small": 0.1})
    for _ in range(4):
        stand.take()
    divided(world, {"small": 4})
    before = stand.had.copy()

    for _ in range(20):
        stand.take()

    more = stand.had - before
    assert abs(more["small"] - 4 * more["greedy"]) <= 5 * BATCH


def test_nobody_waits_while_others_have_nothing(world):
    divided(world, {"greedy": 1, "small": 100})
    for biz in MANY:
        submit(world, "greedy", biz, BATCH)
    leases = Parts(world).leases

    assert sum(len(leases.take().leased) for _ in MANY) == len(MANY) * BATCH


def test_who_was_idle_has_saved_nothing_up(world):
    divided(world)
    for biz in MANY:
        submit(world, "greedy", biz, 10 * BATCH)
    stand = Stand(world, {"greedy": 0.1, "small": 0.1})
    for _ in range(30):
        stand.take()
    submit(world, "small", "docs", 20 * BATCH)
    before = stand.had["greedy"]

    for _ in range(10):
        stand.take()

    assert abs(stand.had["small"] - (stand.had["greedy"] - before)) <= 2 * BATCH


def test_what_runs_counts_before_it_has_ended():
    """Else a site that answers after half a minute would have all runners until then."""
    now = [0.0]
    shares, tree = TenantShares(SteadyTime(lambda: now[0])), make_tree()
    shares.runners = 4
    assert shares.order(tree, ["acme", "default"], {}) == ["acme", "default"]
    shares.began("acme")
    now[0] += 10.0

    assert shares.order(tree, ["acme", "default"], {"acme": 1}) == ["default", "acme"]
    assert shares.first(["acme", "default"]) == "default"


@pytest.mark.parametrize("phase", ["lease", "claim", "turn", "extract"])
def test_what_holds_up_all_others_counts(phase):
    """Leasing and reading are done one after another, whoever it is for."""
    shares, tree = TenantShares(SteadyTime(lambda: 0.0)), make_tree()
    shares.order(tree, ["acme", "default"], {})

    shares.spend(QueueKey("acme", "docs", "main"), phase, 1.0)

    assert shares.order(tree, ["acme", "default"], {}) == ["default", "acme"]


def test_memory_for_what_is_to_be_written_counts_by_bytes_and_seconds(world):
    """Giant records take it from others, however few requests they are of."""
    now = [0.0]
    shares, tree = TenantShares(SteadyTime(lambda: now[0])), make_tree()
    shares.order(tree, ["acme", "default"], {})
    shares.holds("acme", HEAVY_BYTES // 2)
    now[0] += 4.0
    shares.holds("acme", -HEAVY_BYTES // 2)
    now[0] += 60.0
    shares.charge("default", 1.9)
    assert shares.order(tree, ["acme", "default"], {}) == ["default", "acme"]
    shares.charge("default", 0.2)
    assert shares.order(tree, ["acme", "default"], {}) == ["acme", "default"]


def test_outcomes_weigh_from_their_end_until_they_are_written(world):
    divided(world)
    flood(world)
    parts = Parts(world)
    held: Counter[str] = Counter()
    in_flight = InFlight(lambda tenant, change: held.update({tenant: change}))
    for one in parts.leases.take().leased:
        one.weight = 1_000
        in_flight.add(one)
        in_flight.end(one, Done(()))
    tenant = one.queue_key.tenant
    assert held == {tenant: 1_000 * BATCH}
    assert (in_flight.weight, in_flight.weight_of(tenant)) == (1_000 * BATCH,) * 2

    for one in in_flight.all():
        in_flight.drop(one)

    assert (in_flight.weight, held.total()) == (0, 0)


def test_storing_counts_by_what_it_takes_most_of_its_places_or_of_the_processor():
    """A page with a thousand links keeps the processor busy, and so everybody else."""
    assert store_cost(seconds=3.0, cpu_seconds=0.1) == 1.0
    assert store_cost(seconds=3.0, cpu_seconds=2.9) == 2.9


def test_a_tenant_is_charged_what_parsing_for_it_takes_of_the_processor(world):
    """The file for robots of a site may be made to be long."""
    session = Parts(world).session
    session.shares.order(world.tree, ["acme", "default"], {})

    def spin() -> str:
        began = time.thread_time()
        while time.thread_time() - began < 0.01:
            pass
        return "parsed"

    assert asyncio.run(session.parsed("acme", spin)) == "parsed"

    assert session.shares.order(world.tree, ["acme", "default"], {}) == ["default", "acme"]


class Rounds:
    """Rounds that make a task; how long each might have gone on."""

    def __init__(self) -> None:
        self.left: list[float] = []

    def advance(self, tree, by, clock, left, charge):
        self.left.append(left())
        charge("greedy", 1.0)
        return SimpleNamespace(tasks=1)


def test_beside_other_tenants_requests_tasks_of_jobs_are_made_for_less_time_and_charged(world):
    """That keeps the processor busy, which others have pages for."""
    divided(world)
    flood(world)
    rounds = Rounds()
    parts = Parts(world, advancing=rounds, steady=SteadyTime(lambda: 0.0))

    parts.background.advance()
    for _ in range(4):
        for one in parts.leases.take().leased:
            parts.session.in_flight.add(one)
    parts.background.advance()

    assert parts.session.in_flight.by_tenant().keys() == {"greedy", "small"}
    alone, beside = rounds.left
    assert (alone > 0, beside) == (True, alone / 4)
    assert parts.report.tasks == 2
    assert parts.session.shares.order(world.tree, ["greedy", "small"], {}) == ["small", "greedy"]


class Slots:
    """Three slots, and the order in which tenants had them."""

    def __init__(self, *, is_shared: bool = True, took: dict[str, float] | None = None) -> None:
        took = took or {}
        self.had: list[str] = []
        self._go = asyncio.Event()
        self._slots = TenantSlots(
            3, lambda ones: min(ones, key=lambda one: took.get(one, 0.0)), lambda: is_shared
        )

    def ask(self, tenant: str) -> asyncio.Task[None]:
        return asyncio.create_task(self._have(tenant))

    async def _have(self, tenant: str) -> None:
        async with self._slots.of(tenant):
            self.had.append(tenant)
            await self._go.wait()

    async def begun(self) -> list[str]:
        """Let everybody go on as far as they can; who has had a slot."""
        for _ in range(5):
            await asyncio.sleep(0)
        return self.had

    def leave(self) -> None:
        self._go.set()


def test_a_tenant_alone_has_all_slots():
    async def run():
        slots = Slots(is_shared=False)
        asked = [slots.ask("greedy") for _ in range(4)]
        begun = list(await slots.begun())
        slots.leave()
        await asyncio.gather(*asked)
        return begun

    assert asyncio.run(run()) == ["greedy"] * 3


def test_while_several_have_work_none_has_the_last_slot_and_who_comes_has_it_at_once():
    async def run():
        slots = Slots()
        asked = [slots.ask("greedy") for _ in range(9)]
        alone = list(await slots.begun())
        asked.append(slots.ask("small"))
        both = list(await slots.begun())
        slots.leave()
        await asyncio.gather(*asked)
        return alone, both, Counter(slots.had)

    alone, both, all_of_them = asyncio.run(run())
    assert alone == ["greedy"] * 2
    assert both == ["greedy", "greedy", "small"]
    assert all_of_them == {"greedy": 9, "small": 1}


def test_a_free_slot_goes_to_who_took_least_of_those_that_wait():
    async def run():
        slots = Slots(took={"greedy": 9.0, "mid": 5.0, "small": 1.0})
        first = [slots.ask(one) for one in ("mid", "mid", "small")]
        await slots.begun()
        waiting = [slots.ask(one) for one in ("greedy", "mid", "small")]
        await slots.begun()
        slots.leave()
        await asyncio.gather(*first, *waiting)
        return slots.had[3:]

    assert asyncio.run(run()) == ["small", "mid", "greedy"]


@pytest.mark.parametrize("place", [0, 1, 2], ids=["has one", "gets one", "waits"])
def test_who_is_cancelled_leaves_no_slot_behind(place):
    async def run():
        slots = Slots(is_shared=False)
        asked = [slots.ask("greedy") for _ in range(2)]
        await slots.begun()
        asked.append(slots.ask("greedy"))
        if place == 2:
            asked.append(slots.ask("small"))
            await slots.begun()
        asked.pop(0 if place == 0 else -1).cancel()
        await slots.begun()
        before = len(slots.had)
        room = [slots.ask("small") for _ in range(3)]
        begun = len(await slots.begun()) - before
        slots.leave()
        await asyncio.gather(*asked, *room)
        return begun

    assert asyncio.run(run()) == (0 if place == 2 else 1)


def test_what_is_leased_counts_by_what_requests_of_its_tenant_took(world):
    now = [0.0]
    shares, tree = TenantShares(SteadyTime(lambda: now[0])), make_tree()
    for tenant, seconds in (("acme", 9.0), ("default", 1.0)):
        for _ in range(60):
            shares.began(tenant)
            shares.ended(tenant, seconds)

    both = ["acme", "default"]
    assert shares.order(tree, both, {"acme": 1, "default": 8}) == ["default", "acme"]
    assert shares.order(tree, both, {"acme": 1, "default": 10}) == ["acme", "default"]


class Site(MemoryFetcher):
    """Sites of which those of some tenants answer when they are let go."""

    def __init__(self) -> None:
        super().__init__({})
        self.running: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.go = asyncio.Event()

    async def fetch(self, body, limits, hop_guard=None, fetch_context=None):
        tenant = fetch_context.queue_key.tenant
        self.answers[body.url] = b"page"
        self.running[tenant] += 1
        try:
            if tenant == "greedy":
                await self.go.wait()
            return await super().fetch(body, limits, hop_guard)
        finally:
            self.running[tenant] -= 1
            self.done[tenant] += 1


def test_who_comes_to_a_worker_that_another_has_filled_is_leased_its_part_at_once(world):
    """All that a worker has in flight waits for slow sites: of the next runner he is the first."""
    world.pace(poll=0.005)
    divided(world, concurrency=4, batch=BATCH)
    for biz in MANY:
        submit(world, "greedy", biz, BATCH)

    async def run():
        site = Site()
        worker = Worker(world.work({}, fetcher=site), "w")
        working = asyncio.create_task(worker.run())
        full = 4 + BATCH
        in_flight = worker._in_flight
        await until(lambda: in_flight.by_tenant()["greedy"] >= full)
        submit(world, "small", "docs", BATCH)
        await until(lambda: in_flight.by_tenant()["small"] == BATCH)
        assert site.done == {}
        site.go.set()
        await asyncio.wait_for(working, 60)
        return site.done

    assert asyncio.run(run()) == {"greedy": len(MANY) * BATCH, "small": BATCH}


def test_of_what_waits_for_a_runner_the_next_is_of_who_took_least(world):
    divided(world)
    flood(world)
    parts = Parts(world)
    leased = [one for _ in range(8) for one in parts.leases.take().leased]
    by_tenant = {
        tenant: [one for one in leased if one.queue_key.tenant == tenant]
        for tenant in ("greedy", "small")
    }
    took = {"greedy": 0, "small": 0}
    scheduler = LocalScheduler(first=lambda tenants: min(tenants, key=took.__getitem__))
    for one in (*by_tenant["greedy"][:BATCH], *by_tenant["small"][:2]):
        scheduler.add(one)
    assert scheduler.waiting() == {"greedy": BATCH, "small": 2}

    order = []
    for _ in range(6):
        order.append(scheduler.ready.get_nowait().queue_key.tenant)
        took[order[-1]] += 1

    assert order == ["greedy", "small", "greedy", "small", "greedy", "greedy"]


def test_with_parts_a_tenant_has_no_more_slots_than_its_part_while_others_want_theirs():
    async def run():
        go, had = asyncio.Event(), []
        slots = TenantSlots(
            4, min, lambda: True, lambda _: 1.0, FairParts(SteadyTime(lambda: 0.0).now)
        )

        async def have(tenant):
            async with slots.of(tenant):
                had.append(tenant)
                await go.wait()

        asked = [asyncio.create_task(have(one)) for one in ("small", "small", *("greedy",) * 5)]
        await until(lambda: len(had) == 4)
        begun = Counter(had)
        go.set()
        await asyncio.gather(*asked)
        return begun, Counter(had)

    begun, all_of_them = asyncio.run(run())
    assert begun == {"small": 2, "greedy": 2}
    assert all_of_them == {"small": 2, "greedy": 5}
