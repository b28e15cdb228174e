"""Quotas by the real handlers: enforced by workers, shown by API, SDK and command line."""

import re
import shlex
from pathlib import Path

import msgspec
import pytest

from tests.functions.dead_letter_site import a_site
from tests.functions.http import ask, submit
from tests.kit.kernel import names
from tests.kit.sdk import QuotaExceededError
from tests.kit.worlds.functions import World, biz, default_bizs

ROOT = Path(__file__).resolve().parents[3]
TICK = {"source": "aws.events", "detail-type": "Scheduled Event"}


def limited(world: World, *quotas: dict[str, object], **tenant: object) -> None:
    world.push(
        default_bizs() | {"acme": {"docs": biz(quotas=list(quotas))}}, tenants={"acme": tenant}
    )


def state(world: World, request: str) -> str:
    return ask(world, "GET", f"/v1/docs/requests/{request}").json["state"]


def states(world: World) -> dict[str, int]:
    return ask(world, "GET", "/v1/docs/stats").json["states"]


def test_a_quota_holds_for_workers_and_says_where_it_stands(world, crawlfleet):
    limited(world, {"unit": "requests", "most": 3, "per": "month"})
    with a_site() as site:
        ids = submit(world, *(f"{site.url}/{n}" for n in range(5)))
        world.work()

    assert (states(world)["done"], states(world)["pending"]) == (3, 2)
    [quota] = ask(world, "GET", "/v1/docs/quotas").json["quotas"]
    assert quota["owner"] == "biz docs"
    assert (quota["most"], quota["used"], quota["held"], quota["left"]) == (3, 3, 0, 0)
    assert quota["used_up"] is True
    assert quota["ends_at"].endswith("-01T00:00:00.000Z")
    shown = crawlfleet("quota", "show")
    assert shown.code == 0, shown.err
    assert "biz docs" in shown.out
    assert "used up: waits until" in " ".join(shown.out.split())
    [waiting, *_] = [one for one in ids if state(world, one) == "pending"]
    told = crawlfleet("explain", "docs", waiting)
    assert "biz docs has used 3 of 3 requests of this month (quotas[0])" in " ".join(
        told.out.split()
    )


def test_a_job_uses_no_more_than_its_quota_and_the_rest_of_it_ends(world, crawlfleet):
    limited(world)
    with a_site() as site:
        urls = [part for n in range(4) for part in ("--url", f"{site.url}/{n}")]
        started = crawlfleet(
            *("job", "start", "docs", "--rule", "page", *urls),
            *("--name", "june", "--quota", "requests=2", "--json"),
        )
        assert started.code == 0, started.err
        world.work()
        world.work()

    assert (states(world)["done"], states(world)["dead"]) == (2, 2)
    [dead, _] = ask(world, "GET", "/v1/docs/dead-letters").json["dead_letters"]
    assert dead["reason"] == "QuotaExceeded"
    assert "job june of biz docs has used 2 of 2 requests in all (quotas[0])" in dead["error"]
    shown = crawlfleet("quota", "show", "--biz", "docs", "--job", "june")
    assert "used up: ends" in " ".join(shown.out.split())


def test_a_schedules_jobs_are_for_its_user(world, crawlfleet):
    limited(world)
    put = crawlfleet(
        *("schedule", "put", "docs", "nightly", "--cron", "0 3 * * *", "--rule", "page"),
        *("--url", "https://example.org/", "--user", "ann"),
    )
    assert put.code == 0, put.err

    started = ask(world, "POST", "/v1/docs/schedules/nightly/run").json["job"]

    job = ask(world, "GET", f"/v1/docs/jobs/{started}").json
    assert (job["user"], job["quotas"]) == ("ann", [])


@pytest.mark.parametrize(
    ("quota", "field"),
    [
        ({"unit": "requests", "most": 0}, "quotas[0].most"),
        ({"unit": "bytes", "most": 2, "at_limit": "end"}, "quotas[0].most"),
        ({"unit": "pages", "most": 2, "at_limit": "end"}, "quotas[0].unit"),
    ],
)
def test_a_jobs_quota_that_cannot_be_is_refused_by_its_field(world, quota, field):
    body = {"rule": "page", "urls": ["https://example.org/"], "quotas": [quota]}

    answer = ask(world, "POST", "/v1/docs/jobs", body)

    assert answer.status == 400
    assert [error["field"] for error in answer.json["errors"]] == [field]


def test_a_users_quota_that_ends_work_refuses_what_comes_after_it(world, client):
    limited(world, user_quotas=[{"unit": "requests", "most": 1, "at_limit": "end"}])
    with a_site() as site:
        client.submit("docs", f"{site.url}/1", user="ann")
        world.work()

    with pytest.raises(QuotaExceededError, match=r"user ann has used 1 of 1 requests in all"):
        client.submit("docs", "https://example.org/2", user="ann")
    with pytest.raises(QuotaExceededError, match=r"user_quotas\[0\]"):
        client.start_job("docs", rule="page", urls=["https://example.org/2"], user="ann")
    assert client.submit("docs", "https://example.org/2", user="bob").accepted
    [quota] = client.quotas(user="ann")
    assert (quota.owner, quota.used, quota.used_up) == ("user ann", 1, True)


def test_a_jobs_quota_that_ends_work_refuses_what_is_submitted_under_it(world, crawlfleet):
    limited(world)
    quota = ("--quota", "requests=2")
    with a_site() as site:
        urls = [part for n in range(3) for part in ("--url", f"{site.url}/{n}")]
        crawlfleet("job", "start", "docs", "--rule", "page", *urls, "--name", "june", *quota)
        world.call(names.SCHEDULER, TICK)
        world.work()
        pages = [{"url": f"{site.url}/more", "job": "june"}, {"url": f"{site.url}/else"}]

        refused = ask(world, "POST", "/v1/docs/requests", {"requests": pages})

    assert refused.status == 429
    said = "job june of biz docs has used 2 of 2 requests in all (quotas[0])"
    assert said in refused.json["detail"]
    assert ask(world, "POST", "/v1/docs/requests", pages[1]).status == 202


def test_quotas_of_another_tenant_are_not_shown(world):
    limited(world, {"unit": "requests", "most": 3})

    assert ask(world, "GET", "/v1/quotas", key="rival").json["quotas"] == []
    assert len(ask(world, "GET", "/v1/quotas").json["quotas"]) == 1


@pytest.mark.parametrize(
    ("place", "query", "status"),
    [
        ("/v1/nothing/quotas", {}, 404),
        ("/v1/docs/quotas", {"job": "none"}, 404),
        ("/v1/docs/quotas", {"user": "-"}, 400),
        ("/v1/quotas", {"user": "-"}, 400),
    ],
)
def test_a_question_about_what_is_not_there_is_refused(world, place, query, status):
    assert ask(world, "GET", place, query=query).status == status


def test_no_worker_is_wanted_for_what_a_quota_keeps_waiting(world):
    limited(world, {"unit": "requests", "most": 1})
    with a_site() as site:
        submit(world, *(f"{site.url}/{n}" for n in range(5)))
        world.work()
        world.lambdas.woken.clear()
        submit(world, f"{site.url}/more")
        world.call(names.SCHEDULER, TICK)

    assert world.lambdas.woken == []


def a_job_of_four(crawlfleet, site, *options: str) -> None:
    urls = [part for n in range(4) for part in ("--url", f"{site.url}/{n}")]
    command = ("job", "start", "docs", "--rule", "page", *urls, "--name", "june", "--json")
    started = crawlfleet(*command, *options)
    assert started.code == 0, started.err


def test_a_running_jobs_quota_can_be_raised(world, crawlfleet, client):
    limited(world)
    with a_site() as site:
        a_job_of_four(crawlfleet, site, "--quota", "requests=1/all")
        world.work()
        assert states(world)["done"] == 1
        raised = crawlfleet("quota", "set", "docs", "june", "--quota", "requests=2/all")
        assert raised.code == 0, raised.err
        world.work()
        assert states(world)["done"] == 2
        quotas = [{"unit": "requests", "most": 9}]
        job = client.set_job_quotas("docs", "june", quotas)
        assert [quota.most for quota in job.quotas] == [9]
        world.work()

    assert states(world)["done"] == 4


@pytest.mark.parametrize(
    ("job", "quotas", "status", "said"),
    [
        ("none", [], 404, "no job"),
        ("june", [{"unit": "bytes", "most": 1}], 400, "quotas[0].most"),
        ("june", [{"unit": "requests", "most": 1, "of": "us"}], 400, "quotas[0].of"),
        ("mine", [{"unit": "requests", "most": 1}], 409, "submitted under the name"),
    ],
)
def test_quotas_of_a_job_that_cannot_be_are_refused(world, crawlfleet, job, quotas, status, said):
    limited(world)
    with a_site() as site:
        a_job_of_four(crawlfleet, site)
        submitted = {"url": f"{site.url}/9", "rule": "page", "job": "mine"}
        assert ask(world, "POST", "/v1/docs/requests", submitted).status == 202

        answer = ask(world, "PUT", f"/v1/docs/jobs/{job}/quotas", {"quotas": quotas})

    assert answer.status == status
    assert said in answer.text


def test_a_job_that_has_ended_gets_no_other_quotas(world, crawlfleet):
    limited(world)
    with a_site() as site:
        a_job_of_four(crawlfleet, site)
        assert crawlfleet("job", "cancel", "docs", "june").code == 0

    refused = crawlfleet("quota", "set", "docs", "june", "--quota", "requests=2")

    assert refused.code != 0
    assert "it has ended" in refused.err
    assert crawlfleet("quota", "set", "docs", "june").code == 2


def test_a_job_under_a_quota_that_is_used_up_wakes_no_worker(world, crawlfleet):
    limited(world, {"unit": "requests", "most": 1})
    with a_site() as site:
        submit(world, f"{site.url}/1", f"{site.url}/2")
        world.work()
        world.lambdas.woken.clear()

        a_job_of_four(crawlfleet, site)

    assert world.lambdas.woken == []


@pytest.mark.parametrize("owner", ["user", "job"])
def test_a_request_says_which_limit_of_its_user_or_job_it_waits_for(world, crawlfleet, owner):
    quota = {"unit": "requests", "most": 1, "per": "month"}
    limited(world, **({"user_quotas": [quota]} if owner == "user" else {}))
    options = ("--user", "ann") if owner == "user" else ("--quota", "requests=1/month")
    with a_site() as site:
        a_job_of_four(crawlfleet, site, *options)
        world.work()
    listed = ask(world, "GET", "/v1/docs/requests", query={"state": "pending"}).json["requests"]
    named = "user ann" if owner == "user" else "job june of biz docs"

    told = ask(world, "GET", f"/v1/docs/requests/{listed[0]['id']}/explain").json

    assert len(listed) == 3
    assert f"{named} has used 1 of 1 requests of this month" in told["standing"]["sentence"]
    assert told["standing"]["facts"]["quota_of"] == named
    assert told["standing"]["facts"]["quota_until"].endswith("-01T00:00:00Z")
    assert [one["user"] for one in listed] == (["ann"] * 3 if owner == "user" else [None] * 3)


def test_the_guide_is_executed_as_it_stands(world, crawlfleet):
    guide = (ROOT / "docs/guides/quotas.md").read_text()
    blocks = re.findall(r"```(yaml|console)\n(.*?)```", guide, re.DOTALL)
    documents = [msgspec.yaml.decode(text) for kind, text in blocks if kind == "yaml"]
    consoles = [text for kind, text in blocks if kind == "console"]
    tenant, shop, budget = documents
    world.push({"acme": {"shop": biz(collection="shop", **shop)}}, tenants={"acme": tenant})
    commands = [
        shlex.split(line.removeprefix("$ crawlfleet "))
        for kind, text in blocks
        for line in text.splitlines()
        if kind == "console" and line.startswith("$ ")
    ]
    assert len(commands) == 6

    for command in commands[:4]:
        shown = crawlfleet(*command)
        assert shown.code == 0, shown.err

    said = [" ".join(line.split()) for line in shown.out.splitlines()[2:] if line]
    said = [line.replace(world.tenants["acme"], "acme") for line in said]
    written = [" ".join(line.split()) for line in consoles[0].splitlines()[5:]]
    assert said == written
    assert len(written) == 5

    world.push({"acme": {"shop": biz(collection="shop")}}, tenants={"acme": budget})
    for command in commands[4:]:
        shown = crawlfleet(*command)
        assert shown.code == 0, shown.err
    shown = crawlfleet("quota", "show", "--biz", "shop", "--job", "july")
    assert re.search(r"tenant .* usd +month +\$50\.00", shown.out)
    assert re.search(r"job july of biz shop +usd +all +\$7\.50", shown.out)
