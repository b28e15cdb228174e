"""Sources and subscriptions as they are seen, on a real MongoDB."""

from datetime import timedelta

import pytest

from tests.contract.streams.delivery_cases import (
    BEGIN,
    STREAM,
    a_subscriber,
    addressed,
    an_item,
)
from tests.kit.feeds import Feed
from tests.kit.kernel import InvalidRequestError, NotFoundError
from tests.kit.streams import (
    ENOUGH,
    FEEDS,
    Gaps,
    MongoAccepting,
    MongoFigures,
    MongoLeasing,
    ReaderStatus,
    Reason,
    Tally,
    sources_over,
)
from tests.kit.subscriptions import Content, Deliver, MongoSubscriptions, StreamKind

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
FEED = "https://news.example/feed"


@pytest.fixture
def sources(mongo_connection):
    return sources_over(mongo_connection)


@pytest.fixture
def subscribe(mongo_connection):
    def put(name, tenant="acme", **more):
        given = {"kind": StreamKind.NDJSON_STREAM, "filter": "rain", "channel": "news", **more}
        store = MongoSubscriptions(mongo_connection)
        return store.put(tenant, "news", name, Content(**given), BEGIN, most=100)[0]

    return put


def counted(figures, now, items=1, subscriber=None):
    tally = Tally()
    read = [an_item(str(n), published_at=now - SECOND) for n in range(items)]
    tally.read(read, [addressed(read[0], subscriber or a_subscriber())], now, {"x": 1}, "news")
    figures.add(tally.take(), now)


def test_figures_are_added_up_over_processes_and_the_hour_before(mongo_connection):
    figures = MongoFigures(mongo_connection)
    counted(figures, BEGIN - 2 * HOUR, items=9)
    counted(figures, BEGIN - SECOND, items=2)
    counted(figures, BEGIN + SECOND, items=3)

    found = figures.of_sources(["news", "none"], BEGIN + 60 * SECOND)

    assert found["news"].seconds == 3660.0
    assert (found["news"].read, found["news"].matched) == (7, 2)
    assert (found["news"].dropped, found["news"].taken_at) == ({"x": 2}, BEGIN + SECOND)
    assert found["news"].lags == {3: 5}
    assert found["news"].lag_p50_seconds == pytest.approx(0.75)
    assert (found["none"].read, found["none"].lag_p95_seconds) == (0, None)


def test_a_channel_is_seen_with_who_reads_it_and_the_subscriptions_of_the_biz_alone(
    sources, subscribe
):
    for name in ("press", "sport"):
        subscribe(name)
    subscribe("theirs", tenant="rival")
    status = ReaderStatus(
        channel="news", worker="w1", at=BEGIN, since=BEGIN, connections=1, per_second=3.0
    )
    sources.readers.keep([status])
    counted(sources.figures, BEGIN)

    (found,) = sources.list_all("acme", "news", BEGIN, cursor=None, limit=10).items

    assert found == sources.get("acme", "news", "news", BEGIN)
    assert (found.name, found.state, found.subscriptions) == ("news", "reading", ("press", "sport"))
    assert (found.status.readers, found.status.per_second) == (("w1",), 3.0)
    assert found.figures.read == 2


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"connections": 0}, "unread"),
        ({"refused": True}, "refused"),
        ({"last_fault": "reset", "last_fault_at": BEGIN}, "failing"),
        (
            {
                "last_fault": "reset",
                "last_fault_at": BEGIN,
                "gaps": Gaps(times=1, item_at=BEGIN + SECOND),
            },
            "reading",
        ),
    ],
)
def test_the_state_of_a_channel_says_what_is_wrong_with_it(sources, subscribe, fields, state):
    subscribe("press")
    given = {"connections": 1, **fields}
    sources.readers.keep([ReaderStatus(channel="news", worker="w", at=BEGIN, since=BEGIN, **given)])

    assert sources.get("acme", "news", "news", BEGIN).state == state


def test_a_feed_is_seen_by_its_own_state(sources, subscribe):
    subscribe("press", kind=StreamKind.RSS, channel=None, feeds=(FEED,))
    unknown = sources.get("acme", "news", FEED, BEGIN)
    sources.feeds.take([FEED], "t1", BEGIN, BEGIN + HOUR)
    feed = Feed(
        url=FEED,
        next_at=BEGIN + HOUR,
        rate=0.5,
        failures=2,
        trouble="answered 500",
        gaps=Gaps(times=1, item_at=BEGIN),
    )
    sources.feeds.keep([feed], "t1")
    sources.readers.keep(
        [ReaderStatus(channel=FEEDS, worker="w", at=BEGIN, since=BEGIN, connections=7)]
    )

    found = sources.get("acme", "news", FEED, BEGIN)

    assert (unknown.state, found.state, found.due_at) == ("unread", "failing", BEGIN + HOUR)
    assert (found.status.readers, found.status.per_second) == (("w",), 0.5)
    assert (found.status.last_item_at, found.status.last_fault) == (BEGIN, "answered 500")


def test_sources_are_listed_page_by_page(sources, subscribe):
    for channel in ("a", "b", "c"):
        subscribe(channel, channel=channel)

    first = sources.list_all("acme", "news", BEGIN, cursor=None, limit=2)
    rest = sources.list_all("acme", "news", BEGIN, cursor=first.cursor, limit=2)

    assert [[one.name for one in page.items] for page in (first, rest)] == [["a", "b"], ["c"]]
    assert (first.more, rest.more) == (True, False)
    with pytest.raises(InvalidRequestError, match="cursor"):
        sources.list_all("acme", "news", BEGIN, cursor="x", limit=2)
    with pytest.raises(NotFoundError):
        sources.get("acme", "news", "none", BEGIN)


def test_a_subscription_is_seen_with_what_waits_and_why(mongo_connection, sources, subscribe):
    accepting, leasing = MongoAccepting(mongo_connection), MongoLeasing(mongo_connection)
    press = subscribe("press", deliver=Deliver(redis_stream="items"))
    both = [addressed(an_item(id_), a_subscriber(), a_subscriber("other")) for id_ in "123"]
    accepting.accept(both, BEGIN)
    lease = leasing.lease("d1", BEGIN, HOUR)
    due = leasing.due(lease, BEGIN, 10)
    gone = next(one for one in due if one.subscription == "press")
    leasing.bury({gone: (Reason.REFUSED, "no")}, BEGIN)
    leasing.back_off(lease, BEGIN + HOUR, BEGIN, "it is away", slow=False)
    counted(sources.figures, BEGIN, items=4)

    found = sources.of_subscription(press, BEGIN)

    assert press.content.target() == STREAM
    assert (found.pending, found.dead) == (2, 1)
    assert (found.receiver_error, found.failing_since) == ("it is away", BEGIN)
    assert (found.figures.matched, found.figures.read) == (1, 5)
    assert sources.of_subscription(subscribe("kept"), BEGIN).pending == 0


def test_feeds_that_are_asked_for_and_bring_nothing_are_silent(sources):
    long_ago = Gaps(times=ENOUGH, item_at=BEGIN - HOUR)
    for name, gaps, next_at in (
        ("silent", long_ago, BEGIN + HOUR),
        ("busy", Gaps(times=ENOUGH, item_at=BEGIN), BEGIN + HOUR),
        ("new", Gaps(), BEGIN + HOUR),
        ("nobody's", long_ago, BEGIN - 2 * HOUR),
    ):
        sources.feeds.take([f"{FEED}/{name}"], name, BEGIN - 3 * HOUR, BEGIN - 2 * HOUR)
        feed = Feed(url=f"{FEED}/{name}", next_at=next_at, gaps=gaps)
        sources.feeds.keep([feed], name)

    silent = sources.feeds.silent(BEGIN, 1_000)

    assert [one for one in silent if one.startswith(FEED)] == [f"{FEED}/silent"]


def test_receivers_that_take_nothing_are_listed_until_they_take_something(
    mongo_connection, sources
):
    accepting, leasing = MongoAccepting(mongo_connection), MongoLeasing(mongo_connection)
    accepting.accept([addressed(an_item())], BEGIN)
    lease = leasing.lease("d1", BEGIN, HOUR)
    leasing.back_off(lease, BEGIN, BEGIN, "it is away", slow=False)
    (failing,) = sources.waiting.failing(10)
    lease = leasing.lease("d1", BEGIN, HOUR)
    leasing.rest(lease, BEGIN, slow=False)

    assert (failing.tenant, failing.target) == ("acme", "redis_stream items")
    assert (failing.since, failing.error) == (BEGIN, "it is away")
    assert sources.waiting.failing(10) == []
