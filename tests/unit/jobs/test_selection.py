"""Selection for a job: who may apply and who wins; the rules, and their invariants."""

import math
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.bidding import Application, Probe, after, award, fits, lowered, wanted
from tests.kit.config import BiddingTerms, Weights
from tests.kit.fleet import Remaining
from tests.kit.jobs import JobDemand, Usage
from tests.kit.spiders import LinkNeeds

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
TERMS = BiddingTerms()
GOOD = Probe(at=NOW, seconds=0.05, bytes_per_second=1e6)
ANY_LINK = LinkNeeds()
KNOWN = JobDemand(
    tenant="acme",
    biz="shop",
    spider="pages",
    runs=3,
    usage=Usage(memory=50, memory_max=100, cpu=1.0, cpu_max=9.0, bandwidth=200, bandwidth_max=900),
)
NEVER_RAN = replace(KNOWN, runs=0)
ROOMY = Remaining(memory=1e9, cpu=10, bandwidth=1e9)

amounts = st.floats(min_value=0, max_value=1e12)
maybe = st.none() | amounts
remainders = st.builds(Remaining, memory=maybe, cpu=maybe, bandwidth=maybe)
probes = st.builds(
    Probe, at=st.just(NOW), seconds=st.none() | st.floats(0, 100), bytes_per_second=maybe
)


def applications(least: int = 1, most: int = 12) -> st.SearchStrategy[list[Application]]:
    one = st.builds(
        Application,
        worker=st.text("abcdef", min_size=1, max_size=3),
        pool=st.sampled_from(["main", "large"]),
        remaining=remainders,
        probe=probes,
        at=st.integers(0, 5).map(lambda seconds: NOW + timedelta(seconds=seconds)),
        lately=st.integers(0, 5),
    )
    return st.lists(one, min_size=least, max_size=most)


def an_application(worker: str, remaining: Remaining = ROOMY, **changes: object) -> Application:
    facts = {"pool": "main", "probe": GOOD, "at": NOW, **changes}
    return Application(worker=worker, remaining=remaining, **facts)


def winner(*given: Application, terms: BiddingTerms = TERMS) -> str:
    return award(given, terms).winner.worker


# ---- applying ----------------------------------------------------------------------------------


def test_of_a_spider_that_never_ran_only_latency_and_speed_decide() -> None:
    nothing = Remaining(memory=0, cpu=0, bandwidth=0)
    link = LinkNeeds(seconds_below=0.1, bytes_per_second_above=1_000)

    assert fits(nothing, GOOD, NEVER_RAN, link, 0, TERMS).is_fit
    late = replace(GOOD, seconds=0.1)
    slow = replace(GOOD, bytes_per_second=1_000.0)
    assert "100 ms" in fits(ROOMY, late, NEVER_RAN, link, 0, TERMS).why_not[0]
    assert "1.0 kB/s" in fits(ROOMY, slow, NEVER_RAN, link, 0, TERMS).why_not[0]


def test_each_resource_is_there_or_is_missed_by_no_more_than_the_margin() -> None:
    enough = Remaining(memory=90, cpu=0.9, bandwidth=180)
    assert fits(enough, GOOD, KNOWN, ANY_LINK, 0, TERMS).is_fit

    for field in ("memory", "cpu", "bandwidth"):
        less = replace(enough, **{field: getattr(enough, field) * 0.99})
        (why,) = fits(less, GOOD, KNOWN, ANY_LINK, 0, TERMS).why_not
        assert why.startswith(f"{field}: ")


def test_memory_is_wanted_at_its_highest_and_the_others_on_average() -> None:
    assert wanted(KNOWN, 0) == {"memory": 100, "cpu": 1.0, "bandwidth": 200}


def test_what_cannot_be_read_keeps_nobody_from_applying() -> None:
    unknown = Remaining(memory=1_000, cpu=None, bandwidth=math.nan)
    assert fits(unknown, GOOD, KNOWN, ANY_LINK, 0, TERMS).is_fit


def test_who_gets_no_answer_from_the_site_does_not_fit_whatever_it_has() -> None:
    silent = Probe(at=NOW, fault="timed out")
    (why,) = fits(ROOMY, silent, NEVER_RAN, ANY_LINK, 0, TERMS).why_not
    assert "timed out" in why


def test_an_unknown_speed_is_not_above_a_floor_and_matters_only_where_there_is_one() -> None:
    empty = Probe(at=NOW, seconds=0.01)
    assert fits(ROOMY, empty, KNOWN, ANY_LINK, 0, TERMS).is_fit
    floor = LinkNeeds(bytes_per_second_above=1)
    assert not fits(ROOMY, empty, KNOWN, floor, 0, TERMS).is_fit
    not_a_number = replace(GOOD, seconds=math.nan)
    assert not fits(ROOMY, not_a_number, KNOWN, LinkNeeds(seconds_below=1), 0, TERMS).is_fit


def test_a_decline_names_every_reason() -> None:
    poor = Remaining(memory=1, cpu=0.1, bandwidth=1)
    link = LinkNeeds(seconds_below=0.01, bytes_per_second_above=10**9)
    assert len(fits(poor, GOOD, KNOWN, link, 0, TERMS).why_not) == 5


@given(remainders, st.integers(0, 6), st.integers(0, 6), st.floats(0, 1))
def test_who_fits_a_demand_fits_every_smaller_one(
    remaining: Remaining, times: int, more: int, part: float
) -> None:
    assume(fits(remaining, GOOD, KNOWN, ANY_LINK, times, TERMS).is_fit)

    values = {name: part * value for name, value in msgspec.structs.asdict(KNOWN.usage).items()}
    smaller = replace(KNOWN, usage=Usage(**values))
    assert fits(remaining, GOOD, smaller, ANY_LINK, times, TERMS).is_fit
    assert fits(remaining, GOOD, KNOWN, ANY_LINK, times + more, TERMS).is_fit


def test_a_demand_is_lowered_by_a_tenth_and_is_out_the_seventh_time() -> None:
    parts = [lowered(times) for times in range(7)]
    assert parts == pytest.approx([1, 0.9, 0.81, 0.729, 0.6561, 0.59049, 0.531441])
    assert [lowered(times) for times in (7, 8, 1_000, 10**6)] == [None] * 4


def test_what_is_left_beside_a_job_just_won_is_less_and_never_below_nothing() -> None:
    left = after(Remaining(memory=150, cpu=0.5, bandwidth=None), KNOWN.usage)
    assert left == Remaining(memory=50, cpu=0, bandwidth=None)


# ---- awarding ----------------------------------------------------------------------------------


def test_one_applicant_gets_the_job_whatever_it_is_like() -> None:
    assert winner(an_application("a", Remaining(memory=0))) == "a"
    with pytest.raises(ValueError, match="nobody"):
        award([], TERMS)


def test_who_is_clearly_later_or_slower_is_dropped_whatever_it_has() -> None:
    poor = Remaining(memory=1, cpu=1, bandwidth=1)
    good = an_application("z", poor)
    late = an_application("a", probe=replace(GOOD, seconds=0.55))
    slow = an_application("b", probe=replace(GOOD, bytes_per_second=1e5))

    found = award([late, slow, good], TERMS)

    assert found.winner.worker == "z"
    assert [(one.worker, one.score is None) for one in found.ranking] == [
        ("z", False),
        ("a", True),
        ("b", True),
    ]
    assert "500 ms later" in found.ranking[1].why
    assert "10 times slower" in found.ranking[2].why


def test_not_quite_so_late_or_slow_is_not_dropped() -> None:
    poor = Remaining(memory=1, cpu=1, bandwidth=1)
    probe = replace(GOOD, seconds=0.54, bytes_per_second=5.1e5)
    assert winner(an_application("z", probe=probe), an_application("a", poor)) == "z"


def test_a_link_as_fast_as_runs_took_is_as_good_as_a_faster_one() -> None:
    narrow = an_application("a", probe=replace(GOOD, bytes_per_second=150.0))
    poor = Remaining(memory=1, cpu=1, bandwidth=1)
    wide = an_application("z", poor, probe=replace(GOOD, bytes_per_second=1e9))

    assert award([narrow, wide], TERMS, KNOWN).winner.worker == "a"
    for demand in (None, NEVER_RAN, replace(KNOWN, usage=Usage(memory=1))):
        assert award([narrow, wide], TERMS, demand).winner.worker == "z"


def test_a_link_of_half_the_speed_that_runs_took_drops_out_with_the_reason() -> None:
    narrow = an_application("a", probe=replace(GOOD, bytes_per_second=100.0))

    found = award([narrow, an_application("z", Remaining(memory=0))], TERMS, KNOWN)

    assert found.winner.worker == "z"
    assert "2 times slower" in found.ranking[1].why
    assert "200 B/s" in found.ranking[1].why


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=8), st.floats(1, 1e6), st.floats(1.1, 50))
def test_who_reaches_what_runs_took_is_never_dropped_for_its_speed(
    speeds: list[float], taken: float, times: float
) -> None:
    given_ = [
        an_application(f"w{n}", probe=replace(GOOD, bytes_per_second=speed))
        for n, speed in enumerate(speeds)
    ]
    demand = replace(KNOWN, usage=Usage(bandwidth=taken))

    found = award(given_, replace(TERMS, slower_times=times), demand)

    dropped = {one.worker for one in found.ranking if one.score is None}
    assert not dropped & {f"w{n}" for n, speed in enumerate(speeds) if speed >= taken}


def test_where_no_link_is_fast_enough_the_fastest_counts() -> None:
    ways = {"a": 40.0, "b": 60.0, "c": 100.0}
    given = [
        an_application(name, Remaining(memory=memory), probe=replace(GOOD, bytes_per_second=speed))
        for memory, (name, speed) in zip((900, 800, 700), ways.items(), strict=True)
    ]
    assert award(given, TERMS, KNOWN).winner.worker == "b"


def test_the_swiftest_may_be_late_and_the_soonest_slow_and_still_somebody_is_left() -> None:
    soon = an_application("a", probe=Probe(at=NOW, seconds=0.01, bytes_per_second=1.0))
    swift = an_application("b", probe=Probe(at=NOW, seconds=9.0, bytes_per_second=1e9))
    assert winner(soon, swift) == "a"


def test_who_got_an_answer_comes_before_who_got_none() -> None:
    silent = an_application("a", probe=Probe(at=NOW, fault="refused"))
    assert winner(silent, an_application("b", Remaining(memory=0))) == "b"
    assert winner(silent) == "a"


def test_the_most_by_weight_wins_and_weights_decide_what_counts() -> None:
    memory = an_application("m", Remaining(memory=100, cpu=1, bandwidth=10))
    cpu = an_application("c", Remaining(memory=10, cpu=4, bandwidth=10))

    assert winner(memory, cpu) == "m"
    assert winner(memory, cpu, terms=BiddingTerms(weights=Weights(memory=0))) == "c"
    assert winner(memory, cpu, terms=BiddingTerms(weights=Weights(cpu=3))) == "c"


def test_an_unknown_reading_counts_as_the_least_of_those_that_are_known() -> None:
    rich = an_application("a", Remaining(memory=100, cpu=4))
    poor = an_application("b", Remaining(memory=100, cpu=1))
    unknown = an_application("c", Remaining(memory=100, cpu=None))

    ranking = award([unknown, poor, rich], TERMS).ranking

    assert [one.worker for one in ranking] == ["a", "b", "c"]
    assert ranking[1].score == ranking[2].score
    assert "unknown" in ranking[2].why


def test_who_has_just_won_is_worth_less_so_that_jobs_at_once_are_spread_by_size() -> None:
    """A worker with three times as much gets three of four jobs before any reading has changed."""
    lately = {"big": 0, "small": 0}
    for _ in range(8):
        found = winner(
            an_application("big", Remaining(memory=300), lately=lately["big"]),
            an_application("small", Remaining(memory=100), lately=lately["small"]),
        )
        lately[found] += 1
    assert lately == {"big": 6, "small": 2}


def test_a_worker_that_applies_twice_is_one_applicant_as_it_said_last() -> None:
    before = an_application("a", Remaining(memory=900))
    now = an_application("a", Remaining(memory=1), at=NOW + timedelta(seconds=1))
    found = award([now, before, an_application("b", Remaining(memory=100))], TERMS)
    assert (found.winner.worker, len(found.ranking)) == ("b", 2)


demands = st.none() | amounts.map(
    lambda bandwidth: replace(KNOWN, usage=Usage(memory=1, bandwidth=bandwidth))
)


@given(applications(), demands)
def test_an_award_goes_to_one_of_the_applicants_and_judges_each_once(
    given: list[Application], demand: JobDemand | None
) -> None:
    found = award(given, TERMS, demand)

    assert found.winner in given
    assert sorted(one.worker for one in found.ranking) == sorted({one.worker for one in given})
    assert found.ranking[0].worker == found.winner.worker
    assert found.ranking[0].score is not None
    assert all(one.score is None or math.isfinite(one.score) for one in found.ranking)


@given(applications(), st.randoms())
def test_the_order_of_the_applications_does_not_matter(given: list[Application], random) -> None:
    given = list({one.worker: one for one in given}.values())
    shuffled = random.sample(given, len(given))

    assert award(shuffled, TERMS) == award(given, TERMS)


@given(applications(), *[st.integers(-20, 20).map(lambda power: 2.0**power)] * 3)
def test_units_do_not_decide(
    given: list[Application], memory: float, cpu: float, bandwidth: float
) -> None:
    factors = {"memory": memory, "cpu": cpu, "bandwidth": bandwidth}
    scaled = [
        replace(
            one,
            remaining=Remaining(
                **{
                    name: None if (left := getattr(one.remaining, name)) is None else left * factor
                    for name, factor in factors.items()
                }
            ),
        )
        for one in given
    ]
    # What underflows is no scaling.
    assume(
        all(
            left is None or left == 0 or left > 1e-200
            for one in given
            for left in msgspec.structs.astuple(one.remaining)
        )
    )

    ranked = [(one.worker, one.score) for one in award(given, TERMS).ranking]
    assert [(one.worker, one.score) for one in award(scaled, TERMS).ranking] == ranked
