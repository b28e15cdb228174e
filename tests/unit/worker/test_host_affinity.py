"""A worker looks at its own hosts first, and at all of them while it is alone or nobody knows."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.config import PoolLimits
from tests.kit.fleet import WAKE_TERM
from tests.kit.kernel import StoreUnavailableError, bound, to_ms
from tests.kit.politeness import DeferredHost
from tests.kit.worker import ASK_EACH, MOST_WORKERS, PATIENCE_MS, SOME_WORKERS, HostAffinity
from tests.kit.worlds.memory import DOCS


class Living:
    """The names of the live workers; ``error`` is raised instead, where there is one."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.error: StoreUnavailableError | None = None

    def staying(self, now):
        if self.error is not None:
            raise self.error
        return self.names


@pytest.fixture
def deferred(world):
    now = to_ms(world.now)
    return [DeferredHost(host=f"h{n}.example", count=1, ready_ts=now) for n in range(200)]


def placing(world, living, worker, **changes):
    made = HostAffinity(world.target(workers=living, **changes), worker, world)
    made.refresh(world.now)
    return made


def test_each_host_is_one_workers(world, deferred):
    living = Living("a", "b", "c")
    shares = [
        placing(world, living, name).choose(DOCS, deferred, world.now) for name in living.names
    ]

    together = [one.host for share in shares for one in share]
    assert sorted(together) == sorted(one.host for one in deferred)
    assert all(len(share) > 30 for share in shares)


def test_who_is_alone_looks_at_all_of_them(world, deferred):
    assert placing(world, Living("a"), "a").choose(DOCS, deferred, world.now) == deferred
    assert placing(world, Living(), "a").choose(DOCS, deferred, world.now) == deferred


def test_a_worker_that_is_not_listed_yet_counts_itself(world, deferred):
    assert (
        0 < len(placing(world, Living("b"), "a").choose(DOCS, deferred, world.now)) < len(deferred)
    )


def test_workers_that_are_only_called_for_own_nothing_until_they_have_come(world, deferred):
    """From 2 to 10: for 10 s eight woken workers would own four of five hosts, and ask none."""
    due, names = world.now, ["a", "b"]
    for name in names:
        world.workers.beat(name, world.now)
    at_work = [placing(world, world.workers, name) for name in names]

    def shares():
        found = []
        for one in at_work:
            one.refresh(world.now)
            found.append({each.host for each in one.choose(DOCS, deferred, due)})
        assert set().union(*found) == {one.host for one in deferred}
        return found

    before = shares()
    assert world.workers.reserve_wake(world.now, 10) == 8
    assert shares() == before
    assert len(world.workers.live(world.now)) == 10, "they are counted all the same"

    world.now += WAKE_TERM / 2
    moved = 0
    for n in range(8):
        for name in names:
            world.workers.beat(name, world.now)
        world.workers.beat(f"new{n}", world.now)
        names.append(f"new{n}")
        at_work.append(placing(world, world.workers, names[-1]))
        after = shares()
        came = after[-1]
        assert all(new == old - came for new, old in zip(after, before, strict=False))
        moved += len(came)
        before = after
    assert moved < 2 * len(deferred), "each host moves about once or twice, not with each of eight"


def test_hosts_of_one_that_is_asked_to_leave_are_the_others(world, deferred):
    for name in ("a", "b"):
        world.workers.beat(name, world.now)
    mine = placing(world, world.workers, "a")
    assert len(mine.choose(DOCS, deferred, world.now)) < len(deferred)

    assert world.workers.throughput_reply("b", world.now, 1).leaves
    mine.refresh(world.now)

    assert mine.choose(DOCS, deferred, world.now) == deferred


def starters(world, own, **living):
    """The pools' workers, as one of the pool ``own`` knows them."""
    pools = {name: world.target(workers=who, pool=name) for name, who in living.items()}
    mine = pools.pop(own)
    return {"living": mine.workers, "pool": own, "elsewhere": pools}


def test_unbound_work_of_a_host_has_one_owner_over_the_pools_that_take_it(world, deferred):
    """Its own workers' and those of a pool beside: two connections, and two learn its rules."""
    pools = {"far": PoolLimits(bound_only=False), "large": PoolLimits()}
    world.tree = replace(world.tree, stage=replace(world.tree.stage, pools=pools))
    living = {"main": Living("a", "b"), "far": Living("f", "g"), "large": Living("x", "y")}
    of = {
        worker: placing(world, worker=worker, **starters(world, pool, **living))
        for pool, some in living.items()
        for worker in some.names
    }

    shares = [of[worker].choose(DOCS, deferred, world.now) for worker in "abfg"]

    assert sorted(one.host for share in shares for one in share) == sorted(
        one.host for one in deferred
    )
    assert all(len(share) > 20 for share in shares)
    for pool, workers in (("far", "fg"), ("large", "xy")):
        shares = [of[worker].choose(bound(DOCS, pool), deferred, world.now) for worker in workers]
        assert sum(map(len, shares)) == len(deferred), f"what is bound for {pool} is its own"
        assert all(len(share) > 60 for share in shares)


def test_a_pool_that_cannot_be_looked_at_leaves_all_as_it_was(world, deferred):
    pools = {"far": PoolLimits(bound_only=False)}
    world.tree = replace(world.tree, stage=replace(world.tree.stage, pools=pools))
    usual, far = Living("a", "b"), Living("f")
    mine = placing(world, worker="a", **starters(world, "main", main=usual, far=far))
    before = mine.choose(DOCS, deferred, world.now)
    usual.names, far.error = ["a"], StoreUnavailableError("redis", "TimeoutError")

    mine.refresh(world.now)

    assert mine.choose(DOCS, deferred, world.now) == before
    assert len(world.warnings) == 1


def test_of_very_many_nobody_chooses(world, deferred):
    many = Living(*(f"w{n}" for n in range(MOST_WORKERS + 1)))

    assert placing(world, many, "w1").choose(DOCS, deferred, world.now) == deferred


def test_what_its_own_worker_leaves_is_anybodys_soon(world, deferred):
    mine = placing(world, Living("a", "b"), "a")

    later = world.now + timedelta(milliseconds=PATIENCE_MS)

    assert len(mine.choose(DOCS, deferred, world.now)) < len(deferred)
    assert mine.choose(DOCS, deferred, later) == deferred


def test_only_what_a_host_serves_slowly_is_left_to_its_worker(world):
    shares = {name: placing(world, Living("a", "b"), name) for name in "ab"}
    paced, fast = PATIENCE_MS / 1000 + 0.1, PATIENCE_MS / 1000

    for number in range(50):
        host = f"h{number}.example"
        assert sorted(one.is_left(DOCS, host, paced) for one in shares.values()) == [False, True]
        assert not any(one.is_left(DOCS, host, fast) for one in shares.values())
    assert not placing(world, Living("a"), "a").is_left(DOCS, "h.example", paced)


def test_what_is_known_holds_while_nobody_answers(world, deferred):
    living = Living("a", "b")
    mine = placing(world, living, "a")
    before = mine.choose(DOCS, deferred, world.now)
    living.error = StoreUnavailableError("redis", "TimeoutError")

    mine.refresh(world.now)

    assert mine.choose(DOCS, deferred, world.now) == before
    assert len(world.warnings) == 1


def test_hosts_of_one_that_has_gone_go_to_those_who_are_left(world, deferred):
    living = Living("a", "b", "c")
    mine = placing(world, living, "a")
    before = mine.choose(DOCS, deferred, world.now)
    living.names = ["a", "b"]

    mine.refresh(world.now)

    after = mine.choose(DOCS, deferred, world.now)
    assert {one.host for one in before} < {one.host for one in after}


@pytest.mark.parametrize("count", [SOME_WORKERS, 4 * SOME_WORKERS, MOST_WORKERS])
def test_however_many_work_each_is_told_of_some_names_a_second(world, count):
    """An answer names all of them, and all ask: a thousand were told a million names in 5 s."""

    class Counted(Living):
        told = 0

        def staying(self, now):
            self.told += len(self.names)
            return self.names

    living = Counted(*(f"w{n}" for n in range(count)))
    made, seconds = HostAffinity(world.target(workers=living), "w0", world), 600
    for second in range(0, seconds, 5):
        made.refresh(world.now + timedelta(seconds=second))

    assert 0 < living.told / seconds <= 2 / ASK_EACH.total_seconds()


def test_a_clock_that_is_set_back_keeps_nobody_from_learning_who_works(world):
    living = Living(*(f"w{n}" for n in range(MOST_WORKERS)))
    made = placing(world, living, "w0")
    hosts = [DeferredHost(host=f"h{n}", count=1, ready_ts=to_ms(world.now)) for n in range(200)]
    assert len(made.choose(DOCS, hosts, world.now)) < 200

    living.names = ["w0"]
    made.refresh(world.now - timedelta(hours=1))

    assert made.choose(DOCS, hosts, world.now) == hosts
