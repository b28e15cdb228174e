"""Scrapy processes obey the fleet's host slots and robots.txt, by its API."""

import time

import pytest

from tests.functions.door import a_door
from tests.functions.http import ask, submit
from tests.kit.politeness import HostAsk, RedisHosts
from tests.kit.redis import RedisConnection
from tests.kit.worlds.functions import default_bizs
from tests.scrapy_project.crawls import crawls
from tests.scrapy_project.site import LinkedSite

PACE = {"per_second": 8.0, "concurrency": 4, "adaptive": False}


@pytest.fixture
def door(world, tmp_path):
    with a_door(world, tmp_path) as door:
        yield door
        assert door.drifts == []


@pytest.fixture
def project(world, door, own_redis, tmp_path):
    """Crawls of the tenant acme, joined to the API."""
    world.push(default_bizs(), stage={"hosts": PACE})
    with (
        RedisConnection(own_redis) as connection,
        crawls(connection, own_redis, world.tenants["acme"], tmp_path) as made,
    ):
        made.joined = ("-s", f"CRAWLFLEET_API_URL={door.url}")
        made.joined += ("-s", f"CRAWLFLEET_API_KEY={door.keys['acme']}")
        yield made


def test_two_processes_ask_a_host_at_the_pace_of_the_fleet_together(project, world, monkeypatch):
    calls, call = [], world.call

    def noted(*of):
        calls.append(time.monotonic())
        return call(*of)

    monkeypatch.setattr(world, "call", noted)
    with LinkedSite(pages=16) as site:
        both = [
            project.begin("pages", "-a", f"site={site.url}/0", *project.joined) for _ in range(2)
        ]
        logs = [process.end() for process in both]

    assert project.pages() == set(range(16)), logs[0][-3000:]
    # Slots are an eighth of a second apart, whoever takes them. The first one comes after the first
    # call, and a page after its slot; how long after is the machine's.
    span = site.asked[-1] - calls[0]
    assert span >= (len(site.asked) - 1) / PACE["per_second"] * 0.9


def test_slots_that_workers_took_are_not_a_scrapy_processs(project, world):
    with LinkedSite(pages=3) as site:
        tenant = world.tenants["acme"]
        ask = HostAsk(
            host="127.0.0.1",
            tenant=tenant,
            count=1,
            running=0,
            interval_seconds=1.5,
            concurrency=4,
        )
        RedisHosts(project.connection).reserve([ask], "w")
        begun = project.begin("pages", "-a", f"site={site.url}/0", *project.joined)
        begun.end()

    assert project.pages() == {0, 1, 2}


def test_what_robots_txt_denies_is_not_asked_for_and_a_crawl_delay_is_kept(project):
    with LinkedSite(pages=8) as site:
        site.robots = b"User-agent: *\nDisallow: /3\nDisallow: /7\nCrawl-delay: 0.5\n"
        log = project.run("pages", "-a", f"site={site.url}/0", *project.joined)

    assert project.pages() == {0, 1, 2, 4, 5, 6}, log[-3000:]
    assert site.hits["/robots.txt"] == 1
    assert not {"/3", "/7"} & set(site.hits)
    assert "'crawlfleet/robots_forbidden': 2" in log
    # All others are known by the front page, whose own slot was granted before the delay was known.
    front, *pages = site.asked[1:]
    assert pages[-1] - front >= (len(pages) - 1) * 0.5 * 0.9


def test_a_crawl_is_in_the_ledger_of_its_biz_and_has_one_of_its_own(project, world):
    submit(world, "https://example.org/")
    with LinkedSite(pages=4) as site:
        project.run("pages", "-a", f"site={site.url}/0")

    own = ask(world, "GET", "/v1/docs/ledger", query={"job": "scrapy.pages"}).json
    whole = ask(world, "GET", "/v1/docs/ledger").json
    assert (own["done"], own["pending"], own["balanced"]) == (own["submitted"], 0, True)
    assert own["done"] >= 5
    assert whole["submitted"] == own["submitted"] + 1
    assert (whole["pending"], whole["difference"]) == (1, 0)
    missing = ask(world, "GET", "/v1/docs/ledger", query={"job": "scrapy.nothing"})
    assert missing.status == 404
    assert ask(world, "GET", "/v1/docs/ledger", key="rival").json["submitted"] == 0


def test_a_biz_that_ignores_robots_txt_does_not_ask_for_it(project, world):
    bizs = default_bizs()
    bizs["acme"]["docs"]["politeness"] = {"robots": "ignore"}
    world.push(bizs, stage={"hosts": PACE})
    with LinkedSite(pages=4) as site:
        site.robots = b"User-agent: *\nDisallow: /\n"
        project.run("pages", "-a", f"site={site.url}/0", *project.joined)

    assert project.pages() == {0, 1, 2, 3}
    assert site.hits["/robots.txt"] == 0


def test_without_an_api_the_log_says_what_a_crawl_goes_without(project):
    with LinkedSite(pages=3) as site:
        log = project.run("pages", "-a", f"site={site.url}/0")

    assert project.pages() == {0, 1, 2}
    assert "this crawl has no host slots of the fleet" in log
