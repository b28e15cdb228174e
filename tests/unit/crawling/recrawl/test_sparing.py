"""A page that was read and is not due is not fetched again for a new segment (SPEC.md H7)."""

from datetime import timedelta
from functools import partial

import pytest
from msgspec.structs import replace

from tests.fakes.recrawl import MemoryVisits
from tests.kit.config import RecrawlPolicy
from tests.kit.frontier import SeedState, Sparing, seed_key
from tests.kit.kernel import StoreUnavailableError
from tests.kit.recrawl import undue
from tests.kit.requests import Visit
from tests.kit.worlds.frontier import SeedWorld, a_spec, url
from tests.kit.worlds.memory import DOCS, START, make_biz, make_tree

DAY = timedelta(days=1)
POLICY = RecrawlPolicy(due_only=True)


class Spared(SeedWorld):
    """A platform whose biz remembers the pages that it has read."""

    def __init__(self, policy: RecrawlPolicy | None = POLICY) -> None:
        super().__init__()
        self.tree = make_tree(replace(make_biz(), recrawl=policy))
        self.visits = MemoryVisits()

    def read(self, number: int, **changes: object) -> None:
        """Remember that a page was read now, and is due in three days."""
        facts = {"rule": "page", "rule_version": self.biz.reader("page").version}
        seconds = (3 * DAY).total_seconds()
        times = {"visited_at": self.now, "changed_at": self.now, "interval_seconds": seconds}
        key = seed_key(url(number)).hex()
        self.visits.saw(
            DOCS, self.biz, [Visit(key=key, url=url(number), **(facts | times | changes))]
        )

    def offer(self, *specs, **changes: object):
        sparing = Sparing(partial(undue, self.visits), self.visits.spared)
        return self.add(*specs, **({"sparing": sparing} | changes))

    def spared(self) -> int:
        return self.visits.totals(DOCS, self.biz, self.now).spared


@pytest.fixture
def world() -> Spared:
    return Spared()


def test_a_new_segment_fetches_what_is_due_or_unknown_and_counts_what_it_spares(world):
    world.read(1)
    world.now += DAY

    known, unknown = world.offer(1, 2)

    assert (known.accepted, unknown.accepted) == (False, True)
    assert known.why == "read at 2026-03-01T12:00:00Z, and not due before 2026-03-04T12:00:00Z"
    assert world.dispatch() == 1
    finished, handed = world.kept(SeedState.FINISHED), world.kept(SeedState.HANDED)
    assert [[seed.spec.url for seed in some] for some in (finished, handed)] == [[url(1)], [url(2)]]
    assert finished[0].why == known.why
    assert world.spared() == 1


def test_it_is_counted_once_a_segment_however_often_it_is_linked_to(world):
    world.read(1)
    world.offer(1)
    [again] = world.offer(1)
    assert (again.why, world.spared()) == ("known in segment 2026-03-01, by its filter", 1)
    world.now += DAY

    world.offer(1)

    assert world.spared() == 2


def test_a_page_is_fetched_in_the_first_segment_after_it_is_due(world):
    world.read(1)
    world.now += 3 * DAY

    assert world.offer(1)[0].accepted
    assert world.spared() == 0


def test_the_time_that_a_seed_waits_for_counts(world):
    world.read(1)

    assert world.offer(a_spec(1, starts_at=START + 4 * DAY))[0].accepted


@pytest.mark.parametrize(
    "seen",
    [{"rule_version": "another"}, {"rule": "list"}, {"next_at": START}],
    ids=["another version of the rule", "another rule", "due by the schedule"],
)
def test_what_this_rule_has_not_read_or_what_is_due_is_fetched(world, seen):
    world.read(1, **seen)

    assert world.offer(1)[0].accepted


@pytest.mark.parametrize(
    "changes",
    [{"headers": {"Accept": "x"}}, {"method": "POST", "body": "q=1"}, {"repeat": True}],
    ids=["headers", "a POST", "to be repeated"],
)
def test_what_is_no_plain_visit_of_the_page_is_fetched(world, changes):
    world.read(1)

    assert world.offer(a_spec(1, **changes))[0].accepted


@pytest.mark.parametrize("policy", [None, RecrawlPolicy()], ids=["no policy", "one without it"])
def test_where_the_policy_does_not_say_so_each_segment_fetches_each_page(policy):
    world = Spared(policy)
    world.read(1)

    assert world.offer(1)[0].accepted


def test_while_visits_cannot_be_read_pages_are_fetched_as_if_they_had_never_been(world):
    class Away(MemoryVisits):
        def known(self, *_):
            raise StoreUnavailableError("mongodb", "away")

    world.read(1)
    sparing = Sparing(partial(undue, Away()), world.visits.spared)

    assert world.offer(1, sparing=sparing)[0].accepted
    assert "pages are fetched as if they had never been read" in world.warnings[0]


def test_what_cannot_be_counted_is_spared_all_the_same(world):
    def away(*_):
        raise StoreUnavailableError("mongodb", "away")

    world.read(1)

    [answer] = world.offer(1, sparing=Sparing(partial(undue, world.visits), away))

    assert not answer.accepted
    assert world.dispatch() == 0
    assert "not counted" in world.warnings[0]
