"""Subscriptions as values: their revisions and channels, and the hours at which they are active."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.examples import examples
from tests.kit.kernel import InvalidRequestError
from tests.kit.quotas import AtLimit, Quota, QuotaUnit
from tests.kit.streams import Filter, Item, parse
from tests.kit.subscriptions import (
    MOST_CHARACTERS,
    Active,
    Content,
    Day,
    Deliver,
    Hours,
    SavedItem,
    StreamKind,
    canonical_feed,
    is_active,
    is_zone,
    problems_with,
    subscription_id,
    tried,
)
from tests.unit.streams.filter_cases import ITEMS, MEANT, Meant

FEED = "https://a.example/feed"
CONTENT = Content(kind=StreamKind.RSS, filter="climate", feeds=(FEED,))
#: A Monday in winter, when Berlin is an hour ahead.
MONDAY = datetime(2026, 11, 23, tzinfo=UTC)


def at(day: int, hour: int, minute: int = 0) -> datetime:
    return MONDAY.replace(day=22 + day, hour=hour, minute=minute)


def test_another_content_has_another_digest() -> None:
    assert CONTENT.digest == replace(CONTENT).digest
    assert CONTENT.digest != replace(CONTENT, filter="energy").digest


def test_what_is_read_for_a_subscription_is_its_feeds_or_its_channel() -> None:
    wire = Content(kind=StreamKind.NDJSON_STREAM, filter="climate", channel="wire")

    assert CONTENT.channels == (FEED,)
    assert wire.channels == ("wire",)
    assert replace(wire, channel=None).channels == ()


def test_ids_are_of_tenant_biz_and_name() -> None:
    assert subscription_id("a", "b", "c") == "a/b/c"


def test_without_hours_a_subscription_is_always_active() -> None:
    assert is_active(None, MONDAY)


@pytest.mark.parametrize(
    ("hours", "inside", "outside"),
    [
        pytest.param(
            Hours(begins="08:30", ends="17:00"),
            [at(1, 7, 30), at(7, 15, 59)],
            [at(1, 7, 29), at(7, 16, 0)],
            id="of-every-day",
        ),
        pytest.param(
            Hours(days=(Day.MON,), begins="22:00", ends="06:00"),
            [at(1, 21), at(2, 4, 59)],
            [at(1, 20, 59), at(2, 5), at(2, 21), at(1, 4)],
            id="past-midnight",
        ),
        pytest.param(
            Hours(days=(Day.MON, Day.SUN)),
            [at(1, 0), at(1, 22, 59), at(6, 23)],
            [at(1, 23), at(6, 22, 59)],
            id="whole-days",
        ),
        pytest.param(
            Hours(days=(Day.TUE,), begins="09:00", ends="09:00"),
            [at(2, 8), at(3, 7, 59)],
            [at(2, 7, 59), at(3, 8)],
            id="a-day-from-nine-to-nine",
        ),
    ],
)
def test_items_are_taken_in_the_hours_of_the_zone(
    hours: Hours, inside: list[datetime], outside: list[datetime]
) -> None:
    active = Active(hours=(hours,), time_zone="Europe/Berlin")

    assert all(is_active(active, moment) for moment in inside)
    assert not any(is_active(active, moment) for moment in outside)


ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "UTC")
MINUTES = st.integers(0, 24 * 60 - 1).map(lambda at: f"{at // 60:02}:{at % 60:02}")


@given(
    st.sampled_from(ZONES),
    st.lists(st.sampled_from(Day), min_size=1, max_size=7, unique=True),
    MINUTES,
    MINUTES,
    st.integers(0, 366 * 24 * 12).map(lambda fives: timedelta(minutes=5 * fives)),
)
@examples(2)
def test_hours_are_those_that_clocks_of_the_zone_show_also_when_they_are_set(
    zone: str, days: list[Day], begins: str, ends: str, since: timedelta
) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC) + since
    active = Active(hours=(Hours(days=tuple(days), begins=begins, ends=ends),), time_zone=zone)

    local = moment.astimezone(ZoneInfo(zone))
    shown, today = f"{local:%H:%M}", Day(f"{local:%a}".lower())
    yesterday = Day(f"{local - timedelta(days=1):%a}".lower())
    # What a clock on the wall shows, in an hour that comes twice as in one that comes once.
    expected = (
        today in days and begins <= shown < ends
        if begins < ends
        else (today in days and shown >= begins) or (yesterday in days and shown < ends)
    )
    assert is_active(active, moment) is expected


def test_an_hour_that_comes_twice_is_active_twice_and_one_that_is_left_out_never() -> None:
    active = Active(hours=(Hours(begins="02:00", ends="03:00"),), time_zone="Europe/Berlin")

    def minutes(day: datetime) -> int:
        return sum(is_active(active, day + timedelta(minutes=n)) for n in range(24 * 60))

    assert minutes(datetime(2026, 10, 24, 22, tzinfo=UTC)) == 120
    assert minutes(datetime(2026, 3, 28, 23, tzinfo=UTC)) == 0
    assert minutes(MONDAY) == 60


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires"])
def test_a_zone_of_the_database_is_one(name: str) -> None:
    assert is_zone(name)


@pytest.mark.parametrize("name", ["", "Berlin", "../UTC", "/etc/passwd", "Europe/", "Eu\0rope"])
def test_what_is_no_zone_is_none(name: str) -> None:
    assert not is_zone(name)


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("HTTP://News.Example:80", "http://news.example/"),
        (" https://news.example:443/Feed?b=2&a=1#top ", "https://news.example/Feed?b=2&a=1"),
        ("https://news.example:8443/a;b", "https://news.example:8443/a;b"),
        ("http://[2001:DB8::1]:80/f", "http://[2001:db8::1]/f"),
    ],
)
def test_what_a_site_may_tell_apart_is_kept_of_a_feed(url: str, form: str) -> None:
    assert canonical_feed(url) == form == canonical_feed(form)


# ---- validation ----------------------------------------------------------------------------------

FEW = Quota(unit=QuotaUnit.ITEMS, most=5)
CHANNELS = {"wire": StreamKind.NDJSON_STREAM, "posts": StreamKind.X_STREAM}
QUEUE = "arn:aws:sqs:eu-west-1:123456789012:acme-items"
TARGETS = [{"sqs": "arn:aws:sqs:eu-west-1:123456789012:acme-*"}]


def wrong(**fields: object) -> dict[str, str]:
    given = {"kind": StreamKind.RSS, "filter": "climate", "feeds": (FEED,), "channel": None}
    return {one.field: one.message for one in problems_with(given | fields, CHANNELS, TARGETS)}


def test_what_is_right_has_no_problem() -> None:
    assert wrong() == {}
    assert wrong(kind=StreamKind.X_STREAM, feeds=(), channel="posts") == {}
    assert wrong(deliver=Deliver(sqs=QUEUE)) == {}
    assert wrong(active=Active(hours=(Hours(),), time_zone="Asia/Tokyo")) == {}


def test_everything_that_is_wrong_is_named_at_once() -> None:
    found = wrong(
        filter="-sport",
        feeds=(FEED, "ftp://a.example/", "HTTPS://A.example/feed#x"),
        channel="wire",
        deliver=Deliver(sqs="arn:aws:sqs:eu-west-1:123456789012:rival"),
        active=Active(hours=(Hours(),), time_zone="Mars/Olympus"),
    )

    assert sorted(found) == [
        *("active.time_zone", "channel", "deliver.sqs"),
        *("feeds[1]", "feeds[2]", "filter"),
    ]
    assert found["feeds[2]"] == "is feeds[0] again"


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({"feeds": ()}, "feeds", "1 to 100 URLs"),
        ({"kind": StreamKind.X_STREAM, "channel": "posts"}, "feeds", "has a channel"),
        ({"kind": StreamKind.X_STREAM, "feeds": ()}, "channel", "name a channel"),
        ({"kind": StreamKind.X_STREAM, "feeds": (), "channel": "wire"}, "channel", "has: posts"),
        ({"kind": StreamKind.X_STREAM, "feeds": (), "channel": "pots"}, "channel", "has: posts"),
        ({"deliver": Deliver()}, "deliver", "one of sqs"),
        ({"deliver": Deliver(sqs=QUEUE, sns="x")}, "deliver", "one of sqs"),
        ({"deliver": Deliver(sqs="items")}, "deliver.sqs", "the ARN or the URL"),
        ({"filter": 'a "b'}, "filter", "column"),
        ({"quotas": (Quota(unit=QuotaUnit.BYTES, most=5),)}, "quotas[0].unit", "items and usd"),
        ({"quotas": (FEW, FEW)}, "quotas[1]", "a second time"),
        ({"quotas": (replace(FEW, at_limit=AtLimit.END),)}, "quotas[0].at_limit", "always waits"),
    ],
)
def test_a_problem_names_its_field(fields: dict[str, object], field: str, said: str) -> None:
    found = wrong(**fields)

    assert list(found) == [field]
    assert said in found[field]


def test_fields_that_are_not_right_otherwise_are_no_reason_for_further_problems() -> None:
    assert problems_with({}, CHANNELS, TARGETS) == []
    assert problems_with({"kind": StreamKind.RSS}, CHANNELS, TARGETS) == []
    assert problems_with({"kind": StreamKind.X_STREAM, "feeds": ()}, CHANNELS, TARGETS) == []


# ---- trials --------------------------------------------------------------------------------------

FILTER = 'climate ("green deal" OR #cop31) -sport lang:en'


def fate(text: str, wanted: str = FILTER, **fields: object) -> tuple[object, ...]:
    [one] = tried(parse(wanted), [SavedItem(text=text, id="7", **{"language": "en", **fields})])
    assert one.id == "7"
    return one.taken, one.found, one.missing, one.excluded_by


def test_what_is_taken_says_by_which_terms() -> None:
    assert fate("Climate: all of #COP31") == (True, ("#cop31", "climate", "lang:en"), (), ())
    assert fate("Climate", hashtags=("cop31",))[0]


def test_what_is_not_taken_says_what_it_lacks_where_it_comes_closest() -> None:
    assert fate("a green deal") == (False, ('"green deal"', "lang:en"), ("climate",), ())
    assert fate("climate", language="de")[2] == ('"green deal"', "lang:en")


def test_what_is_excluded_says_by_what() -> None:
    taken, _, missing, excluded_by = fate("climate #cop31 sport")

    assert (taken, missing, excluded_by) == (False, (), ("-sport",))


def test_of_alternatives_the_one_that_comes_closest_is_told() -> None:
    assert fate("a b", "(a b c) OR (d e)") == (False, ("a", "b"), ("c",), ())
    assert fate("d", "(a b) OR (d e)") == (False, ("d",), ("e",), ())


def test_a_trial_takes_no_more_than_it_can_read() -> None:
    items = [SavedItem(text="x" * 100_000)] * (MOST_CHARACTERS // 100_000 + 1)

    with pytest.raises(InvalidRequestError, match="items: have texts of"):
        tried(parse("a"), items)


@given(MEANT, ITEMS)
@examples(4)
def test_a_trial_takes_what_the_filter_takes(meant: Meant, item: Item) -> None:
    saved = SavedItem(**msgspec.structs.asdict(item))
    [one] = tried(Filter(meant.node), [saved])

    assert one.taken == meant.takes(item)
    assert one.taken == (not one.missing and not one.excluded_by)
