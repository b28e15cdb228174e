from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.config_documents import biz, generation
from tests.kit.config import LEAD, Biz, change_problems, ended_at

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def made(*starts, **changes):
    changes = {"ttl_seconds": 86_400, "records_ttl_seconds": 86_400, **changes}
    generations = [
        generation((NOW + start).isoformat(), shards=number + 1)
        for number, start in enumerate(starts)
    ]
    return msgspec.convert(biz(generations=generations, **changes), Biz)


def problems(old, new):
    return [str(problem) for problem in change_problems(old, new, NOW)]


def test_an_added_generation_starts_later_than_every_router_learns_of_it():
    old = made(-9 * DAY)

    assert problems(old, made(-9 * DAY, LEAD + timedelta(seconds=1))) == []
    [early] = problems(old, made(-9 * DAY, LEAD))
    assert early.startswith("generations[1].starts_at: ")
    assert "later than 2026-06-01T12:00:30Z" in early
    assert len(problems(old, made(-9 * DAY, -8 * DAY))) == 1


def test_a_generation_may_not_be_put_before_the_first_one():
    old = made(-9 * DAY)
    first = made(-10 * DAY).generations[0]
    new = msgspec.structs.replace(old, generations=(first, *old.generations))

    assert problems(old, new)[0].startswith("generations[0].starts_at: ")


def test_a_started_generation_may_not_change():
    old = made(-9 * DAY)
    changed = msgspec.structs.replace(old.generations[0], shards=7)

    [problem] = problems(old, msgspec.structs.replace(old, generations=(changed,)))
    assert problem.startswith("generations[0]: ")
    assert "2026-05-23T12:00:00Z" in problem


def test_a_generation_about_to_start_counts_as_started():
    soon = timedelta(seconds=20)

    assert "about to start" in problems(made(-9 * DAY, soon), made(-9 * DAY))[0]


def test_a_future_generation_may_change_and_go():
    old = made(-9 * DAY, DAY)
    changed = msgspec.structs.replace(old.generations[1], shards=9)

    assert problems(old, made(-9 * DAY)) == []
    new = msgspec.structs.replace(old, generations=(old.generations[0], changed))
    assert problems(old, new) == []


def test_a_generation_goes_only_when_nothing_of_it_is_left():
    # A segment of a day and one for the clock's shifts, the TTL, and 30 days of archived seeds.
    over = made(-90 * DAY, -33 * DAY - timedelta(seconds=1))
    young = made(-90 * DAY, -32 * DAY)

    def without_first(document):
        return msgspec.structs.replace(document, generations=document.generations[1:])

    assert problems(over, without_first(over)) == []
    [problem] = problems(young, without_first(young))
    assert problem.startswith("generations: ")
    assert "2026-03-03T12:00:00Z" in problem


def test_a_shorter_ttl_frees_nothing_at_once():
    old = made(-9 * DAY, -3 * DAY, ttl_seconds=10 * 86_400)
    new = msgspec.structs.replace(old, generations=old.generations[1:], ttl_seconds=60)

    assert len(problems(old, new)) == 1


def test_records_kept_for_ever_keep_their_generations():
    old = made(-90 * DAY, -80 * DAY, records_ttl_seconds=None)
    new = msgspec.structs.replace(old, generations=old.generations[1:])

    assert "records" in problems(old, new)[0]


@pytest.mark.parametrize(
    ("seeds", "days"),
    [
        ({"span": "hour", "archive_days": 10}, 10 + 2 + 1 / 24),
        ({"span": "month"}, 30 + 2 + 31),
        ({"span": "custom", "span_seconds": 86_400 * 5}, 30 + 2 + 5),
        ({"archive_days": 365}, 365 + 2 + 1),
    ],
)
def test_a_generation_is_kept_for_as_long_as_seeds_of_its_last_segment_are(seeds, days):
    ends_at = ended_at(made(-900 * DAY, -800 * DAY, seeds=seeds), 0)

    assert ends_at == NOW - 800 * DAY + timedelta(days=days)


def test_seeds_kept_for_ever_keep_their_generations():
    old = made(-900 * DAY, -800 * DAY, seeds={"span": "forever"})
    new = msgspec.structs.replace(old, generations=old.generations[1:])

    assert "seeds.span" in problems(old, new)[0]
    shorter = msgspec.structs.replace(new, seeds=made(-9 * DAY).seeds)
    assert len(problems(old, shorter)) == 1, "a shorter life frees nothing at once"


def test_pages_that_are_read_again_by_themselves_move_before_their_generation_goes():
    read_again = {"schedule": True, "max_seconds": 86_400 * 200}
    seeds = {"archive_days": 1}
    document = made(-900 * DAY, -800 * DAY, seeds=seeds, recrawl=read_again)

    assert ended_at(document, 0) == NOW - (800 - 221) * DAY
    quiet = made(-900 * DAY, -800 * DAY, seeds=seeds, recrawl={**read_again, "schedule": False})
    assert ended_at(quiet, 0) == NOW - (800 - 4) * DAY


def test_the_last_generation_never_ends():
    document = made(-90 * DAY, -80 * DAY)

    assert ended_at(document, 0) == NOW - 47 * DAY
    assert ended_at(document, 1) is None


def test_the_collection_may_not_change():
    old = made(-9 * DAY)

    [problem] = problems(old, msgspec.structs.replace(old, collection="other"))
    assert problem.startswith("collection: ")


def test_what_routes_nothing_may_change():
    old = made(-9 * DAY)

    assert problems(old, msgspec.structs.replace(old, queue="fast", ttl_seconds=90)) == []


@given(
    starts=st.lists(st.integers(-5000, 5000), min_size=1, max_size=6, unique=True),
    added=st.integers(31, 10_000),
)
def test_appending_in_the_future_is_always_allowed(starts, added):
    spans = [timedelta(seconds=start) for start in sorted(starts)]
    old = made(*spans)
    new = made(*spans, spans[-1] + timedelta(seconds=10_000 + added))

    assert problems(old, old) == []
    assert problems(old, new) == []
