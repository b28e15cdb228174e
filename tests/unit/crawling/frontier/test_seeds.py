from datetime import timedelta

import pytest

from tests.kit.config import IntakeLimits
from tests.kit.frontier import SeedSelection, SeedState, SeedTotals, seeds
from tests.kit.kernel import (
    BacklogFullError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    StoreUnavailableError,
    UnknownBizError,
)
from tests.kit.requests import Dead, Done
from tests.kit.worlds.doubles import Broken
from tests.kit.worlds.frontier import SeedWorld, a_spec, url
from tests.kit.worlds.memory import DOCS, RULE, make_biz, make_tree

EVERY = SeedSelection()
DAY = timedelta(days=1)
UNKNOWN = f"2026-03-01/{'0' * 32}"


@pytest.fixture
def world() -> SeedWorld:
    return SeedWorld()


class Api:
    """The calls, with the arguments that all of them share."""

    def __init__(self, world: SeedWorld, biz: str = "docs", **changes: object) -> None:
        self._first = world.ports(**changes), world.tree, "default", biz
        self._world = world

    def add(self, *specs):
        return seeds.add_seeds(*self._first, specs, self._world.now)

    def find(self, meant=EVERY, cursor=None, limit=100):
        return seeds.list_seeds(*self._first, meant, cursor=cursor, limit=limit)

    def totals(self):
        return seeds.seed_totals(*self._first, self._world.now)

    def release(self, *ids):
        return seeds.release_seeds(*self._first, ids, "me", self._world.now)

    def release_one(self, seed_id):
        return seeds.release_seed(*self._first, seed_id, "me", self._world.now)

    def release_those(self, meant=EVERY, cursor=None, limit=100):
        return seeds.release_those(
            *self._first, meant, "me", self._world.now, cursor=cursor, limit=limit
        )

    def forget(self, *ids):
        return seeds.forget_seeds(*self._first, ids)

    def forget_one(self, seed_id):
        seeds.forget_seed(*self._first, seed_id)

    def forget_those(self, meant=EVERY, cursor=None, limit=100):
        return seeds.forget_those(*self._first, meant, cursor=cursor, limit=limit)


@pytest.fixture
def api(world) -> Api:
    return Api(world)


def test_a_biz_that_takes_no_more_requests_takes_no_more_seeds(world):
    world.tree = make_tree(make_biz(intake=IntakeLimits(max_backlog=1)))
    world.add(1)
    world.dispatch()

    with pytest.raises(BacklogFullError) as refused:
        Api(world).add(a_spec(2))

    assert "intake.max_backlog" in str(refused.value)
    assert refused.value.retry_after_seconds > 0
    assert len(world.kept()) == 1


def test_seeds_count_towards_the_rate_of_a_biz_but_not_once_more_when_they_are_dispatched(world):
    world.tree = make_tree(make_biz(intake=IntakeLimits(per_second=1.0, burst=3)))
    Api(world).add(a_spec(1), a_spec(2))
    world.dispatch()

    Api(world).add(a_spec(3))
    with pytest.raises(BacklogFullError, match=r"intake\.per_second"):
        Api(world).add(a_spec(4))


def test_seeds_that_are_wrong_count_towards_nothing(world):
    world.tree = make_tree(make_biz(intake=IntakeLimits(per_second=1.0, burst=1)))

    Api(world).add(InvalidRequestError.of("seeds[0].url", "is missing"))

    assert Api(world).add(a_spec(1))[0].accepted


def failed(world: SeedWorld, *numbers: int) -> list[str]:
    """Offer them and have them fail; what they are called."""
    world.add(*numbers)
    world.dispatch()
    world.work(lambda _: Dead("404"))
    return [seed.id for seed in world.kept(SeedState.FAILED)]


# ---- added -------------------------------------------------------------------------------------


def test_each_entry_is_answered_and_errors_name_their_field(api):
    wrong = InvalidRequestError.of("seeds[1].url", "is missing")

    good, same, bad, again = api.add(
        a_spec(1), wrong, a_spec(2, url="ftp://x/"), a_spec(1, rule="")
    )

    assert (good.accepted, again.accepted) == (True, False)
    assert same is wrong
    assert [problem.field for problem in bad.problems] == ["seeds[2].url"]


def test_without_a_rule_it_is_the_only_one_there_is(world):
    world.tree = make_tree(make_biz(rules={"page": RULE, "other": RULE}))

    nameless, named = Api(world).add(a_spec(1, rule=""), a_spec(1, rule="other"))

    assert [problem.field for problem in nameless.problems] == ["seeds[0].rule"]
    assert "other, page" in str(nameless) or "page, other" in str(nameless)
    assert named.accepted


def test_a_biz_that_is_not_there_is_said(world):
    with pytest.raises(UnknownBizError):
        Api(world, "nope").add(a_spec(1))


# ---- listed, counted ---------------------------------------------------------------------------


def test_seeds_are_listed_page_by_page(world, api):
    world.add(*range(7))
    seen, cursor = [], None

    while True:
        page = api.find(cursor=cursor, limit=3)
        seen += [seed.id for seed in page.items]
        cursor = page.cursor
        if not page.more:
            break

    assert seen == sorted(seen)
    assert len(set(seen)) == len(seen) == 7
    assert api.find(SeedSelection(state=SeedState.FAILED)).items == []
    assert len(api.find(SeedSelection(segment="2026-03-01"), limit=7).items) == 7
    assert api.find(SeedSelection(segment="2026-03-02")).cursor is None


@pytest.mark.parametrize("cursor", ["abc", "ü", "x" * 90, "MjAyNi0wMy0wMQ"])
def test_a_cursor_of_another_list_is_refused(api, cursor):
    for call in (api.find, api.release_those, api.forget_those):
        with pytest.raises(InvalidRequestError, match="cursor"):
            call(cursor=cursor)


def test_totals_report_what_filters_take(world, api):
    world.add(1, 2, a_spec(3, starts_at=world.now + DAY))

    [tomorrow, today] = api.totals()

    assert tomorrow == SeedTotals(segment="2026-03-02", waiting=1, filter_bytes=13_312)
    assert today == SeedTotals(segment="2026-03-01", ready=2, filter_bytes=13_312)
    [_, without] = Api(world, filter=Broken()).totals()
    assert (without.ready, without.filter_bytes) == (2, 0)
    assert len(world.warnings) == 1


# ---- released ----------------------------------------------------------------------------------


def test_one_seed_is_released(world, api):
    [seed_id] = failed(world, 1)

    seed = api.release_one(seed_id)

    assert (seed.id, seed.state, seed.why) == (seed_id, SeedState.READY, "released by me")
    with pytest.raises(ConflictError, match="it is ready"):
        api.release_one(seed_id)
    with pytest.raises(NotFoundError):
        api.release_one(UNKNOWN)
    with pytest.raises(NotFoundError):
        api.release_one(f"{seed_id[:-1]}{'0' if seed_id[-1] != '0' else '1'}")


def test_named_seeds_are_released_as_far_as_they_have_ended(world, api):
    ids = failed(world, 1, 2)
    world.add(3)
    [ready] = [seed.id for seed in world.kept(SeedState.READY)]

    assert api.release(*ids, ready, UNKNOWN).count == 2


def test_those_of_a_filter_are_released_failed_ones_unless_it_says(world, api):
    failed(world, 1, 2, 3)
    world.add(4)
    world.dispatch()
    world.work(lambda _: Done(()))

    first = api.release_those(limit=2)
    rest = api.release_those(cursor=first.cursor, limit=2)

    assert ((first.count, first.more), (rest.count, rest.more)) == ((2, True), (1, False))
    assert [seed.spec.url for seed in world.kept(SeedState.FINISHED)] == [url(4)]
    assert api.release_those(SeedSelection(state=SeedState.FINISHED)).count == 1
    assert api.release_those().count == 0
    with pytest.raises(InvalidRequestError, match=r"filter\.state"):
        api.release_those(SeedSelection(state=SeedState.HANDED))


# ---- forgotten ---------------------------------------------------------------------------------


def test_a_forgotten_url_is_accepted_anew_although_the_filter_knew_it(world, api):
    world.add(1, 2)
    [first] = [seed.id for seed in world.kept() if seed.spec.url == url(1)]

    api.forget_one(first)

    assert [answer.accepted for answer in world.add(1, 2)] == [True, False]
    with pytest.raises(NotFoundError):
        api.forget_one(UNKNOWN)


def test_seeds_are_forgotten_by_name_or_by_filter(world, api):
    world.add(*range(5))
    ids = [seed.id for seed in world.kept()]

    assert api.forget(ids[0], UNKNOWN).count == 1
    first = api.forget_those(SeedSelection(segment="2026-03-01"), limit=3)
    assert (first.count, first.more) == (3, True)
    assert api.forget_those(cursor=first.cursor).count == 1
    assert world.kept() == []
    assert api.forget_those().count == 0


def test_when_the_filter_cannot_be_dropped_forgetting_is_to_be_repeated(world, api):
    world.add(1)
    [seed_id] = [seed.id for seed in world.kept()]

    with pytest.raises(StoreUnavailableError):
        Api(world, filter=Broken()).forget(seed_id)

    assert api.forget(seed_id).count == 0
    assert world.add(1)[0].accepted


@pytest.mark.parametrize("wrong", ["", "2026-03-01", "2026-03-01/xyz", "a/b/" + "0" * 32, "/" * 40])
def test_what_is_no_seed_is_named(api, wrong):
    with pytest.raises(InvalidRequestError, match=r"seeds\[1\]"):
        api.release(UNKNOWN, wrong)
    with pytest.raises(InvalidRequestError, match=r"seeds\[0\]"):
        api.forget(wrong)
    with pytest.raises(InvalidRequestError, match=r"^seed: "):
        api.forget_one(wrong)


def test_another_tenant_sees_and_changes_nothing(world, api):
    ids = failed(world, 1)
    other = (world.ports(), world.tree, "acme", "docs")

    assert seeds.list_seeds(*other, EVERY, cursor=None, limit=9).items == []
    assert seeds.seed_totals(*other, world.now) == []
    assert seeds.release_seeds(*other, ids, "them", world.now).count == 0
    assert seeds.forget_seeds(*other, ids).count == 0
    assert (
        len(world.seeds.find(DOCS, world.biz, segment=None, state=None, after=None, limit=9)) == 1
    )
