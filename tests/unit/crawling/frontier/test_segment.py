from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.kit.config import SeedPolicy, Span
from tests.kit.frontier import (
    FOREVER,
    SegmentChoice,
    anchor_of,
    choice_problem,
    segment_in,
    segment_of,
    segment_of_job,
)

#: Spring and autumn at 1 h; at half an hour; at midnight; back over midnight at 00:01; a lost day.
ZONES = ["Europe/Berlin", "Australia/Lord_Howe", "America/Santiago", "America/St_Johns"]
ZONES += ["Pacific/Apia", "Asia/Kolkata", "America/Havana", "UTC"]
SPANS = [Span.HOUR, Span.DAY, Span.WEEK, Span.MONTH, Span.CUSTOM]
INSTANTS = st.datetimes(
    datetime(2009, 1, 1),  # noqa: DTZ001  hypothesis adds the zone
    datetime(2030, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
MICROSECOND = timedelta(microseconds=1)


def policy(span=Span.DAY, zone="UTC", seconds=None):
    if span is Span.CUSTOM:
        seconds = seconds or 21_600
    return SeedPolicy(span=span, timezone=zone, span_seconds=seconds)


def at(text):
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize(
    ("span", "zone", "moment", "name", "starts_at", "ends_at"),
    [
        ("day", "UTC", "2026-03-01T12:00Z", "2026-03-01", "2026-03-01T00:00Z", "2026-03-02T00:00Z"),
        (
            "day",
            "Asia/Tokyo",
            "2026-03-01T15:00Z",
            "2026-03-02",
            "2026-03-01T15:00Z",
            "2026-03-02T15:00Z",
        ),
        ("week", "UTC", "2026-03-01T12:00Z", "2026-W09", "2026-02-23T00:00Z", "2026-03-02T00:00Z"),
        ("week", "UTC", "2027-01-01T12:00Z", "2026-W53", "2026-12-28T00:00Z", "2027-01-04T00:00Z"),
        ("month", "UTC", "2026-02-28T12:00Z", "2026-02", "2026-02-01T00:00Z", "2026-03-01T00:00Z"),
        (
            "month",
            "Asia/Tokyo",
            "2026-12-31T20:00Z",
            "2027-01",
            "2026-12-31T15:00Z",
            "2027-01-31T15:00Z",
        ),
        (
            "hour",
            "Asia/Kolkata",
            "2026-03-01T12:00Z",
            "2026-03-01T11:30Z",
            "2026-03-01T11:30Z",
            "2026-03-01T12:30Z",
        ),
        (
            "custom",
            "UTC",
            "2026-03-01T13:00Z",
            "2026-03-01T12:00:00Z",
            "2026-03-01T12:00Z",
            "2026-03-01T18:00Z",
        ),
        # 23 and 25 hours, and a midnight that is skipped
        (
            "day",
            "Europe/Berlin",
            "2026-03-29T12:00Z",
            "2026-03-29",
            "2026-03-28T23:00Z",
            "2026-03-29T22:00Z",
        ),
        (
            "day",
            "Europe/Berlin",
            "2026-10-25T12:00Z",
            "2026-10-25",
            "2026-10-24T22:00Z",
            "2026-10-25T23:00Z",
        ),
        (
            "day",
            "America/Santiago",
            "2026-09-06T12:00Z",
            "2026-09-06",
            "2026-09-06T04:00Z",
            "2026-09-07T03:00Z",
        ),
        # the hour that comes twice is two hours; half an hour is one of its own
        (
            "hour",
            "Europe/Berlin",
            "2026-10-25T00:30Z",
            "2026-10-25T00:00Z",
            "2026-10-25T00:00Z",
            "2026-10-25T01:00Z",
        ),
        (
            "hour",
            "Europe/Berlin",
            "2026-10-25T01:30Z",
            "2026-10-25T01:00Z",
            "2026-10-25T01:00Z",
            "2026-10-25T02:00Z",
        ),
        (
            "hour",
            "Australia/Lord_Howe",
            "2026-10-03T15:40Z",
            "2026-10-03T15:30Z",
            "2026-10-03T15:30Z",
            "2026-10-03T16:00Z",
        ),
    ],
)
def test_a_moment_lies_in_its_segment(span, zone, moment, name, starts_at, ends_at):
    found = segment_of(policy(Span(span), zone), at(moment))

    assert (found.name, found.starts_at, found.ends_at) == (name, at(starts_at), at(ends_at))


def test_a_lost_day_is_no_segment_and_a_day_that_was_begun_goes_on():
    before, after = at("2011-12-30T09:59Z"), at("2011-12-30T10:00Z")
    lost = [segment_of(policy(zone="Pacific/Apia"), moment).name for moment in (before, after)]
    # 00:01 was set back to 23:01 of the day before.
    back = segment_of(policy(zone="America/St_Johns"), at("2010-11-07T02:40Z"))

    assert lost == ["2011-12-29", "2011-12-31"]
    assert (back.name, back.starts_at) == ("2010-11-07", at("2010-11-07T02:30Z"))


def test_forever_is_one_segment_without_an_end():
    eternal = policy(Span.FOREVER, "Asia/Tokyo")

    assert segment_of(eternal, at("1999-01-01T00:00Z")) == FOREVER
    assert segment_of(eternal, at("2100-01-01T00:00Z")) == FOREVER
    assert FOREVER.ends_at is None


@pytest.mark.parametrize("span", SPANS)
@given(moment=INSTANTS, zone=st.sampled_from(ZONES))
@example(moment=datetime(2026, 10, 25, 0, 59, 59, 999_999, tzinfo=UTC), zone="Europe/Berlin")
@example(moment=datetime(2026, 4, 4, 15, 10, tzinfo=UTC), zone="Australia/Lord_Howe")
@example(moment=datetime(2010, 11, 7, 3, tzinfo=UTC), zone="America/St_Johns")
@example(moment=datetime(2011, 12, 30, 9, 30, tzinfo=UTC), zone="Pacific/Apia")
def test_every_instant_lies_in_exactly_one_segment(span, moment, zone):
    rules = policy(span, zone)
    found = segment_of(rules, moment)

    assert found.starts_at <= moment < found.ends_at
    assert segment_of(rules, found.starts_at) == found
    assert segment_of(rules, found.ends_at - MICROSECOND) == found
    following = segment_of(rules, found.ends_at)
    assert following.starts_at == found.ends_at
    assert following.name > found.name


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe", "America/Santiago"])
@pytest.mark.parametrize("span", SPANS)
def test_a_year_is_covered_without_a_gap(zone, span):
    rules = policy(span, zone)
    segment = segment_of(rules, at("2026-01-01T00:00Z"))
    count = 0

    while segment.starts_at < at("2027-01-01T00:00Z"):
        following = segment_of(rules, segment.ends_at)
        assert following.starts_at == segment.ends_at
        assert following.name > segment.name
        assert timedelta() < segment.ends_at - segment.starts_at <= timedelta(days=31, hours=1)
        segment, count = following, count + 1

    assert count >= {Span.HOUR: 8_760, Span.CUSTOM: 1_460, Span.DAY: 365}.get(span, 12)


@pytest.mark.parametrize("span", SPANS)
@given(moment=INSTANTS, zone=st.sampled_from(ZONES))
def test_the_anchor_of_a_name_is_near_the_start_whatever_the_time_zone(span, moment, zone):
    found = segment_of(policy(span, zone), moment)

    assert abs(anchor_of(found.name) - found.starts_at) <= timedelta(hours=15)
    if span in {Span.HOUR, Span.CUSTOM}:
        assert anchor_of(found.name) == found.starts_at


@pytest.mark.parametrize("name", ["forever", "spring", "2026-13", "2026-02-30", "2026-W60", ""])
def test_names_of_other_resolvers_have_the_oldest_anchor(name):
    assert anchor_of(name) == datetime(1970, 1, 1, tzinfo=UTC)


def test_the_wall_clock_of_a_time_zone_is_what_counts():
    tokyo = ZoneInfo("Asia/Tokyo")

    assert segment_of(policy(), datetime(2026, 3, 1, 8, tzinfo=tokyo)).name == "2026-02-28"


@pytest.mark.parametrize(("seconds", "length"), [(0.2, 1), (90.4, 90), (1e12, 3_650 * 86_400)])
def test_a_span_of_ones_own_is_of_whole_seconds_within_bounds(seconds, length):
    found = segment_of(policy(Span.CUSTOM, seconds=seconds), at("2026-03-01T12:00Z"))

    assert found.ends_at - found.starts_at == timedelta(seconds=length)


@given(INSTANTS, st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True))
def test_the_segment_of_a_job_is_named_by_its_begin_and_routed_by_it(moment, job):
    name = segment_of_job(SegmentChoice.JOB, job, moment)

    assert len(name) <= 64
    assert anchor_of(name) == moment.replace(microsecond=0)
    assert f"{moment:%Y-%m-%d}" < name < f"{moment + timedelta(days=1):%Y-%m-%d}"
    segment = segment_in(segment_of, policy(), name, moment + timedelta(days=3))
    assert (segment.name, segment.ends_at) == (name, moment + timedelta(days=4))


def test_jobs_with_long_names_have_segments_of_their_own():
    names = {segment_of_job(SegmentChoice.JOB, f"{'x' * 60}.{n}", at("2026-03-01")) for n in "ab"}

    assert len(names) == 2


def test_a_start_may_choose_a_span_of_its_own_and_what_nobody_chose_is_as_the_biz_has_it():
    moment, own = at("2026-03-01T12:30Z"), policy(Span.WEEK)

    chosen = {
        choice: segment_in(segment_of, own, segment_of_job(choice, "june", moment), moment).name
        for choice in (None, *SegmentChoice)
    }

    assert chosen == {
        None: "2026-W09",
        "job": "2026-03-01T12:30:00Z.june",
        "biz": "2026-W09",
        "hour": "2026-03-01T12:00Z",
        "day": "2026-03-01",
        "week": "2026-W09",
        "month": "2026-03",
    }


@pytest.mark.parametrize(
    ("own", "refused"),
    [
        (policy(Span.HOUR), {"day", "week", "month"}),
        (policy(Span.DAY), {"week", "month"}),
        (policy(Span.MONTH), set()),
        (policy(Span.CUSTOM, seconds=86_400), {"week", "month"}),
        (policy(Span.FOREVER), set()),
        (SeedPolicy(segment_resolver="by_quarter"), set()),
    ],
)
def test_no_start_chooses_a_span_longer_than_the_segments_of_its_biz(own, refused):
    assert {one for one in SegmentChoice if choice_problem(own, one)} == refused
    assert choice_problem(own, None) is None
