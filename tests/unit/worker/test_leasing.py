"""A worker's leases while Redis hangs."""

from datetime import timedelta

from msgspec.structs import replace

from tests.kit.kernel import StoreUnavailableError
from tests.kit.requests import Submission
from tests.kit.worker import Pauses, renew_leases
from tests.kit.worlds.memory import DOCS, World
from tests.kit.worlds.worker import Parts

BIZS = 30


def in_flight(mine: Parts, batches: int = 1) -> list[object]:
    """Leased requests that are being worked on."""
    leased = [one for _ in range(batches) for one in mine.leases.take().leased]
    assert all(mine.session.in_flight.add(one) for one in leased)
    return leased


class Hanging:
    """A Redis that is waited for, and does not answer; it says how often it was."""

    def __init__(self, world: World) -> None:
        self._queue = world.queue
        self.waits = 0

    def renew(self, *_):
        self.waits += 1
        raise StoreUnavailableError("redis", "TimeoutError")

    def __getattr__(self, name):
        return getattr(self._queue, name)


def test_a_redis_that_hangs_keeps_no_queue_from_being_renewed_in_mongodb(world):
    """Two seconds a queue: of thirty the last would come when its lease is over."""
    world.tree = replace(world.tree, bizs={"default": {f"b{n}": world.biz for n in range(BIZS)}})
    for biz in world.tree.bizs["default"]:
        page = [Submission(url="https://example.org/")]
        world.submission().submit(world.tree, "default", biz, page, world.now)
    hanging = Hanging(world)
    renewed = set()

    class Noting:
        def renew(self, queue_key, *args):
            renewed.add(queue_key)
            return world.store.renew(queue_key, *args)

        def __getattr__(self, name):
            return getattr(world.store, name)

    limits = world.tree.stage.fleet
    mine = Parts(world, queue=hanging, store=Noting(), pauses=Pauses(redis=1e-9))
    leased = in_flight(mine, BIZS)
    assert len(leased) == BIZS
    world.now += timedelta(seconds=limits.lease_seconds / 3)

    assert renew_leases(mine.session, leased).lost == []

    assert renewed == set(world.tree.queues())
    assert hanging.waits == 1
    assert len(world.warnings) == 1


def test_a_lease_whose_outcome_is_written_meanwhile_is_not_listed_anew(world):
    """Nobody would finish a lease listed anew, and it would count as leased until it ends."""
    page = [Submission(url="https://example.org/")]
    world.submission().submit(world.tree, "default", "docs", page, world.now)
    mine = Parts(world)
    leased = mine.leases.take().leased
    world.queue.flush()

    assert renew_leases(mine.session, leased).lost == []

    assert world.queue.depth(DOCS).leased == 0


def test_leases_that_redis_has_lost_are_listed_anew(world):
    """Redis has lost them, MongoDB has not: whose they are must be known if this worker dies."""
    page = [Submission(url="https://example.org/")]
    world.submission().submit(world.tree, "default", "docs", page, world.now)
    mine = Parts(world)
    leased = in_flight(mine)
    world.queue.flush()

    assert renew_leases(mine.session, leased).lost == []

    assert world.queue.depth(DOCS).leased == 1


def test_leases_that_redis_has_lost_are_not_listed_anew_by_one_that_was_frozen(world):
    """Others may have done it all since MongoDB was asked: the lease would be nobody's."""
    page = [Submission(url="https://example.org/")]
    world.submission().submit(world.tree, "default", "docs", page, world.now)
    mine = Parts(world, pauses=Pauses(trusted=0.0))
    leased = in_flight(mine)
    world.queue.flush()

    assert renew_leases(mine.session, leased).lost == []

    assert world.queue.depth(DOCS).leased == 0


def test_bizs_take_turns_by_their_weight(world):
    heavy, light = replace(world.biz, weight=3), world.biz
    world.tree = replace(world.tree, bizs={"default": {"heavy": heavy, "idle": light, "z": light}})
    for biz in ("heavy", "z"):
        pages = [Submission(url=f"https://example.org/{n}") for n in range(40)]
        world.submission().submit(world.tree, "default", biz, pages, world.now)
    limits = replace(world.tree.stage.fleet, batch=1)
    world.tree = replace(world.tree, stage=replace(world.tree.stage, fleet=limits))
    mine = Parts(world).leases

    served = [mine.take().leased[0].queue_key.biz for _ in range(40)]

    assert served.count("heavy") == 30
    assert served.count("z") == 10
