"""Seeds are read by segment, state, key and job, and counted: memory and a real MongoDB."""

import pytest

from tests.contract.seed_cases import (
    DAY,
    FAILED,
    HANDED,
    HOUR,
    READY,
    TODAY,
    TOMORROW,
    Bed,
    a_seed,
    seeds_of,
)
from tests.contract.store_cases import NOW
from tests.kit.frontier import MongoSeeds, SeedSpec, SeedTotals, Segment
from tests.kit.implementations import fixture_over
from tests.kit.kernel import QueueKey

store = fixture_over(MongoSeeds)


@pytest.fixture
def bed(store: MongoSeeds, queue_key: QueueKey) -> Bed:
    return Bed(store, queue_key)


def test_seeds_are_found_by_segment_and_state_page_by_page(bed):
    bed.insert(*seeds_of(*range(10)), *seeds_of(*range(5), segment=TOMORROW))
    bed.ended(*bed.dispatch(1, 2, 3), why="404")
    every = sorted(
        seed.id for seed in [*seeds_of(*range(10)), *seeds_of(*range(5), segment=TOMORROW)]
    )

    pages, after = [], None
    while page := bed.find(after=after, limit=4):
        pages.append([seed.id for seed in page])
        after = pages[-1][-1]

    assert [len(page) for page in pages] == [4, 4, 4, 3]
    assert [one for page in pages for one in page] == every
    assert [seed.id for seed in bed.find(TOMORROW.name)] == every[10:]
    assert len(bed.find(TODAY.name, FAILED)) == 3
    assert len(bed.find(state=READY)) == 12
    assert len(bed.find(TODAY.name, READY, after=every[4])) == len(
        [seed for seed in bed.find(TODAY.name, READY) if seed.id > every[4]]
    )
    assert bed.find("2026-03") == []
    assert bed.find(TODAY.name, after=every[9]) == []


def test_seeds_are_found_by_their_keys_in_whatever_segment_the_newest_first(bed):
    today, tomorrow, other = a_seed(1), a_seed(1, TOMORROW), a_seed(2)
    bed.insert(today, tomorrow, other, a_seed(3))

    assert bed.of_keys(today) == [tomorrow, today]
    assert bed.of_keys(other, today, other) == [tomorrow, other, today]
    assert bed.of_keys(a_seed(4)) == bed.of_keys() == []


def test_seeds_are_found_by_their_keys_in_a_month_of_segments(bed):
    days = [Segment(f"2026-01-{day:02d}", NOW, NOW + DAY) for day in range(1, 32)]
    days += [TODAY, TOMORROW]
    bed.insert(*(a_seed(1, day, due_at=NOW) for day in days))

    found = [seed.segment for seed in bed.of_keys(a_seed(1))]

    assert found == [day.name for day in reversed(days)][:31]


def test_totals_report_of_each_segment_the_newest_first(bed):
    bed.insert(*seeds_of(*range(10)), *seeds_of(1, 2, segment=TOMORROW))
    bed.insert(a_seed(11, due_at=NOW + HOUR))
    handed = bed.dispatch(*range(1, 7))
    bed.ended(*handed[:3])
    bed.ended(handed[3], why="404")

    assert bed.totals() == [
        SeedTotals(segment=TOMORROW.name, waiting=2),
        SeedTotals(segment=TODAY.name, ready=4, waiting=1, handed=2, finished=3, failed=1),
    ]
    assert bed.totals(TOMORROW.starts_at)[0].ready == 2


def test_totals_report_of_a_month_of_segments(bed):
    days = [Segment(f"2026-01-{n:02d}", NOW, NOW + DAY) for n in range(1, 32)]
    more = [Segment(f"2026-02-{n:02d}", NOW, NOW + DAY) for n in range(1, 6)]
    bed.insert(*(a_seed(n, segment) for n, segment in enumerate([*days, *more])))

    found = [total.segment for total in bed.totals()]

    assert found == sorted((segment.name for segment in [*days[5:], *more]), reverse=True)


def test_the_newest_segments_are_those_by_time_whatever_their_names_are(bed):
    """Weeks and jobs have names of their own, and of many jobs none hides the day or the week."""
    weeks = [f"2026-W{n:02d}" for n in range(1, 36)]
    days = [f"2026-08-{n:02d}" for n in range(1, 31)]
    jobs = [f"2026-08-29T{n // 60:02d}:{n % 60:02d}:00Z.job-{n}" for n in range(40)]
    names = ["2025-12-31", "forever", "2026-09", *weeks, *days, *jobs]
    bed.insert(*(a_seed(1, Segment(name, NOW, NOW + DAY), due_at=NOW) for name in names))

    found = [total.segment for total in bed.totals()]

    first = ["forever", "2026-09", "2026-W35", "2026-08-30", "2026-08-29"]
    assert found == [*first, *reversed(jobs[-26:])]
    assert [seed.segment for seed in bed.of_keys(a_seed(1))] == found
    bed.forget(*(a_seed(1, Segment(name, NOW, NOW + DAY)) for name in jobs))
    then = [total.segment for total in bed.totals()]
    assert then[:5] == first
    assert then[5:12] == [*(f"2026-08-{n}" for n in range(28, 23, -1)), "2026-W34", "2026-08-23"]
    assert len(then) == 31


def test_open_seeds_of_a_job_are_ready_or_dispatched(bed):
    july = SeedSpec(url="https://site.example/july", rule="detail", job="july")
    none = SeedSpec(url="https://site.example/none", rule="detail")
    ready, late, handed, over = (
        a_seed(1),
        a_seed(2, TOMORROW),
        a_seed(3, state=HANDED, request=2**62, handed_at=NOW, due_at=NOW + HOUR),
        a_seed(4, state=HANDED, request=2**62 + 1, handed_at=NOW, due_at=NOW + HOUR),
    )
    bed.insert(ready, late, handed, over, a_seed(5, spec=july), a_seed(6, spec=none))
    bed.ended(over)

    found = bed.store.open_of_job(bed.queue_key, bed.biz, "june", 10)

    assert {seed.id for seed in found} == {ready.id, late.id, handed.id}
    assert len(bed.store.open_of_job(bed.queue_key, bed.biz, "june", 2)) == 2
    assert bed.store.open_of_job(bed.queue_key, bed.biz, "august", 10) == []
    assert (
        bed.store.open_of_job(
            QueueKey(f"{bed.queue_key.tenant}b", "docs", "main"), bed.biz, "june", 9
        )
        == []
    )
