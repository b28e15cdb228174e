"""Forecasts: from runs of the spider, its hosts, its tenant; ranges; learning."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import PriceTerms
from tests.kit.costs import Known, RunSummary, forecast, prices_of, reach_of
from tests.kit.jobs import Band, JobForecast

PRICES = prices_of(PriceTerms())
amounts = st.integers(0, 10**9)
runs = st.builds(
    RunSummary,
    size=st.integers(0, 10**6),
    pages=st.integers(0, 10**6),
    seconds=st.floats(0, 1e6),
    bytes=amounts,
    gb_seconds=st.floats(0, 1e6),
)


def a_run(size: int, pages: int | None = None, **changes: object) -> RunSummary:
    count = size if pages is None else pages
    facts = {"seconds": 5 + count / 10, "bytes": count * 40_000, "gb_seconds": 0.02 * count}
    return RunSummary(size=size, pages=count, **(facts | changes))  # type: ignore[arg-type]


def foreseen(size: int, *known: RunSummary, follows: bool = False, **more: list) -> JobForecast:
    return forecast(size, Known(spider=known, **more), PRICES, follows=follows, seconds_a_page=0.1)


def test_a_run_like_all_others_takes_what_they_took() -> None:
    found = foreseen(100, *[a_run(100) for _ in range(8)])

    assert found.pages.likely == 100
    assert found.bytes.likely == 4_000_000
    assert found.seconds.likely == pytest.approx(15)
    assert found.usd.low <= found.usd.likely <= found.usd.high < 1.5 * found.usd.likely
    assert (found.runs, found.why) == (8, ())


def test_a_run_of_another_size_has_the_same_overhead_and_not_in_proportion() -> None:
    found = foreseen(1_000, *[a_run(size) for size in (50, 100, 200, 400)])

    assert found.seconds.likely == pytest.approx(105)
    assert found.pages.likely == pytest.approx(1_000)


def test_one_run_that_went_astray_changes_little() -> None:
    usual = [a_run(100) for _ in range(9)]
    astray = a_run(100, 9_000, seconds=40_000.0)

    found = foreseen(100, *usual, astray)

    assert found.pages.likely == pytest.approx(100)
    assert found.seconds.likely == pytest.approx(15)


def test_a_range_is_wide_where_little_is_known_and_says_so() -> None:
    none, one, many = foreseen(100), foreseen(100, a_run(100)), foreseen(100, *[a_run(100)] * 9)

    def width(found: JobForecast) -> float:
        return found.usd.high / found.usd.low

    assert width(none) > width(one) > width(many)
    assert "nothing was measured yet" in " ".join(none.why)
    assert "1 earlier run of it is known" in one.why[0]


def test_a_spider_that_never_ran_is_taken_to_read_pages_like_those_of_its_hosts() -> None:
    hosts, tenant = [a_run(10, bytes=10 * 7_000)] * 5, [a_run(10, bytes=10 * 900_000)] * 5

    assert foreseen(50, hosts=hosts, tenant=tenant).bytes.likely == 50 * 7_000
    assert foreseen(50, tenant=tenant).bytes.likely == 50 * 900_000
    assert foreseen(50).bytes.likely == 50 * 100_000


def test_links_that_nobody_has_followed_yet_lead_to_more_than_the_start() -> None:
    found = foreseen(5, follows=True)

    assert found.pages.likely > 5
    assert "follows links" in found.why[-1]
    assert foreseen(5, *[a_run(5, 300)] * 3, follows=True).pages.likely == pytest.approx(300)


def test_a_site_that_grows_is_followed_ahead_of_the_middle_of_its_runs() -> None:
    pages, known = 100.0, []
    for _ in range(20):
        said = foreseen(1, *known, follows=True)
        known.append(a_run(1, round(pages), forecast=said))
        pages *= 1.1
    behind = sorted(run.pages for run in known[-9:])[4]

    found = foreseen(1, *known, follows=True)

    assert abs(found.pages.likely / pages - 1) < 0.25
    assert abs(found.pages.likely / pages - 1) < abs(behind / pages - 1)


def test_the_middle_error_of_latest_forecasts_is_said() -> None:
    known = []
    for _ in range(6):
        known.append(a_run(100, forecast=foreseen(100, *known)))

    found = foreseen(100, *known)

    assert found.error == pytest.approx(0.0, abs=0.05)
    assert foreseen(100, a_run(100)).error is None


@given(st.integers(0, 10**6), st.lists(runs, max_size=6), st.lists(runs, max_size=3), st.booleans())
def test_whatever_was_measured_a_forecast_is_a_range_of_numbers_from_nothing_up(
    size: int, known: list[RunSummary], hosts: list[RunSummary], follows: bool
) -> None:
    found = foreseen(size, *known, follows=follows, hosts=hosts)

    for band in (found.pages, found.bytes, found.seconds, found.usd):
        assert 0 <= band.low <= band.likely <= band.high < 1e18


def test_eight_of_ten_runs_are_in_their_range() -> None:
    draw, known, within = random.Random(3), [], 0
    for number in range(120):
        found = foreseen(100, *known, follows=True)
        pages = round(100 * draw.lognormvariate(0, 0.3))
        if number >= 20:
            within += found.pages.low <= pages <= found.pages.high
        known = [*known, a_run(100, pages, forecast=found)][-20:]

    assert within >= 70


bands = (
    st.tuples(*[st.floats(0, 1e9)] * 3)
    .map(sorted)
    .map(lambda of: Band(low=of[0], likely=of[1], high=of[2]))
)


@given(bands, bands, st.floats(0.001, 1e9))
def test_a_budget_pays_for_a_part_that_is_a_part_and_no_more_pages_than_there_are(
    each: Band, money: Band, usd: float
) -> None:
    run = JobForecast(pages=each, bytes=each, seconds=each, usd=money)

    reach = reach_of(run, usd)

    assert 0 < reach.part.low <= reach.part.likely <= reach.part.high <= 1
    for found in (reach.pages, reach.seconds):
        assert 0 <= found.low <= found.likely <= found.high <= each.high
    if usd >= money.high:
        assert (reach.part.low, reach.pages, reach.seconds) == (1, each, each)
