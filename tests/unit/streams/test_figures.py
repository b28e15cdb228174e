"""Sums of sources and subscriptions, their lags, and statuses of readers that are put together."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.kit.streams import (
    FEEDS,
    FRESH,
    LAG_BOUNDS,
    Addressed,
    ChannelCounters,
    Delivery,
    Item,
    Pace,
    ReaderStatus,
    StreamItem,
    Subscriber,
    Tally,
    Target,
    TargetKind,
    quantile,
    together,
)

NOW = datetime(2026, 11, 24, tzinfo=UTC)
SECOND = timedelta(seconds=1)
KEPT = Subscriber(tenant="acme", biz="news", name="kept")
PUSHED = Subscriber(
    tenant="acme", biz="news", name="pushed", target=Target(TargetKind.REDIS_STREAM, "items")
)


def an_item(id_="1", lag=2.0, channel="wire"):
    at = None if lag is None else NOW - timedelta(seconds=lag)
    return StreamItem(
        id=id_, channel=channel, seen=Item(text="rain"), received_at=NOW, published_at=at
    )


def test_what_is_read_and_taken_is_counted_by_source_and_subscription():
    tally, item = Tally(), an_item()

    tally.read(
        [item, an_item("2", None)],
        [Addressed(item=item, subscribers=(KEPT, PUSHED))],
        NOW,
        {"no_json": 3},
        "wire",
    )
    taken = tally.take()

    wire = taken.sources["wire"]
    assert (wire.read, wire.matched, wire.dropped, wire.lags) == (5, 1, {"no_json": 3}, {4: 1})
    kept, pushed = taken.subscriptions["acme/news/kept"], taken.subscriptions["acme/news/pushed"]
    # Without a target it is delivered with that.
    assert (kept.matched, kept.delivered, kept.delivered_at, kept.lags) == (1, 1, NOW, {4: 1})
    assert (pushed.matched, pushed.delivered, pushed.taken_at) == (1, 0, NOW)
    assert tally.take().sources == {}


def test_what_receivers_have_is_counted_with_its_lag_and_withdrawals_are_not():
    tally = Tally()
    of = {"tenant": "acme", "biz": "news", "subscription": "pushed", "accepted_at": NOW}

    tally.pushed(
        [
            Delivery(key=b"1", item=an_item(lag=0.0), **of),
            Delivery(key=b"2", is_withdrawal=True, **of),
        ],
        NOW,
    )

    found = tally.take().subscriptions["acme/news/pushed"]
    assert (found.delivered, found.delivered_at, found.lags) == (1, NOW, {0: 1})


def test_no_more_are_counted_apart_than_there_is_room_for():
    tally = Tally(most=1)

    tally.read([an_item(channel="a")], [], NOW)
    tally.read([an_item(channel="b")], [], NOW)

    assert list(tally.take().sources) == ["a"]


@pytest.mark.parametrize(
    ("buckets", "share", "lag"),
    [
        ({}, 0.5, None),
        ({0: 10}, 0.5, 0.05),
        ({0: 50, 4: 50}, 0.95, 2.35),
        ({len(LAG_BOUNDS): 1}, 0.5, LAG_BOUNDS[-1]),
    ],
)
def test_a_lag_that_so_many_have_is_found_within_its_bucket(buckets, share, lag):
    assert quantile(buckets, share) == (None if lag is None else pytest.approx(lag))


def test_the_rate_of_a_channel_is_of_what_came_since_the_status_before():
    counters, pace = ChannelCounters(NOW), Pace()
    counters.read = 50
    report = counters.report(subscriptions=1, connections=2)
    (first,) = pace.statuses("w1", {"wire": report}, NOW + 10 * SECOND)
    counters.read = 70
    report = counters.report(subscriptions=1, connections=2)
    (second,) = pace.statuses("w1", {"wire": report}, NOW + 20 * SECOND)

    assert (first.per_second, second.per_second) == (5.0, 2.0)
    assert (second.channel, second.worker, second.since) == ("wire", "w1", NOW)


def a_status(worker, at=NOW, **fields):
    given = {"channel": FEEDS, "since": NOW, "connections": 1, "per_second": 2.0, **fields}
    return ReaderStatus(worker=worker, at=at, **given)


def test_statuses_of_a_channel_are_put_together_and_those_of_the_gone_count_no_more():
    gone = a_status("gone", NOW - FRESH - SECOND, last_fault="reset", last_fault_at=NOW - FRESH)
    waiting = a_status("waiting", connections=0, per_second=0.0, refused=True)
    found = together([gone, a_status("a"), a_status("b", since=NOW - SECOND), waiting], NOW)

    assert (found.readers, found.connections, found.per_second) == (("a", "b"), 2, 4.0)
    assert (found.since, found.refused, found.faults) == (NOW - SECOND, True, 0)
    assert (found.last_fault, found.last_fault_at) == ("reset", NOW - FRESH)
    assert together([gone], NOW).readers == ()
    assert together([], NOW).last_fault == ""


def test_a_refused_secret_is_refused_until_something_comes():
    counters = ChannelCounters(NOW)
    counters.fault("refused", "answered 401", NOW)
    refused = counters.report(subscriptions=1, connections=1)
    counters.fault("network", "connection reset", NOW)

    assert refused.is_refused
    assert not counters.report(subscriptions=1, connections=1).is_refused
