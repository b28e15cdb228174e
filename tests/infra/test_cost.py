import dataclasses
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from infra.cost import __main__ as command
from infra.cost.inputs import PRICES, Inputs, read
from infra.cost.model import (
    Bill,
    behind_gateways,
    bill,
    consumer_seconds,
    most_a_month,
    one_page_a_call,
    own_bill,
    own_pages_an_hour,
    waiting_for_schedules,
)
from infra.cost.page import BEGIN, PAGE, dollars, put_into, share, written
from infra.cost.peers import PUBLISHED
from infra.cost.shapes import COMPARED, Shape, shape_of
from infra.fleet import FLEET
from infra.stages import AWS_LARGE, AWS_SMALL, LOCALSTACK, Stage
from tests.infra.assembly import Assembly
from tests.kit.apps import IN_TIME_SECONDS
from tests.kit.config import PriceTerms
from tests.kit.costs import cost_of, prices_of
from tests.kit.jobs import RunFigures
from tests.kit.kernel import QueueKey, metric_names
from tests.kit.monitoring import SETTLED_SECONDS, EmfMetrics, Emitted, QueueSample, Sample, batches
from tests.kit.queue import Depth, Rates

README = PAGE.parents[2] / "README.md"
INPUTS = read()
SMALL = shape_of(AWS_SMALL, INPUTS.assumed)
SHAPES = [shape_of(stage, INPUTS.assumed) for stage in COMPARED]

pages = st.floats(1, 1e10)
factors = st.floats(1, 1_000)
shapes = st.sampled_from([*SHAPES, *map(behind_gateways, SHAPES)])


def scaled(inputs: Inputs, part: str, field: str, factor: float) -> Inputs:
    table = getattr(inputs, part)
    return replace(inputs, **{part: replace(table, **{field: getattr(table, field) * factor})})


def dearer(inputs: Inputs, factor: float) -> Inputs:
    """Every price times that."""

    def times(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: times(inner) for key, inner in value.items()}
        return value * factor

    raw = msgspec.to_builtins(inputs)
    part = raw["prices"]["other"].pop("valkey_part")  # a part, not a price
    raw["prices"] = times(raw["prices"])
    raw["prices"]["other"]["valkey_part"] = part
    raw["assumed"]["own_machine"]["month"] *= factor
    return msgspec.convert(raw, Inputs)


def amounts(one: Bill) -> Iterator[float]:
    yield from (line.usd for line in (*one.by_pages, *one.by_month, *one.by_work))


@given(pages, factors, shapes)
def test_pages_cost_in_proportion_to_their_number(count: float, factor: float, shape: Shape):
    once, more = bill(INPUTS, shape, count), bill(INPUTS, shape, count * factor)

    assert more.for_pages == pytest.approx(once.for_pages * factor)
    assert more.idle_month == once.idle_month
    assert [line.usd for line in more.by_pages] == pytest.approx(
        [line.usd * factor for line in once.by_pages]
    )


@given(st.floats(0, 1e10), shapes)
def test_nothing_costs_less_than_nothing(count: float, shape: Shape):
    assert min(amounts(bill(INPUTS, shape, count))) >= 0
    assert min(amounts(own_bill(INPUTS, count or 1))) >= 0


@given(factors, shapes)
def test_more_cpu_a_page_never_costs_less_and_in_the_end_costs_more(factor: float, shape: Shape):
    more = scaled(INPUTS, "measured", "worker_cpu_ms", factor)
    far_more = scaled(more, "measured", "worker_cpu_ms", 100)

    assert bill(more, shape).for_pages >= bill(INPUTS, shape).for_pages
    assert bill(far_more, shape).for_pages > bill(INPUTS, shape).for_pages
    assert own_pages_an_hour(far_more)[0] < own_pages_an_hour(INPUTS)[0]


@given(st.sampled_from(["page_kb", "request_kb", "store_kb", "answer_seconds"]), factors, shapes)
def test_larger_and_slower_pages_never_cost_less(field: str, factor: float, shape: Shape):
    more = scaled(INPUTS, "assumed", field, factor)

    assert bill(more, shape).for_pages >= bill(INPUTS, shape).for_pages
    assert most_a_month(more, shape)[0] <= most_a_month(INPUTS, shape)[0]


@given(st.floats(0, 100), shapes)
def test_every_line_goes_with_the_prices(factor: float, shape: Shape):
    before, after = (list(amounts(bill(one, shape))) for one in (INPUTS, dearer(INPUTS, factor)))

    assert after == pytest.approx([usd * factor for usd in before])


@given(factors)
def test_waiting_counts_once_it_is_longer_than_the_cpu(factor: float):
    quick = scaled(INPUTS, "assumed", "answer_seconds", 0)
    slow = scaled(INPUTS, "assumed", "answer_seconds", factor)

    assert consumer_seconds(quick, SMALL) < consumer_seconds(INPUTS, SMALL)
    assert consumer_seconds(slow, SMALL) == pytest.approx(consumer_seconds(INPUTS, SMALL) * factor)


@given(pages, factors)
def test_the_share_of_the_month_shrinks_with_the_pages(count: float, factor: float):
    one = bill(INPUTS, SMALL)

    assert one.per_million(count * factor) <= one.per_million(count)
    assert one.per_million(count) > one.for_pages


def test_a_stage_is_not_asked_to_cost_little_for_more_than_it_holds():
    one = bill(INPUTS, SMALL)

    assert share(one, one.most_a_month).startswith("$")
    assert "$" not in share(one, one.most_a_month * 1.01)


def test_pages_over_ipv6_pass_the_gateway_by():
    shape = behind_gateways(SMALL)
    half, none = (
        next(
            line.usd
            for line in bill(
                replace(INPUTS, assumed=replace(INPUTS.assumed, ipv6=part)), shape
            ).by_pages
            if line.what == "NAT gateway, bytes"
        )
        for part in (0.5, 1.0)
    )

    assert half > none >= 0


@given(
    st.integers(0, 4),
    st.floats(0, 1),
    st.floats(0, 1_000),
    st.sampled_from([SMALL, behind_gateways(SMALL)]),
)
def test_bytes_that_cross_zones_to_the_nat_are_paid_at_both_ends(nats, ipv6, page_kb, shape):
    inputs = replace(INPUTS, assumed=replace(INPUTS.assumed, ipv6=ipv6, page_kb=page_kb))
    [line] = [
        line
        for line in bill(inputs, dataclasses.replace(shape, nats=nats)).by_pages
        if line.what == "NAT, between zones"
    ]

    gb = (page_kb + inputs.assumed.request_kb) * (1 - ipv6) + inputs.assumed.store_kb
    assert line.usd == pytest.approx(gb * max(0, 1 - nats / 2) * inputs.prices.network.region_gb)


def test_one_nat_for_two_zones_is_paid_for_a_nat_in_each_is_not():
    paid = [
        line.usd
        for shape in SHAPES
        for line in bill(INPUTS, shape).by_pages
        if line.what == "NAT, between zones"
    ]

    # Half of 104.5 KB a page at 2 cents a gigabyte.
    assert paid == pytest.approx([1.045, 0])


@pytest.mark.parametrize("stage", COMPARED, ids=lambda stage: stage.name)
def test_a_shape_counts_what_the_app_makes(stage: Stage, assembled: Callable[[str], Assembly]):
    shape, made = shape_of(stage, INPUTS.assumed), assembled(stage.name)

    alarms, keys = (
        len(list(made.every(kind))) for kind in ("AWS::CloudWatch::Alarm", "AWS::KMS::Key")
    )
    assert (shape.alarms, shape.keys) == (alarms, keys)
    subnets = [one["Properties"] for _, _, one in made.every("AWS::EC2::Subnet")]
    zones = {json.dumps(one["AvailabilityZone"]) for one in subnets}
    assert shape.zones == len(zones)
    measured = [
        settings["MetricsEnabled"]
        for _, _, one in made.every("AWS::ApiGateway::Stage")
        for settings in one["Properties"]["MethodSettings"]
    ]
    assert all(measured) == (shape.api_series > 0)
    assert INPUTS.assumed.api_methods <= len(FLEET.routes)


@pytest.mark.parametrize(
    ("dimensions", "reported"),
    [
        ({"tenant": "default", "biz": "docs"}, INPUTS.measured.biz_second_log_kb),
        ({}, INPUTS.measured.stage_second_log_kb),
    ],
    ids=["a biz", "the stage"],
)
def test_a_line_of_a_second_weighs_what_the_model_takes_it_for(capsys, dimensions, reported):
    at = datetime.now(UTC)
    counted = {int(at.timestamp()) - SETTLED_SECONDS - 1: 100}
    working = QueueSample(
        queue_key=QueueKey("default", "docs", "main"),
        depth=Depth(queued=1, leased=0, delayed=0),
        submitted=Rates(per_1s=100, per_5s=20, per_60s=2),
        processed=Rates(per_1s=100, per_5s=20, per_60s=2),
        submitted_seconds=counted,
        processed_seconds=counted,
    )
    found, _ = batches(Sample(at=at, queues=(working,)), Emitted(), bizs=50, hosts=10)
    [second] = [
        one for one in found if one.dimensions == dimensions and all(m.fine for m in one.metrics)
    ]

    EmfMetrics(AWS_SMALL.name).put(second.metrics, second.dimensions, second.at)

    assert reported == pytest.approx(len(capsys.readouterr().out) / 1_000, rel=0.03)


@given(factors)
def test_seconds_with_work_are_lines_of_the_log_for_each_biz(factor: float):
    def logged(inputs: Inputs) -> float:
        [line] = [one for one in bill(inputs, SMALL).by_work if "logs" in one.what]
        return line.usd

    idle = replace(INPUTS, assumed=replace(INPUTS.assumed, active_seconds=0.0))

    # 242 KB a minute of ten bizs are 10.6 GB a month.
    assert logged(INPUTS) == pytest.approx(5.30, abs=0.01)
    assert logged(scaled(INPUTS, "assumed", "bizs", factor)) >= logged(INPUTS)
    assert logged(idle) == pytest.approx(20 * 60 * 730 / 1e6 * 0.5)


def test_nat_instances_may_buy_cpu_credits_and_the_page_says_for_how_much_at_the_most():
    shape = dataclasses.replace(SMALL, nat_type="t4g.micro")

    [line] = [one for one in bill(INPUTS, shape).by_month if one.what == "NAT instances"]

    # Two processors for 730 hours, less the tenth of each that comes with the instance.
    assert "$52.56" in line.how


def test_a_machine_is_held_up_by_its_cores_or_by_its_network():
    hour, by = own_pages_an_hour(INPUTS)
    light, by_cores = own_pages_an_hour(scaled(INPUTS, "assumed", "page_kb", 0.01))

    # 250 Mbit/s are 31,250 KB a second, at 101.5 KB a page.
    assert (hour, by) == (pytest.approx(31_250 / 101.5 * 3_600), "the machine's network")
    assert (light > hour, by_cores) == (True, "the machine's cores")
    assert own_bill(INPUTS).held_up_by == by


def test_a_page_a_call_costs_more_than_many():
    lambda_lines = [line.usd for line in bill(INPUTS, SMALL).by_pages if "Lambda" in line.what]

    assert one_page_a_call(INPUTS, SMALL) > 5 * sum(lambda_lines)


def test_each_line_has_its_assumption():
    for shape in SHAPES:
        one = bill(INPUTS, shape)
        assert all(line.how for line in (*one.by_pages, *one.by_month, *one.by_work))


def test_a_stage_that_aws_does_not_bill_has_no_shape():
    with pytest.raises(ValueError, match="localstack"):
        shape_of(LOCALSTACK, INPUTS.assumed)


def test_an_idle_month_of_the_small_stage_is_below_85_dollars():
    small = shape_of(AWS_SMALL, INPUTS.assumed)

    assert bill(INPUTS, small).idle_month < 85
    assert small.series == len(metric_names.IDLE)


def test_the_page_is_what_the_model_computes():
    page = PAGE.read_text()

    assert page == put_into(page, written(INPUTS)), "run `make cost ARGS=--write`"


def test_a_page_without_marks_is_left_alone():
    with pytest.raises(ValueError, match="no '<!-- what follows"):
        put_into("# What it costs\n", "made")
    with pytest.raises(ValueError, match="behind it"):
        put_into(f"{BEGIN}\n", "made")


def test_the_cpu_of_a_page_is_the_one_that_the_performance_page_reports():
    page = (PAGE.parent / "performance.md").read_text()
    [reported] = re.findall(r"[Aa] page of 50 KB costs ([\d.]+) ms of CPU", page)

    assert INPUTS.measured.worker_cpu_ms == float(reported)


def test_the_cpu_of_the_servers_is_the_one_that_the_performance_page_reports():
    page = (PAGE.parent / "performance.md").read_text()
    rows = re.findall(
        r"^\| (?:submitted|drained|removed)[^|]*\|([^|]*)\|([^|]*)\|([^|]*)\|$", page, re.MULTILINE
    )
    mongodb, redis = (sum(float(row[part]) for row in rows if row[part].strip()) for part in (1, 2))

    assert len(rows) == 3
    assert INPUTS.measured.mongodb_cpu_ms == pytest.approx(mongodb, abs=0.005)
    assert INPUTS.measured.redis_cpu_ms == pytest.approx(redis, abs=0.0005)


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw["prices"]["lambda"].pop("million_calls"),
        lambda raw: raw["prices"]["lambda"].update(million_cals=1.0),
        lambda raw: raw["prices"]["network"].update(out_gb=-0.09),
        lambda raw: raw["assumed"].update(ipv6=2.0),
        lambda raw: raw["assumed"].update(at_once=0),
        lambda raw: raw["assumed"]["own_machine"].update(used=0.0),
        lambda raw: raw["assumed"]["own_machine"].update(mbit=0),
    ],
    ids=[
        "missing",
        "misspelled",
        "negative",
        "more than all",
        "a division",
        "nothing used",
        "no network",
    ],
)
def test_a_wrong_price_list_is_refused(tmp_path: Path, change: Any):
    raw = tomllib.loads(PRICES.read_text())
    change(raw)

    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(raw, Inputs)


def test_each_published_figure_has_its_source():
    assert all(one.source and one.per_million > 0 for one in PUBLISHED)


def test_the_command_prints_every_line_for_the_figures_it_is_given(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("sys.argv", ["cost", "--seconds", "2", "--page-kb", "300", "--cpu-ms", "3"])

    assert command.main() == 0

    reported = capsys.readouterr().out
    for shape in SHAPES:
        assert all(line.what in reported for line in bill(INPUTS, shape).by_month)
    assert "2 s of waiting" in reported


@pytest.mark.parametrize("option", ["--pages", "--seconds", "--page-kb", "--cpu-ms"])
@pytest.mark.parametrize("said", ["-2", "nan", "inf", "many"])
def test_a_figure_that_cannot_be_is_refused_by_the_name_of_its_option(
    monkeypatch, capsys, option, said
):
    monkeypatch.setattr("sys.argv", ["cost", option, said])

    with pytest.raises(SystemExit, match="2"):
        command.main()

    assert f"argument {option}: '{said}'" in capsys.readouterr().err


def test_a_schedule_for_every_minute_costs_the_time_that_ticks_wait_for_it():
    ticks_apart = 30.0
    assert ticks_apart == IN_TIME_SECONDS == FLEET.clocks[0].again_seconds
    assert INPUTS.assumed.due_seconds * 2 == IN_TIME_SECONDS

    more = waiting_for_schedules(INPUTS, SMALL)

    slower = scaled(INPUTS, "assumed", "due_seconds", 2)
    assert waiting_for_schedules(slower, SMALL) == pytest.approx(2 * more)
    ticks = next(one for one in bill(INPUTS, SMALL).by_month if one.what == "scheduler and monitor")
    assert more > ticks.usd, "a minute's wait is longer than its ticks"
    assert f"every minute is {dollars(more)} more a month" in PAGE.read_text()


def test_a_running_crawl_pays_by_the_table_that_the_page_is_computed_from():
    """A million pages as the page assumes them cost by measurement what its lines say."""
    assumed, million = INPUTS.assumed, 1_000_000
    for stage, nat in ((AWS_SMALL, "shared"), (AWS_LARGE, "zonal")):
        shape = shape_of(stage, assumed)
        terms = PriceTerms(nat=nat, architecture="arm64" if shape.arm64 else "x86_64")
        measured = RunFigures(
            requests=million,
            bytes=round(assumed.page_kb * 1_000 * million),
            gb_seconds=consumer_seconds(INPUTS, shape) * shape.consumer_gb * million,
        )

        found = cost_of(measured, prices_of(terms)).lines

        page = {line.what: line.usd for line in bill(INPUTS, shape, million).by_pages}
        assert found["compute"] == pytest.approx(page["Lambda, consumers"])
        network = page["NAT, between zones"] + page["data out of AWS"]
        assert found["network"] == pytest.approx(network)
        assert found["stores"] == pytest.approx(page["to Redis and MongoDB"])
        assert found["storage"] == pytest.approx(page["MongoDB, disk"])


def test_the_readme_names_the_prices_of_the_page():
    [row] = [line for line in README.read_text().splitlines() if line.startswith("| a million p")]
    small, own = (
        dollars(one.per_million(100_000_000)) for one in (bill(INPUTS, SMALL), own_bill(INPUTS))
    )

    assert f"computed: {small} on AWS, {own} on one machine, at 100 million a month" in row


def test_the_command_writes_the_page(monkeypatch, tmp_path, capsys):
    page = tmp_path / "cost.md"
    page.write_text(put_into(PAGE.read_text(), "stale"))
    monkeypatch.setattr("sys.argv", ["cost", "--write"])

    assert command.main(page) == 0

    assert page.read_text() == PAGE.read_text()
    assert capsys.readouterr().out == ""
