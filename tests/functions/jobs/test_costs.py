"""Costs by the real handlers: measured by a worker, shown by API, SDK and command line."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.functions.dead_letter_site import a_site
from tests.functions.http import ask, submit
from tests.kit.jobs import GRACE
from tests.kit.kernel import names
from tests.kit.sdk import Client
from tests.kit.worlds.functions import World, default_bizs

FREE = {"gb_second": 0, "million_calls": 0, "out_gb": 0, "region_gb": 0, "disk_gb_month": 0}


TICK = json.loads((Path(__file__).parents[3] / "events/scheduler/tick.json").read_text())["event"]


def crawl(world: World) -> None:
    """Read three pages of a job, and one of none."""
    with a_site() as site:
        submit(world, *(f"{site.url}/{n}" for n in range(3)), job="june")
        submit(world, f"{site.url}/alone")
        world.work()


def test_a_crawl_costs_what_was_measured_of_its_job_its_biz_and_its_tenant(
    world: World, client: Client
) -> None:
    crawl(world)
    today = f"{datetime.now(UTC):%Y-%m-%d}"

    job = client.job("docs", "june").cost
    biz_of_day = client.costs("docs", period=today)
    tenant = client.costs()

    assert job.pages == 3
    assert job.usd == pytest.approx(sum(job.lines.values()), abs=1e-9)
    assert job.per_1000_pages == pytest.approx(job.usd / 3 * 1_000, rel=1e-3)
    assert min(job.lines[line] for line in ("compute", "calls", "network", "storage")) > 0
    assert biz_of_day.cost.pages == 4
    assert biz_of_day.cost.usd > job.usd
    assert [one.day for one in biz_of_day.days] == [today]
    assert (tenant.period, tenant.region) == (today[:7], "us-east-1")
    assert [(one.biz, one.cost) for one in tenant.bizs] == [("docs", biz_of_day.cost)]


def test_a_stage_pays_its_own_prices_from_the_next_look_on(world: World, client: Client) -> None:
    crawl(world)
    listed = client.costs("docs").cost

    world.push(default_bizs(), stage={"prices": {**FREE, "nat_gb": 1000}})
    own = client.costs("docs").cost

    assert listed.usd > 0
    assert {line for line, usd in own.lines.items() if usd} == {"network"}
    assert own.lines["network"] > listed.lines["network"]


def test_the_command_line_shows_costs_by_line_biz_and_day(world: World, crawlfleet) -> None:
    crawl(world)
    today = f"{datetime.now(UTC):%Y-%m-%d}"

    whole, one, job = (
        crawlfleet("cost"),
        crawlfleet("cost", "docs", "--period", today),
        crawlfleet("job", "show", "docs", "june"),
    )

    assert (whole.code, one.code, job.code) == (0, 0, 0), whole.err
    for shown in (whole, one, job):
        assert "compute" in shown.out
        assert "per 1,000 pages" in shown.out
    assert "docs" in whole.out
    assert today in one.out
    assert "nothing was measured" in crawlfleet("cost", "--period", "2024-02").err


@pytest.mark.parametrize("period", ["2026-13", "2026-02-30", "june", "2026-1", "20261123"])
def test_a_period_that_is_none_is_refused_by_its_name(world: World, period: str) -> None:
    answer = ask(world, "GET", "/v1/costs", query={"period": period})

    assert answer.status == 400
    assert answer.json["errors"][0]["field"] == "period"


def test_a_biz_that_is_not_there_has_no_costs_and_a_job_without_measurements_none(
    world: World,
) -> None:
    assert ask(world, "GET", "/v1/nothing/costs").status == 404
    order = {"rule": "page", "urls": ["https://a.example/"], "name": "new"}
    assert ask(world, "POST", "/v1/docs/jobs", order).status == 201
    assert ask(world, "GET", "/v1/docs/jobs/new").json["cost"] is None


def test_nobody_sees_what_another_tenant_has_paid(world: World) -> None:
    crawl(world)

    assert ask(world, "GET", "/v1/costs", key="rival").json["cost"]["usd"] == 0


def ran(world: World, client: Client, name: str, urls: list[str]) -> None:
    """Have a job of these pages run to its end, and be learnt from."""
    client.start_job("docs", rule="page", urls=urls, name=name)
    for _ in range(20):
        world.work()
        world.call(names.SCHEDULER, TICK)
        if client.job("docs", name).ended:
            break
    assert client.job("docs", name).ended
    later = datetime.now(UTC) + GRACE + timedelta(seconds=5)
    world.clocks[names.SCHEDULER] = lambda: later
    world.call(names.SCHEDULER, TICK)
    world.clocks.clear()


def test_a_job_is_forecast_from_those_before_it_and_compared_with_what_it_took(
    world: World, client: Client, crawlfleet
) -> None:
    with a_site() as site:
        pages = [f"{site.url}/{n}" for n in range(6)]
        before = client.forecast("docs", rule="page", urls=pages)
        ran(world, client, "first", pages)
        after = client.forecast("docs", rule="page", urls=pages[:3])
        ran(world, client, "second", pages)
        job = client.job("docs", "second")
        shown = crawlfleet("job", "show", "docs", "second")
        asked = crawlfleet("job", "forecast", "docs", "--rule", "page", "--url", pages[0])

    assert (before.runs, before.error) == (0, None)
    assert "nothing was measured yet" in " ".join(before.why)
    assert (after.runs, after.pages.likely) == (1, 3)
    assert after.bytes.high < before.bytes.likely
    assert job.forecast.pages.likely == job.took.pages == 6
    assert job.forecast.bytes.likely == pytest.approx(job.took.bytes, rel=0.05)
    assert job.took.usd == job.cost.usd
    assert "took" in shown.out
    assert asked.code == 0, asked.err
    assert "likely" in asked.out
    assert client.forecast("docs", rule="page", urls=pages).error is not None


def test_a_forecast_says_what_part_of_a_run_a_budget_pays_for(
    world: World, client: Client, crawlfleet
) -> None:
    pages = [f"https://a.example/{n}" for n in range(1_000)]
    whole = client.forecast("docs", rule="page", urls=pages)
    half = whole.usd.likely / 2
    quotas = [{"unit": "usd", "most": round(half, 9), "at_limit": "end"}]

    cut = client.forecast("docs", rule="page", urls=pages, quotas=quotas)
    order = ("job", "forecast", "docs", "--rule", "page", "--url", pages[0])
    told = crawlfleet(*order, "--budget", "5.00")
    wrong = crawlfleet(*order, "--budget", "much")

    assert whole.budget is None
    assert cut.budget is not None
    assert cut.budget.part.likely == pytest.approx(0.5, rel=1e-6)
    assert cut.budget.pages.likely == pytest.approx(whole.pages.likely / 2, rel=1e-6)
    assert cut.budget.seconds.likely == pytest.approx(whole.seconds.likely / 2, rel=1e-6)
    assert cut.budget.part.low <= cut.budget.part.likely <= cut.budget.part.high == 1
    assert "a budget of 5 USD pays for all of it" in told.out
    assert wrong.code == 2
    assert "--budget" in wrong.err
    assert ask(world, "GET", "/v1/docs/jobs").json["jobs"] == []


def test_a_forecast_starts_nothing_and_says_what_is_wrong_with_an_order(world: World) -> None:
    fine = {"rule": "page", "urls": ["https://a.example/"]}

    assert ask(world, "POST", "/v1/docs/forecasts", fine).status == 200
    wrong = ask(world, "POST", "/v1/docs/forecasts", {"rule": "gone", "urls": ["nonsense"]})

    assert wrong.status == 400
    assert wrong.json["errors"]
    assert ask(world, "GET", "/v1/docs/jobs").json["jobs"] == []
