from datetime import timedelta

import pytest

from tests.kit.config import Span
from tests.kit.frontier import LARGEST_SEED, SeedSpec, SeedState, Segment, seed_key
from tests.kit.kernel import InvalidRequestError, StoreUnavailableError
from tests.kit.worlds.doubles import Broken, Failing
from tests.kit.worlds.frontier import SeedWorld, a_spec, url
from tests.kit.worlds.memory import DOCS, START

DAY = timedelta(days=1)
TODAY = "2026-03-01"


@pytest.fixture
def world() -> SeedWorld:
    return SeedWorld()


def accepted(answers):
    return [each.accepted for each in answers]


def test_a_seed_is_accepted_with_its_segment_and_key(world):
    [answer] = world.add(a_spec(1, meta={"a": 1}, depth=3, job="june"))

    assert (answer.accepted, answer.segment, answer.why) == (True, TODAY, "")
    assert answer.key == seed_key(url(1)).hex()
    [seed] = world.kept()
    assert seed.spec == a_spec(1, meta={"a": 1}, depth=3, job="june")
    assert (seed.state, seed.due_at, seed.offered_at) == (SeedState.READY, START, START)
    assert seed.ends_at == START + DAY / 2


def test_the_same_page_is_a_duplicate_in_the_same_segment_and_says_which(world):
    world.add(1)

    [answer] = world.add(a_spec(1, url=f"{url(1)}?utm_source=x#part"))

    assert (answer.accepted, answer.segment) == (False, TODAY)
    assert answer.key == seed_key(url(1)).hex()
    assert answer.why == f"known in segment {TODAY}, by its filter"
    world.now += DAY
    assert accepted(world.add(1, 1)) == [True, False]


def test_twice_in_one_call_is_once(world):
    answers = world.add(1, 2, 1)

    assert accepted(answers) == [True, True, False]
    assert "twice" in answers[2].why
    assert len(world.kept()) == 2
    again = world.add(3, 1, 3)
    assert [each.accepted for each in again] == [True, False, False]
    assert TODAY in again[1].why
    assert "twice" in again[2].why


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (a_spec(1, url="ftp://example.org/"), "url"),
        (a_spec(1, url="http://user@example.org/"), "url"),
        (a_spec(1, rule="other"), "rule"),
        (a_spec(1, rule=""), "rule"),
        (a_spec(1, headers={"X": "a\r\nb"}), "headers"),
        (a_spec(1, meta={"x": "y" * LARGEST_SEED}), "meta"),
        (a_spec(1, meta={"x": object()}), "meta"),
        (a_spec(1, meta={"x": 2**70}), "meta"),
        (a_spec(1, starts_at=START + 400 * DAY), "starts_at"),
    ],
)
def test_what_cannot_be_worked_on_is_refused_by_name_and_others_are_not(world, wrong, field):
    problem, good = world.ports().add_each(DOCS, world.biz, [wrong, a_spec(2)], world.now)

    assert problem.field == field
    assert good.accepted
    [refused] = world.add(wrong)
    assert (refused.accepted, refused.segment, refused.key) == (False, "", "")
    assert refused.why == str(problem)
    assert [seed.spec.url for seed in world.kept()] == [url(2)]


def test_a_url_that_no_key_can_be_made_of_is_refused_and_others_are_not(world):
    def picky(url, rules, **_):
        if url.endswith("1"):
            raise InvalidRequestError.of("url", "is no URL: odd")
        return seed_key(url, rules)

    ports = world.ports(resolver=lambda *_: picky)

    bad, good = ports.add_each(DOCS, world.biz, [a_spec(1), a_spec(2)], world.now)

    assert bad.field == "url"
    assert bad.message.endswith(": odd")
    assert good.accepted


def test_a_seed_for_later_waits_in_its_own_segment(world):
    later = START + 2 * DAY

    today, ahead = world.add(1, a_spec(1, starts_at=later))

    assert (today.segment, ahead.segment) == (TODAY, "2026-03-03")
    assert accepted([today, ahead]) == [True, True]
    assert [seed.due_at for seed in world.kept()] == [START, later]
    assert accepted(world.add(a_spec(1, starts_at=START - DAY))) == [False]


def test_a_false_answer_of_the_filter_loses_a_page_unless_the_biz_is_exact(world):
    class Lying:
        def seen(self, *arguments):
            return [True] * len(arguments[-1])

        def add(self, *arguments):
            pass

    assert accepted(world.add(1, filter=Lying())) == [False]
    world.set_policy(exact=True)
    assert accepted(world.add(1, filter=Lying())) == [True]
    [again] = world.add(1, filter=Lying())
    assert (again.accepted, again.why) == (False, f"known in segment {TODAY}")


def test_a_lost_filter_costs_look_ups_and_nothing_else(world):
    world.add(1, 2)
    world.filter.drop(DOCS, TODAY)

    answers = world.add(1, 2, 3)

    assert accepted(answers) == [False, False, True]
    assert answers[0].why == f"known in segment {TODAY}"
    assert world.add(1)[0].why.endswith("by its filter"), "it was told again"


def test_without_redis_seeds_are_checked_in_mongodb(world):
    world.add(1)

    answers = world.add(1, 2, filter=Broken())

    assert accepted(answers) == [False, True]
    assert len(world.warnings) == 2
    assert accepted(world.add(2)) == [False]


def test_without_mongodb_nothing_is_accepted_and_nothing_is_taken_for_known(world):
    with pytest.raises(StoreUnavailableError):
        world.add(1, seeds=Failing(world.seeds, insert=1))

    assert accepted(world.add(1)) == [True]


def test_a_spider_may_decide_by_itself_what_is_the_same_page(world):
    def by_host(biz, rule):
        return lambda given, rules: seed_key(given.rpartition("/")[0], rules)

    assert accepted(world.add(1, 2, resolver=by_host)) == [True, False]


def test_segments_may_be_of_any_kind(world):
    world.set_policy(span=Span.FOREVER)
    assert world.add(1)[0].segment == "forever"
    world.now += 365 * DAY
    assert accepted(world.add(1)) == [False]

    def season(policy, at):
        return Segment("2027-spring", START, START + 90 * DAY)

    assert world.add(SeedSpec(url=url(1), rule="page"), segments=season)[0].segment == "2027-spring"
