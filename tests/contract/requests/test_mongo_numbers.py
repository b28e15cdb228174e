"""Numbers kept in MongoDB: worker numbers for when Redis is down, and the counter id kind."""

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from tests.contract.store_cases import NOW
from tests.kit.ids import Allot, MongoCounter, MongoWorkerNumbers, allot, first_mark
from tests.kit.kernel import WorkerNumbersExhaustedError
from tests.kit.mongo import MongoNodes
from tests.kit.mongo_nodes import nodes_at

NOW_MS = int(NOW.timestamp() * 1000)
TERM_MS = 10_000


@pytest.fixture
def nodes(mongo_uri: str) -> Iterator[MongoNodes]:
    with nodes_at(mongo_uri) as made:
        yield made


@pytest.fixture
def first() -> int:
    """The first number of a range that no other test has."""
    return 10_000 + secrets.randbits(30) * 100


def test_each_environment_has_a_number_of_its_own_until_none_is_left(
    nodes: MongoNodes, first: int
) -> None:
    def lease(name: int) -> int:
        return (
            MongoWorkerNumbers(nodes, first, first + 19).lease(f"e{name}", NOW_MS, TERM_MS).number
        )

    with ThreadPoolExecutor(8) as pool:
        leased = list(pool.map(lease, range(20)))

    assert sorted(leased) == list(range(first, first + 20))
    with pytest.raises(WorkerNumbersExhaustedError):
        lease(21)
    again = MongoWorkerNumbers(nodes, first, first + 19).lease("e", NOW_MS + TERM_MS, TERM_MS)
    assert again.number in leased


def test_the_number_that_has_been_free_for_longest_is_leased_first(
    nodes: MongoNodes, first: int
) -> None:
    numbers = MongoWorkerNumbers(nodes, first, first + 2)
    held = [numbers.lease("e", NOW_MS + n, TERM_MS) for n in range(3)]

    later = [numbers.lease("f", NOW_MS + 2 * TERM_MS, TERM_MS) for _ in range(3)]

    assert [h.number for h in later] == [h.number for h in held]


def test_a_mark_only_moves_on_under_its_fence(nodes: MongoNodes, first: int) -> None:
    numbers = MongoWorkerNumbers(nodes, first, first)
    held = numbers.lease("e", NOW_MS, TERM_MS)
    assert held.mark == first_mark(NOW_MS)

    assert numbers.advance(held, held.mark + 5, NOW_MS + 1, TERM_MS) is True
    assert numbers.advance(held, held.mark + 9, NOW_MS + 1, TERM_MS) is False
    later = NOW_MS + 1 + TERM_MS
    successor = numbers.lease("f", later, TERM_MS)

    assert successor.mark == held.mark + 5
    assert successor.fence != held.fence
    thawed = type(held)(number=held.number, fence=held.fence, mark=held.mark + 5)
    assert numbers.advance(thawed, held.mark + 99, later, TERM_MS) is False
    assert numbers.advance(successor, successor.mark + 1, later, TERM_MS) is True


def test_an_ended_lease_does_not_advance(nodes: MongoNodes, first: int) -> None:
    numbers = MongoWorkerNumbers(nodes, first, first)
    held = numbers.lease("e", NOW_MS, TERM_MS)

    assert numbers.advance(held, held.mark + 1, NOW_MS + TERM_MS, TERM_MS) is False


def test_positions_are_never_allotted_twice_over_many_environments(
    nodes: MongoNodes, first: int
) -> None:
    def issue(name: int) -> list[tuple[int, int, int]]:
        numbers = MongoWorkerNumbers(nodes, first, first + 3)
        spent = []
        for turn in range(6):
            now_ms = NOW_MS + 20_000 + turn * 2 * TERM_MS + name
            try:
                held = numbers.lease(f"e{name}", now_ms, TERM_MS)
            except WorkerNumbersExhaustedError:
                continue
            found = allot(held.mark, now_ms + 400, 50)
            if isinstance(found, Allot) and numbers.advance(held, found.end, now_ms, TERM_MS):
                spent.append((held.number, found.start, found.end))
        return spent

    with ThreadPoolExecutor(6) as pool:
        runs = sorted(run for part in pool.map(issue, range(6)) for run in part)

    assert len(runs) > 6
    for (number, _, end), (following, start, _) in pairwise(runs):
        assert number != following or end <= start


def test_a_counter_never_gives_a_number_twice(nodes: MongoNodes, tenant: str) -> None:
    counter = MongoCounter(nodes)

    def reserve(count: int) -> range:
        start = counter.reserve(tenant, "shop", count)
        return range(start, start + count)

    with ThreadPoolExecutor(8) as pool:
        blocks = list(pool.map(reserve, [1, 7, 1000, 3] * 10))

    given = sorted(number for block in blocks for number in block)
    assert given == list(range(1, 1011 * 10 + 1))
    assert counter.reserve(tenant, "news", 1) == 1
    assert counter.reserve(tenant + "b", "shop", 1) == 1
