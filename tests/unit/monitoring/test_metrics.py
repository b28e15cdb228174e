"""A sample as metrics: values, dimensions, and how many series they are."""

import math
from datetime import timedelta

import pytest

from tests.kit.fleet import fleet_of
from tests.kit.incidents import Kind
from tests.kit.kernel import Metric, SparingMetrics
from tests.kit.kernel import metric_names as names
from tests.kit.monitoring import (
    Emitted,
    Emitter,
    FleetSample,
    Sample,
    Unread,
    UsedUpQuota,
    WorkersSample,
)
from tests.kit.queue import Depth, NodeHealth
from tests.unit.monitoring.samples_seen import (
    AT,
    LIMITS,
    emit,
    host,
    part,
    queue_key,
    quiet,
    seen,
    series,
    values,
)

#: USD a month for a metric, and what ten bizs, two nodes and ten hosts may cost.
PRICE = 0.30
MOST_SERIES = 257
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


@pytest.mark.parametrize("used_up", [0, 2])
def test_the_stage_counts_the_quotas_that_are_used_up(used_up):
    said = tuple(UsedUpQuota(tenant="acme", said=f"quota {n}") for n in range(used_up))

    assert values(seen(queue_key(), used_up=said))[names.QUOTAS_USED_UP] == used_up


def test_a_queue_of_which_no_end_is_known_has_no_time_to_it():
    found = values(seen(queue_key(finish_seconds=None)), tenant="acme", biz="b1")

    assert names.TIME_TO_FINISH not in found
    assert found[names.BACKLOG] == 7


def test_a_host_that_was_not_asked_has_a_rate_alone():
    found = values(
        seen(queue_key(), hosts=(host(1, answered=0, success_share=None, latency_seconds=None),)),
        host="h1.example",
    )

    assert found == {names.HOST_RATE: 0.0, names.HOST_THROTTLED: 0}


def test_an_idle_stage_whose_ledgers_were_not_read_has_no_difference():
    assert values(idle())[names.LEDGER_DIFFERENCE] == 0
    assert names.LEDGER_DIFFERENCE not in values(idle(fleet=FleetSample()))


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


def idle(**changes: object) -> Sample:
    """A stage whose one biz has nothing to do, and whose parts are well."""
    workers = WorkersSample(alive=0, suspected=0, dead=0, present=0, wanted=0)
    parts = (part("redis", "redis"), part("mongodb", "main"))
    return seen(quiet(1), **{"workers": workers, "parts": parts, **changes})


def sparing(*samples: Sample) -> set[str]:
    """Return the names of the metrics that the monitor emits of the last sample."""
    sink = Kept()
    emitter = Emitter(SparingMetrics(sink))
    for sample in samples:
        sink.names.clear()
        emitter.emit(sample, LIMITS)
    return sink.names


class Kept:
    """A sink that keeps the names of what it was given."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def put(self, metrics, dimensions, at) -> None:
        self.names |= {metric.name for metric in metrics}


def test_a_stage_without_work_says_that_it_is_watched_and_nothing_else():
    assert sparing(idle()) == {names.LOOKS}
    assert set(names.IDLE) - {names.LOOKS} <= OTHERS


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"config_refused": "no home"}, {names.CONFIG_REFUSED}),
        ({"unread": (Unread(what="hosts", why="x"),)}, {names.UNREAD}),
    ],
)
def test_what_is_wrong_with_an_idle_stage_is_reported_all_the_same(changes, said):
    assert sparing(idle(**changes)) >= {names.LOOKS} | said


def test_a_part_that_is_unwell_is_reported_by_an_idle_stage():
    sick = NodeHealth(part="redis", name="redis", up=True, figures={"MemoryRatio": 0.9}, error="x")

    assert {names.NODE_UP, "MemoryRatio"} <= sparing(idle(parts=(sick,)))


def test_in_an_hour_with_work_everything_is_reported_zeros_too():
    workers = WorkersSample(alive=0, suspected=0, dead=0, present=0, wanted=1)
    busy, later = seen(queue_key(1)), AT + timedelta(hours=1)

    assert names.WORKERS_SUSPECTED in sparing(busy)
    assert names.WORKERS_DEAD in sparing(busy)
    assert names.WORKERS_DEAD in sparing(idle(workers=workers))
    assert names.WORKERS_DEAD in sparing(busy, idle())
    assert sparing(busy, idle(), idle(at=later)) == {names.LOOKS}


def test_a_zero_that_ends_something_is_emitted_once():
    class Sink:
        def __init__(self):
            self.values = []

        def put(self, metrics, dimensions, at):
            self.values += [(metric.name, metric.value, *dimensions.values()) for metric in metrics]

    sink = Sink()
    sparing = SparingMetrics(sink)
    for value in (0, 2, 0, 0):
        sparing.put([Metric("Late", value)], {}, AT)

    assert sink.values == [("Late", 2), ("Late", 0)]
    sparing.put([Metric(names.NODE_UP, 0)], {"node": "main"}, AT)
    assert sink.values[-1] == (names.NODE_UP, 0, "main")


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


def test_a_fleet_of_nothing_is_nothing():
    assert fleet_of([]) == FleetSample()
