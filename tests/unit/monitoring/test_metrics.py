"""A sample as metrics: values, dimensions, and how many series they are."""

import math
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import MonitorLimits
from tests.kit.fleet import fleet_of
from tests.kit.incidents import Kind
from tests.kit.kernel import Batch, QueueKey
from tests.kit.kernel import metric_names as names
from tests.kit.monitoring import (
    SETTLED_SECONDS,
    Emitted,
    FleetSample,
    HostSample,
    QueueSample,
    Sample,
    WorkersSample,
    batches,
)
from tests.kit.queue import Depth, Load, NodeHealth, Rates
from tests.kit.requests import Ledger

AT = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
SECOND = int(AT.timestamp())
RATES = Rates(per_1s=1.0, per_5s=2.0, per_60s=3.0)
LIMITS = MonitorLimits()
NOTHING = Emitted()
#: USD a month for a metric, and what ten bizs, two nodes and ten hosts may cost.
PRICE = 0.30
MOST_SERIES = 250
#: What the scheduler and the alarming emit under the stage.
OTHERS = {
    names.STRAY_ITEMS,
    names.STRAY_REQUESTS,
    names.TICKS,
    names.TICK_FAULTS,
    names.INCIDENTS_OPEN,
    names.MESSAGES_FAILED,
    names.MESSAGES_OWED,
}


def queue_key(number: int = 1, **changes: object) -> QueueSample:
    figures: dict[str, object] = {
        "queue_key": QueueKey("acme", f"b{number}", "main"),
        "depth": Depth(queued=7, leased=2, delayed=1, oldest_ts=1),
        "load": Load(ready=7, leased=2),
        "oldest_seconds": 4.0,
        "submitted": RATES,
        "processed": RATES,
        "submitted_seconds": {SECOND - 10: 5},
        "processed_seconds": {SECOND - 9: 4},
        "ledger": Ledger(submitted=20, pending=7, leased=2, waiting=1, done=6, dead=3, expired=1),
        "retries": 1,
        "difference": 0,
        "records": 6,
        "finish_seconds": 2.3,
    }
    return QueueSample(**(figures | changes))  # type: ignore[arg-type]


def quiet(number: int) -> QueueSample:
    return queue_key(
        number,
        depth=Depth(queued=0, leased=0, delayed=0),
        submitted_seconds={},
        processed_seconds={},
    )


def part(kind: str, name: str) -> NodeHealth:
    reported = names.REDIS if kind == "redis" else names.NODE
    figures = {one: 1.0 for one in reported if one not in {names.NODE_UP, names.NODE_HEALTHY}}
    return NodeHealth(part=kind, name=name, up=True, figures=figures)


def host(number: int, **changes: object) -> HostSample:
    figures: dict[str, object] = {
        "host": f"h{number}.example",
        "answered": 60,
        "latency_seconds": 0.2,
        "success_share": 1.0,
    }
    return HostSample(**(figures | changes))  # type: ignore[arg-type]


def seen(*queues: QueueSample, **changes: object) -> Sample:
    figures: dict[str, object] = {
        "at": AT,
        "took_seconds": 1.5,
        "revision": "r1",
        "queues": queues,
        "fleet": fleet_of(queues),
        "workers": WorkersSample(alive=3, suspected=1, dead=0, present=4, wanted=5),
    }
    return Sample(**(figures | changes))  # type: ignore[arg-type]


def emit(sample: Sample, emitted: Emitted = NOTHING, **limits: int):
    return batches(sample, emitted, **({"bizs": LIMITS.bizs, "hosts": LIMITS.hosts} | limits))


def values(sample: Sample, **dimensions: str) -> dict[str, float]:
    found, _ = emit(sample)
    return {
        metric.name: metric.value
        for batch in found
        if batch.dimensions == dimensions
        for metric in batch.metrics
    }


def series(sample: Sample, emitted: Emitted = NOTHING, **limits: int) -> set[tuple[str, ...]]:
    found, _ = emit(sample, emitted, **limits)
    return {
        (metric.name, *(f"{name}={of}" for name, of in sorted(batch.dimensions.items())))
        for batch in found
        for metric in batch.metrics
    }


def test_a_biz_has_its_queue_its_ends_and_its_ledger():
    found = values(seen(queue_key()), tenant="acme", biz="b1")

    assert found == {
        names.BACKLOG: 7,
        names.LEASED: 2,
        names.DELAYED: 1,
        names.OLDEST_WAITING: 4.0,
        names.LATE: 0,
        names.TIME_TO_FINISH: 2.3,
        names.DEAD: 3,
        names.EXPIRED: 1,
        names.LEDGER_DIFFERENCE: 0,
        names.SUBMITTED: 0,
        names.PROCESSED: 4,
    }
    assert set(found) == set(names.QUEUE_KEY)


def test_the_stage_has_the_sums_the_rates_and_the_workers():
    found = values(seen(queue_key(1), queue_key(2, difference=-3)))

    assert found[names.BACKLOG] == 14
    assert found[names.PROCESSED_RATE_5S] == 4.0
    assert found[names.LEDGER_DIFFERENCE] == 3
    assert (found[names.CONSUMERS], found[names.WANTED_CONSUMERS]) == (4, 5)
    assert (found[names.LOOKS], found[names.LOOK_SECONDS]) == (1, 1.5)
    assert set(found) == set(names.FLEET) - OTHERS


def test_counts_by_second_are_fine_and_nothing_else_is():
    found, _ = emit(seen(queue_key(), parts=(part("redis", "redis"),), hosts=(host(1),)))

    fine = {metric.name for batch in found for metric in batch.metrics if metric.fine}
    assert fine == {names.SUBMITTED, names.PROCESSED}
    of_queue = [
        (batch.at, batch.metrics[0].value, batch.metrics[1].value)
        for batch in found
        if batch.dimensions and batch.metrics[0].fine
    ]
    second = timedelta(seconds=1)
    assert of_queue == [(AT - 10 * second, 5, 0), (AT - 9 * second, 0, 4)]


def test_what_was_not_read_has_no_value_and_is_not_0():
    blind = queue_key(
        depth=None,
        load=None,
        submitted=None,
        processed=None,
        ledger=None,
        difference=None,
        submitted_seconds={},
        processed_seconds={},
    )
    found = values(seen(blind, workers=None, fleet=fleet_of([blind])))

    assert set(found) == {
        names.LOOKS,
        names.LOOK_SECONDS,
        names.UNREAD,
        names.CONFIG_REFUSED,
        names.HOSTS_THROTTLED,
    }


def test_a_backlog_that_never_ends_at_this_rate_has_no_time_to_finish():
    found = values(seen(queue_key(finish_seconds=None)), tenant="acme", biz="b1")

    assert names.TIME_TO_FINISH not in found


def test_a_sick_part_says_so_and_keeps_its_figures():
    sick = NodeHealth(part="redis", name="redis", up=True, figures={"MemoryRatio": 0.9}, error="x")

    found = values(seen(parts=(sick,)), part="redis", node="redis")

    assert found == {names.NODE_UP: 1, names.NODE_HEALTHY: 0, "MemoryRatio": 0.9}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_never_reaches_a_line(value):
    odd = NodeHealth(part="redis", name="redis", up=True, figures={"MemoryRatio": value})

    assert "MemoryRatio" not in values(seen(parts=(odd,)), part="redis", node="redis")


def test_hosts_have_rate_success_latency_and_whether_they_are_throttled():
    found = values(seen(hosts=(host(1, throttled=True),)), host="h1.example")

    assert found == {
        names.HOST_RATE: 1.0,
        names.HOST_SUCCESS: 1.0,
        names.HOST_LATENCY: 0.2,
        names.HOST_THROTTLED: 1,
    }
    assert set(found) == set(names.HOST)


def test_throttled_hosts_are_counted_beyond_those_that_are_shown():
    assert values(seen(hosts=(), hosts_throttled=70))[names.HOSTS_THROTTLED] == 70


# ---- what it costs -------------------------------------------------------------------------------


def test_ten_bizs_two_nodes_and_ten_hosts_cost_what_is_written():
    full = seen(
        *(queue_key(number) for number in range(10)),
        parts=(part("redis", "redis"), part("mongodb", "main"), part("mongodb", "east")),
        hosts=tuple(host(number) for number in range(10)),
    )

    count = len(series(full)) + len(OTHERS) + len(Kind)

    queues, hosts = 10 * len(names.QUEUE_KEY), 10 * len(names.HOST)
    stage, parts = len(names.FLEET) + len(Kind), len(names.REDIS) + 2 * len(names.NODE)
    assert count == stage + parts + queues + hosts
    assert count <= MOST_SERIES
    assert f"{count} series, {int(count * PRICE)} USD a month" in names.__doc__


def test_bizs_without_work_cost_nothing():
    assert series(seen(*(quiet(number) for number in range(500)))) == series(seen(quiet(1)))


@pytest.mark.parametrize("number", [1_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_thousands_of_bizs_and_hosts_cost_no_more_than_the_bound(number):
    many = seen(*(queue_key(n) for n in range(number)), hosts=tuple(host(n) for n in range(number)))

    found = series(many)

    assert len(found) <= len(names.FLEET) + 50 * len(names.QUEUE_KEY) + 10 * len(names.HOST)
    assert series(many, bizs=0, hosts=0) < found


def test_who_is_shown_is_settled_for_the_hour():
    shown: set[tuple[str, ...]] = set()
    emitted = Emitted()
    for minute in range(29):
        crowd = tuple(host(minute * 100 + number) for number in range(50))
        sample = seen(at=AT + timedelta(minutes=minute), hosts=crowd)
        shown |= {one for one in series(sample, emitted) if one[0] == names.HOST_RATE}
        _, emitted = emit(sample, emitted)

    assert len(shown) == LIMITS.hosts

    later = seen(at=AT + timedelta(minutes=60), hosts=(host(99_999),))
    assert any("h99999" in one[-1] for one in series(later, emitted))


def test_the_latest_biz_and_the_one_with_most_to_do_come_first():
    busy = queue_key(2, depth=Depth(queued=900, leased=0, delayed=0))
    late = queue_key(3, late=True)

    found = series(seen(queue_key(1), busy, late), bizs=2)

    assert {one[1] for one in found if len(one) == 3 and "biz" in one[1]} == {"biz=b2", "biz=b3"}


def test_dimensions_are_few_and_the_same_for_each_kind():
    full = seen(queue_key(), parts=(part("redis", "redis"),), hosts=(host(1),))

    found, _ = emit(full)

    assert {tuple(batch.dimensions) for batch in found} == {
        (),
        ("part", "node"),
        ("tenant", "biz"),
        ("host",),
    }


# ---- seconds -------------------------------------------------------------------------------------


@given(
    pauses=st.lists(st.floats(0.1, 85), min_size=1, max_size=12),
    counted=st.lists(st.integers(0, 600), max_size=30),
)
def test_every_second_that_is_over_is_emitted_exactly_once(pauses, counted):
    counts = {SECOND + offset: 1 for offset in counted}
    emitted, reported, now = Emitted(until=SECOND), [], AT
    for pause in pauses:
        now += timedelta(seconds=pause)
        upto = int(now.timestamp())
        visible = {at: count for at, count in counts.items() if upto - 90 <= at < upto}
        found, emitted = emit(
            seen(queue_key(submitted_seconds=visible, processed_seconds={}), at=now), emitted
        )
        reported += [
            int(batch.at.timestamp())
            for batch in found
            if batch.dimensions and batch.metrics[0].fine
        ]

    end = int(now.timestamp()) - SETTLED_SECONDS
    assert reported == sorted(at for at in counts if SECOND <= at < end)


def test_after_a_long_silence_what_is_still_known_is_reported():
    counts = {SECOND + offset: 1 for offset in range(300)}
    now = AT + timedelta(seconds=300)
    found, _ = emit(
        seen(queue_key(submitted_seconds=counts, processed_seconds={}), at=now),
        Emitted(until=SECOND),
    )

    reported = [batch for batch in found if batch.dimensions and batch.metrics[0].fine]
    assert len(reported) == 90 - SETTLED_SECONDS


def unread(number: int = 1) -> QueueSample:
    """A sample of a queue that could not be read."""
    return QueueSample(queue_key=QueueKey("acme", f"b{number}", "main"))


def submitted(found: list[Batch], **dimensions: str) -> dict[int, float]:
    """Return the submissions in the metrics, by second; of the stage unless a biz is named."""
    reported: Counter[int] = Counter()
    for batch in found:
        if batch.dimensions == dimensions and batch.metrics[0].fine:
            reported[int(batch.at.timestamp()) - SECOND] += int(batch.metrics[0].value)
    return dict(reported)


def counted(at: datetime, number: int = 1) -> QueueSample:
    """A queue that takes one request a second, as it is seen at a moment."""
    now = int(at.timestamp())
    visible = dict.fromkeys(range(max(SECOND, now - 90), now), 1)
    return queue_key(number, submitted_seconds=visible, processed_seconds={})


@pytest.mark.parametrize("blind", [(unread(),), ()], ids=["queues unread", "nothing read"])
def test_what_an_evaluation_could_not_read_the_next_one_reports(blind):
    later, last = AT + timedelta(seconds=30), AT + timedelta(seconds=75)
    _, emitted = emit(seen(*blind, at=later), Emitted(until=SECOND))
    found, emitted = emit(seen(counted(last), at=last), emitted)

    assert submitted(found) == submitted(found, tenant="acme", biz="b1")
    assert submitted(found) == dict.fromkeys(range(75 - SETTLED_SECONDS), 1)
    again, _ = emit(seen(counted(last), at=last), emitted)
    assert submitted(again) == {}


def test_a_queue_that_could_not_be_read_is_reported_later_and_the_others_once():
    later, last = AT + timedelta(seconds=30), AT + timedelta(seconds=75)
    first, emitted = emit(seen(counted(later), unread(2), at=later), Emitted(until=SECOND))
    found, emitted = emit(seen(counted(last), counted(last, 2), at=last), emitted)

    reported = Counter(submitted(first)) + Counter(submitted(found))
    assert reported == dict.fromkeys(range(75 - SETTLED_SECONDS), 2)
    for biz in ("b1", "b2"):
        own = Counter(submitted(first, tenant="acme", biz=biz))
        own.update(submitted(found, tenant="acme", biz=biz))
        assert own == dict.fromkeys(range(75 - SETTLED_SECONDS), 1)
    assert emitted.behind == {}


def test_of_a_queue_that_is_away_for_long_what_is_still_known_is_reported():
    emitted, at = Emitted(until=SECOND), AT
    for _ in range(5):
        at += timedelta(seconds=60)
        _, emitted = emit(seen(counted(at), unread(2), at=at), emitted)
    found, _ = emit(seen(counted(at), counted(at, 2), at=at), emitted)

    assert len(submitted(found, tenant="acme", biz="b2")) == 90 - SETTLED_SECONDS
    _, emitted = emit(seen(counted(at), at=at), emitted)
    assert emitted.behind == {}


@given(
    st.lists(
        st.tuples(
            st.floats(1, 44), st.sampled_from(["both", "one", "two", "queues", "everything"])
        ),
        min_size=1,
        max_size=12,
    )
)
def test_whatever_looks_miss_no_second_of_a_queue_is_reported_twice(looks):
    emitted, at, reported = Emitted(until=SECOND), AT, {"b1": Counter(), "b2": Counter()}
    whole: Counter[int] = Counter()
    for pause, what in [*looks, (44.0, "both")]:
        at += timedelta(seconds=pause)
        one = counted(at) if what in {"both", "one"} else unread(1)
        two = counted(at, 2) if what in {"both", "two"} else unread(2)
        found, emitted = emit(seen(*(() if what == "everything" else (one, two)), at=at), emitted)
        whole.update(submitted(found))
        for biz, seconds in reported.items():
            seconds.update(submitted(found, tenant="acme", biz=biz))

    for seconds in reported.values():
        assert set(seconds.values()) <= {1}
    assert whole == reported["b1"] + reported["b2"]


def test_a_clock_that_is_set_back_by_much_begins_anew():
    counts = {SECOND - 10: 1}
    found, emitted = emit(seen(queue_key(submitted_seconds=counts)), Emitted(until=SECOND + 10_000))

    assert any(batch.metrics[0].fine for batch in found)
    assert emitted.until == SECOND - SETTLED_SECONDS


def test_a_fleet_of_nothing_is_nothing():
    assert fleet_of([]) == FleetSample()
