"""Bizs have their share in requests, not in leases: a lease may bring one, or a whole batch."""

from collections import Counter

import pytest
from msgspec.structs import replace

from tests.kit.requests import Submission
from tests.kit.worlds.memory import World
from tests.kit.worlds.worker import Parts

BATCH = 32


class Stand:
    """One worker that leases from the bizs ``slim`` and ``full``, and processes nothing."""

    def __init__(self, world: World, slim: int, full: int) -> None:
        self.world = world
        bizs = {
            name: replace(world.biz, weight=weight)
            for name, weight in (("full", full), ("slim", slim))
        }
        limits = replace(world.tree.stage.fleet, batch=BATCH)
        stage = replace(world.tree.stage, fleet=limits)
        world.tree = replace(world.tree, bizs={"default": bizs}, stage=stage)
        self._leases = Parts(world).leases
        self.had: Counter[str] = Counter()
        self.leases: Counter[str] = Counter()

    def submit(self, biz: str, count: int) -> None:
        pages = [Submission(url=f"https://{biz}{n}.example/") for n in range(count)]
        self.world.submission().submit(self.world.tree, "default", biz, pages, self.world.now)

    def take(self) -> str | None:
        leased = self._leases.take().leased
        if not leased:
            return None
        biz = leased[0].queue_key.biz
        self.had[biz] += len(leased)
        self.leases[biz] += 1
        return biz


@pytest.mark.parametrize(("slim", "full"), [(1, 1), (1, 3), (3, 1)])
def test_a_biz_with_one_request_a_lease_has_its_share_beside_a_full_one(world, slim, full):
    """By leases the slim biz would get one request for each 32 of the full one's."""
    stand = Stand(world, slim, full)
    stand.submit("full", 8 * BATCH)
    stand.submit("slim", 1)

    while stand.had["full"] < 6 * BATCH:
        if stand.take() == "slim":
            stand.submit("slim", 1)

    assert stand.had["slim"] == stand.leases["slim"]
    assert abs(stand.had["slim"] * full - stand.had["full"] * slim) <= BATCH * slim + full


def test_where_both_are_full_batches_go_by_weight(world):
    stand = Stand(world, 1, 3)
    stand.submit("full", 40 * BATCH)
    stand.submit("slim", 40 * BATCH)

    for _ in range(16):
        stand.take()

    assert stand.had == {"full": 12 * BATCH, "slim": 4 * BATCH}


def test_a_biz_that_had_nothing_for_long_has_no_more_than_a_batch_in_hand(world):
    stand = Stand(world, 1, 1)
    stand.submit("full", 30 * BATCH)
    for _ in range(20):
        stand.take()
    stand.submit("slim", 30 * BATCH)
    before = stand.had["full"]

    for _ in range(8):
        stand.take()

    assert abs(stand.had["slim"] - (stand.had["full"] - before)) <= 2 * BATCH


def test_what_was_taken_before_a_lull_keeps_nobody_waiting_after_it(world):
    stand = Stand(world, 1, 1)
    stand.submit("full", BATCH)
    assert (stand.take(), stand.take()) == ("full", None)
    stand.submit("full", BATCH)
    stand.submit("slim", BATCH)

    assert [stand.take(), stand.take()] == ["full", "slim"]
