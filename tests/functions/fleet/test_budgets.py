"""Budgets in money by the real handlers: said, enforced and shown in dollars."""

import pytest

from tests.functions.dead_letter_site import a_site
from tests.functions.http import ask, submit
from tests.kit.sdk import QuotaExceededError
from tests.kit.worlds.functions import World, biz, default_bizs

ENDS = {"unit": "requests", "most": 1, "at_limit": "end"}


def limited(world: World, *quotas: dict[str, object], **tenant: object) -> None:
    world.push(
        default_bizs() | {"acme": {"docs": biz(quotas=list(quotas))}}, tenants={"acme": tenant}
    )


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_budget_is_charged_what_pages_cost_and_shown_in_dollars(world, crawlfleet, client):
    limited(world, {"unit": "usd", "most": 5.03, "per": "month"})
    with a_site() as site:
        submit(world, *(f"{site.url}/{n}" for n in range(3)))
        world.work()

    [quota] = ask(world, "GET", "/v1/docs/quotas").json["quotas"]
    assert (quota["unit"], quota["most"], quota["held"]) == ("usd", 5.03, 0)
    assert 0 < quota["used"] < 0.001
    assert quota["left"] == pytest.approx(5.03 - quota["used"])
    [shown] = client.quotas(biz="docs")
    assert shown.used == quota["used"]
    told = crawlfleet("quota", "show", "--biz", "docs")
    assert told.code == 0, told.err
    assert "usd month $5.03 $0.00" in words(told.out)


def test_a_job_has_the_budget_that_it_was_started_with(world, crawlfleet, client):
    limited(world)
    with a_site() as site:
        urls = [part for n in range(4) for part in ("--url", f"{site.url}/{n}")]
        started = crawlfleet(
            *("job", "start", "docs", "--rule", "page", *urls),
            *("--name", "june", "--budget", "0.00080", "--json"),
        )
        assert started.code == 0, started.err
        world.work()

    job = ask(world, "GET", "/v1/docs/jobs/june").json
    assert job["quotas"] == [{"unit": "usd", "most": 0.0008, "per": "all", "at_limit": "end"}]
    [quota] = client.quotas(biz="docs", job="june")
    assert (quota.owner, quota.at_limit) == ("job june of biz docs", "end")
    assert 0 < quota.used <= 0.0008
    # Its cost has workers' calls, too.
    assert job["cost"]["usd"] >= quota.used


@pytest.mark.parametrize(
    ("quota", "said"),
    [
        ({"unit": "usd", "most": 0.0001}, "is less than one page may cost ($0.0007"),
        ({"unit": "usd", "most": 2_000_000}, "at most 1,000,000 US dollars"),
        ({"unit": "usd", "most": 1.0000000001}, "at most nine decimal places"),
        ({"unit": "usd", "most": 0}, "expected"),
        ({"unit": "requests", "most": 2.5}, "a whole number of requests"),
    ],
)
def test_a_budget_that_cannot_be_is_refused_and_says_why(world, quota, said):
    body = {"rule": "page", "urls": ["https://example.org/"], "quotas": [quota]}

    answer = ask(world, "POST", "/v1/docs/jobs", body)

    assert answer.status == 400
    [error] = answer.json["errors"]
    assert error["field"].startswith("quotas[0]")
    assert said in error["message"]


@pytest.mark.parametrize("text", ["five", "-1", "1,50", "0.0000000001"])
def test_a_budget_that_is_no_amount_of_dollars_is_refused_by_the_command_line(crawlfleet, text):
    found = crawlfleet(
        *("job", "start", "docs", "--rule", "page", "--url", "https://example.org/"),
        *("--budget", text),
    )

    assert found.code == 2
    assert "US dollars" in found.err


def test_a_forecast_says_which_budget_a_run_reaches(world, client):
    limited(world, {"unit": "usd", "most": 0.001})
    urls = [f"https://example.org/{n}" for n in range(500)]

    found = client.forecast("docs", rule="page", urls=urls)

    [said] = [why for why in found.why if "budget" in why]
    assert "the budget of biz docs: $0.0010 of $0.0010 are left (quotas[0])" in said


def test_seeds_under_a_limit_that_ends_work_are_refused_with_its_name(world, client):
    limited(world, ENDS)
    with a_site() as site:
        client.submit("docs", f"{site.url}/1")
        world.work()

    with pytest.raises(QuotaExceededError, match=r"biz docs has used 1 of 1 requests in all"):
        client.offer_seeds("docs", ["https://example.org/2"])


def test_requests_for_a_job_at_a_limit_that_ends_work_are_refused_with_its_name(world, client):
    limited(world)
    with a_site() as site:
        client.start_job("docs", rule="page", urls=[f"{site.url}/1"], name="june", quotas=[ENDS])
        world.work()
        world.work()

    said = r"job june of biz docs has used 1 of 1 requests in all \(quotas\[0\]\)"
    with pytest.raises(QuotaExceededError, match=said):
        client.submit("docs", "https://example.org/2", job="june")
    with pytest.raises(QuotaExceededError, match=said):
        client.offer_seeds("docs", [{"url": "https://example.org/2", "job": "june"}])
