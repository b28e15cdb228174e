"""A worker looks at its own hosts first, and at all of them while it is alone or nobody knows."""

from datetime import timedelta

import pytest

from crawlfleet.errors import StoreUnavailableError
from crawlfleet.flows.placing import MOST_WORKERS, Placing
from crawlfleet.model.politeness import Parked
from crawlfleet.model.times import to_ms
from crawlfleet.policy.affinity import PATIENCE_MS


class Living:
    """Who lives; ``error`` instead, where there is one."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.error: StoreUnavailableError | None = None

    def live(self, now=None):
        if self.error is not None:
            raise self.error
        return self.names


@pytest.fixture
def parked(world):
    now = to_ms(world.now)
    return [Parked(host=f"h{n}.example", count=1, ready_ts=now) for n in range(200)]


def placing(world, living, worker):
    made = Placing(living, worker, world.warn)
    made.look(world.now)
    return made


def test_each_host_is_one_workers(world, parked):
    living = Living("a", "b", "c")
    shares = [placing(world, living, name).choose(parked, world.now) for name in living.names]

    together = [one.host for share in shares for one in share]
    assert sorted(together) == sorted(one.host for one in parked)
    assert all(len(share) > 30 for share in shares)


def test_who_is_alone_looks_at_all_of_them(world, parked):
    assert placing(world, Living("a"), "a").choose(parked, world.now) == parked
    assert placing(world, Living(), "a").choose(parked, world.now) == parked


def test_a_worker_that_is_not_listed_yet_counts_itself(world, parked):
    assert 0 < len(placing(world, Living("b"), "a").choose(parked, world.now)) < len(parked)


def test_of_very_many_nobody_chooses(world, parked):
    many = Living(*(f"w{n}" for n in range(MOST_WORKERS + 1)))

    assert placing(world, many, "w1").choose(parked, world.now) == parked


def test_what_its_own_worker_leaves_is_anybodys_soon(world, parked):
    mine = placing(world, Living("a", "b"), "a")

    later = world.now + timedelta(milliseconds=PATIENCE_MS)

    assert len(mine.choose(parked, world.now)) < len(parked)
    assert mine.choose(parked, later) == parked


def test_what_is_known_holds_while_nobody_answers(world, parked):
    living = Living("a", "b")
    mine = placing(world, living, "a")
    before = mine.choose(parked, world.now)
    living.error = StoreUnavailableError("redis", "TimeoutError")

    mine.look(world.now)

    assert mine.choose(parked, world.now) == before
    assert len(world.warnings) == 1


def test_hosts_of_one_that_has_gone_go_to_those_who_are_left(world, parked):
    living = Living("a", "b", "c")
    mine = placing(world, living, "a")
    before = mine.choose(parked, world.now)
    living.names = ["a", "b"]

    mine.look(world.now)

    after = mine.choose(parked, world.now)
    assert {one.host for one in before} < {one.host for one in after}
