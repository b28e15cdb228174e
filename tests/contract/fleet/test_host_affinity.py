"""Tests of host affinity over Redis' list of workers: one worker more or less moves 1/n."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.fakes.fleet import MemoryWorkers
from tests.fakes.scaling import MemoryScalingTargets
from tests.kit.fleet import PoolScaling
from tests.kit.kernel import QueueKey, to_ms
from tests.kit.politeness import DeferredHost
from tests.kit.worker import HostAffinity
from tests.kit.worlds.memory import World

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
QUEUE_KEY = QueueKey("acme", "docs", "main")
DEFERRED = [DeferredHost(host=f"h{n}.example", count=1, ready_ts=to_ms(NOW)) for n in range(1_000)]
WORKERS = 10


class Stand:
    """Several workers over one list; each looks when it is told to."""

    def __init__(self, workers) -> None:
        self.workers = workers
        self._placings: dict[str, HostAffinity] = {}
        world = World()
        self._world = world
        self._ports = PoolScaling(
            targets=MemoryScalingTargets(MemoryWorkers()),
            workers=workers,
            waker=world,
        )

    def comes(self, name: str) -> None:
        self.workers.beat(name, NOW)
        self._placings[name] = HostAffinity(self._ports, name, self._world)

    def goes(self, name: str) -> None:
        self.workers.leave(name)
        del self._placings[name]

    def owners(self) -> dict[str, str]:
        """Return each host's worker after all have refreshed; assert that each has exactly one."""
        found: dict[str, str] = {}
        for name, placing in self._placings.items():
            placing.refresh(NOW)
            for one in placing.choose(QUEUE_KEY, DEFERRED, NOW):
                assert found.setdefault(one.host, name) == name
        assert len(found) == len(DEFERRED)
        assert self._world.warnings == []
        return found


@pytest.fixture
def site(workers) -> Stand:
    made = Stand(workers)
    for n in range(WORKERS):
        made.comes(f"w{n}")
    return made


def moved(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {host for host, worker in before.items() if after[host] != worker}


def about(part: float) -> tuple[float, float]:
    """Between which a share of that part lies, all but certainly."""
    even = part * len(DEFERRED)
    return even - 5 * even**0.5, even + 5 * even**0.5


def test_one_that_comes_takes_its_part_from_the_others_and_no_other_host_moves(site):
    before = site.owners()

    site.comes("new")

    after = site.owners()
    least, most = about(1 / (WORKERS + 1))
    assert least < len(moved(before, after)) < most
    assert moved(before, after) == {host for host, worker in after.items() if worker == "new"}


def test_one_that_goes_leaves_its_part_and_no_other_host_moves(site):
    before = site.owners()

    site.goes("w3")

    after = site.owners()
    least, most = about(1 / WORKERS)
    assert least < len(moved(before, after)) < most
    assert moved(before, after) == {host for host, worker in before.items() if worker == "w3"}


def test_workers_that_are_called_for_move_nothing_until_they_come(site):
    before = site.owners()

    assert site.workers.reserve_wake(NOW, 2 * WORKERS) == WORKERS
    assert site.owners() == before
    site.comes("new")

    assert set(site.owners().values()) - set(before.values()) == {"new"}
    assert len(site.workers.live(NOW + timedelta(seconds=1))) == 2 * WORKERS
    least, most = about(1 / (WORKERS + 1))
    assert least < len(moved(before, site.owners())) < most
