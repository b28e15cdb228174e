"""Jobs come to the board with the weight of their biz, and are awarded by it, tenant by tenant."""

from collections import Counter
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.worlds.bidding import TERMS, start
from tests.kit.worlds.memory import World

SECOND = timedelta(seconds=1)


@pytest.fixture
def world() -> World:
    """Two tenants: the bizs of one weigh 1 and 4, that of the other 3."""
    made = World()
    light, middle, heavy = (replace(made.biz, weight=weight) for weight in (1, 3, 4))
    bizs = {"acme": {"light": light, "heavy": heavy}, "bolt": {"docs": middle}}
    stage = replace(made.tree.stage, bidding=TERMS)
    tenants = dict.fromkeys(bizs, made.tree.tenants["default"])
    made.tree = replace(made.tree, stage=stage, tenants=tenants, bizs=bizs)
    return made


def fill(world: World) -> int:
    return world.auction().relist_missing(world.tree, TERMS, world.clock, lambda: 60.0)


def award(world: World, count: int) -> Counter[str]:
    """Have the first job awarded and begun, so often; whose they were."""
    had: Counter[str] = Counter()
    for n in range(count):
        (first,) = world.board.head("main", 1)
        worker = f"w{n}"
        world.board.apply(worker, first.key, b"", world.now, SECOND)
        standing, _ = world.board.read(first.key)
        won = world.board.award(first.key, standing.version, worker, world.now + SECOND)
        assert world.board.acknowledge(worker, first.key, won.number, world.now)
        had[first.tenant] += 1
    return had


@pytest.mark.parametrize("board", [True, False])
def test_a_job_is_listed_with_its_bizs_weight_at_once_and_after_the_board_was_lost(world, board):
    start(world, "acme", "light", 1, board=board)
    start(world, "acme", "heavy", 1, board=board)
    start(world, "bolt", "docs", 1, board=board)

    assert fill(world) == (0 if board else 3)

    found = {one.job: one.weight for one in world.board.head("main", 9)}
    assert found == {"light00": 1, "heavy00": 4, "docs00": 3}


@pytest.mark.parametrize(("biz", "share"), [("light", 10), ("heavy", 23)])
def test_tenants_have_jobs_awarded_by_the_weight_of_their_bizs(world, biz, share):
    """1 beside 3 has ten of forty, 4 beside 3 has 23, however many each offers."""
    start(world, "acme", biz, 60)
    start(world, "bolt", "docs", 40)

    had = award(world, 40)

    assert abs(had["acme"] - share) <= 1
    assert sum(had.values()) == 40


def test_a_tenant_is_moved_on_by_what_each_of_its_bizs_weighs(world):
    """Its light jobs cost it as much as four heavy ones: many of those are no way round that."""
    for n in range(20):
        start(world, "acme", "light", n + 1)
        start(world, "acme", "heavy", n + 1)
        world.now += SECOND
    start(world, "bolt", "docs", 60)

    had = award(world, 50)

    # A pair of acme's costs 5/4 of a turn, in which bolt has 15/4 awards.
    assert abs(had["bolt"] - 50 * (15 / 4) / (2 + 15 / 4)) <= 4


def test_a_changed_weight_applies_to_jobs_listed_later(world):
    start(world, "bolt", "docs", 1)
    world.tree.bizs["bolt"]["docs"] = replace(world.tree.bizs["bolt"]["docs"], weight=7)
    start(world, "bolt", "docs", 2)

    assert {one.job: one.weight for one in world.board.head("main", 9)} == {
        "docs00": 3,
        "docs01": 7,
    }
