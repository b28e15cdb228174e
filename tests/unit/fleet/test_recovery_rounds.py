"""Rounds of recovery: their lock, and the queues that they look into."""

from collections import Counter
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.config import Tenant
from tests.kit.kernel import QueueKey, StoreUnavailableError
from tests.kit.worker import SteadyTime
from tests.kit.worlds.doubles import Broken, Failing
from tests.kit.worlds.memory import DOCS
from tests.kit.worlds.recovery import run, submitted


@pytest.fixture(autouse=True)
def _whole_queues(world):
    """Queues that were filled before: what recovery does then is what these tests are about."""
    run(world)


class Killed(BaseException):
    """The process has gone: it releases nothing."""


def test_a_round_that_died_holds_nobody_up_and_one_that_goes_on_keeps_its_lock(world, monkeypatch):
    submitted(world, 3, queue=Broken())
    world.now += timedelta(seconds=30)
    left = [200.0]

    def slow() -> float:
        world.now += timedelta(seconds=6)
        left[0] -= 6
        if left[0] < 170:
            raise Killed
        return left[0]

    detector = world.detector
    with monkeypatch.context() as patch:
        patch.setattr(detector, "release_lock", lambda *_: None)
        with pytest.raises(Killed):
            world.recovery().recover(world.tree, "gone", world.now, slow)

    assert not world.recovery().recover(world.tree, "other", world.now, lambda: 120.0).mine
    world.now += timedelta(seconds=20)
    assert world.recovery().recover(world.tree, "other", world.now, lambda: 120.0).mine


def test_a_round_that_has_lost_its_lock_ends(world):
    submitted(world, 3, queue=Broken())
    world.now += timedelta(seconds=30)
    left = [500.0]

    def slow() -> float:
        left[0] -= 30
        world.detector.release_lock("recover", "slow")
        return left[0]

    assert world.recovery().recover(world.tree, "slow", world.now, slow).requeued == 0


def many(world, count: int) -> None:
    """Give the tenant so many bizs, of which none was ever used but its first."""
    bizs = {"docs": world.biz, **{f"b{n:03d}": world.biz for n in range(count)}}
    world.tree = replace(world.tree, bizs={"default": bizs})


def looked_into(world, monkeypatch) -> list[str]:
    """Return the bizs whose account a round looks into."""
    seen: list[str] = []
    expire = world.store.expire

    def noted(queue_key, biz, now):
        seen.append(queue_key.biz)
        return expire(queue_key, biz, now)

    monkeypatch.setattr(world.store, "expire", noted)
    run(world)
    return seen


def test_a_round_looks_into_the_open_and_some_others(world, monkeypatch):
    many(world, 400)
    submitted(world, 1)

    seen = looked_into(world, monkeypatch)

    assert seen[0] == "docs"
    assert len(seen) == len(set(seen)) == 31


def test_every_biz_has_its_turn_within_some_ten_minutes(world, monkeypatch):
    many(world, 400)
    seen: set[str] = set()
    for _ in range(45):
        world.now += timedelta(seconds=20)
        seen |= {*looked_into(world, monkeypatch)}

    assert len(seen) == 401


def test_all_queues_that_redis_has_lost_are_rebuilt_at_once(world, monkeypatch):
    many(world, 100)
    for _ in range(12):
        world.now += timedelta(seconds=20)
        run(world)
    world.queue.restart()

    seen = looked_into(world, monkeypatch)

    assert len(seen) > 90


def test_where_nobody_knows_what_is_open_all_are_looked_into(world, monkeypatch):
    many(world, 100)

    def away():
        raise StoreUnavailableError("redis", "away")

    monkeypatch.setattr(world.queue.open, "listed", away)

    assert len(looked_into(world, monkeypatch)) == 101
    assert "which queues have work is not known" in world.warnings[0]


def test_queues_of_bizs_and_pools_that_there_are_no_more_are_open_no_more(world, monkeypatch):
    world.pools.saw({"lately"}, world.now)
    gone = [QueueKey("default", "gone", "main"), QueueKey("default", "docs", "main@never")]
    listed = dict.fromkeys([DOCS, QueueKey("default", "docs", "main@lately"), *gone], 5)
    forgotten: dict[QueueKey, int] = {}
    monkeypatch.setattr(world.queue.open, "listed", lambda: listed)
    monkeypatch.setattr(world.queue.open, "forget", forgotten.update)

    run(world)

    assert forgotten == dict.fromkeys(gone, 5)


def test_what_could_not_be_queued_is_found_in_the_next_rounds_though_its_biz_is_quiet(world):
    many(world, 400)
    world.now += timedelta(minutes=3)
    submitted(world, 2, queue=Broken())
    assert list(world.store.noted_unqueued()) == [("default", "docs")]

    requeued = []
    for seconds in (2, 20, 20):
        world.now += timedelta(seconds=seconds)
        requeued.append(run(world).requeued)

    # What came a moment ago may be on its way.
    assert requeued == [0, 2, 0]
    assert world.store.noted_unqueued() == {}


def test_a_biz_that_cannot_be_looked_into_is_noted_until_it_can(world):
    many(world, 400)
    submitted(world, 2, queue=Broken())
    world.now += timedelta(seconds=30)

    run(world, queue=Failing(world.queue, requeue=1))
    assert world.store.noted_unqueued() != {}
    world.now += timedelta(seconds=20)

    assert run(world).requeued == 2
    assert world.store.noted_unqueued() == {}


def test_tenants_take_turns_in_a_round_however_many_bizs_one_has(world, monkeypatch):
    world.tree = replace(
        world.tree,
        bizs={
            "default": {f"b{n:02d}": world.biz for n in range(20)},
            "acme": {"docs": world.biz},
        },
    )
    for _ in range(5):
        seen = looked_into(world, monkeypatch)
        world.now += timedelta(minutes=1)
        assert "docs" in seen[:2]


@pytest.mark.parametrize(("share", "least"), [(1, 9.0), (4, 15.0)])
def test_slow_queues_of_one_tenant_leave_others_their_part_of_a_round(
    world, monkeypatch, share, least
):
    """However long MongoDB takes over the bizs of one."""
    bizs = {f"b{n:02d}": world.biz for n in range(15)}
    tenants = {"acme": Tenant(), "default": Tenant(share=share)}
    world.tree = replace(world.tree, tenants=tenants, bizs={"acme": bizs, "default": bizs})
    passed, took = [0.0], Counter()

    def slow(queue_key, biz, now):
        seconds = 10.0 if queue_key.tenant == "acme" else 1.0
        passed[0] += seconds
        took[queue_key.tenant] += seconds
        return 0

    monkeypatch.setattr(world.store, "expire", slow)
    ports = world.recovery(steady=SteadyTime(lambda: passed[0]))
    ports.recover(world.tree, "scheduler", world.now, lambda: 55.0 - passed[0])

    assert took["acme"] >= 10.0
    assert took["default"] >= least


def test_a_round_does_without_notes_and_former_pools_that_cannot_be_read(world):
    submitted(world, 2, queue=Broken())
    world.now += timedelta(seconds=30)
    away = {"store": Failing(world.store, noted_unqueued=9), "pools": Failing(world.pools, known=9)}

    assert run(world, **away).requeued == 2
    assert any("noted_unqueued" in warning for warning in world.warnings)
    assert any("known" in warning for warning in world.warnings)


def test_a_note_that_cannot_be_forgotten_has_its_biz_looked_into_once_more(world):
    many(world, 400)
    submitted(world, 2, queue=Broken())
    world.now += timedelta(seconds=30)
    run(world, queue=Failing(world.queue, requeue=1))
    world.now += timedelta(minutes=5)

    run(world, store=Failing(world.store, forget_unqueued=1))
    noted = world.store.noted_unqueued()
    run(world)

    assert noted != {}
    assert world.store.noted_unqueued() == {}
