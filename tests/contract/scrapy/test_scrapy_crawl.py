"""A real Scrapy project over a real Redis: complete, shared, paused, killed, resumed."""

import json
import random
from collections import Counter

import pytest

from tests.kit.kernel import QueueKey
from tests.kit.recovery import RedisBizs
from tests.scrapy_project.crawls import Crawls, crawls
from tests.scrapy_project.site import PAGES, LinkedSite
from tests.waiting import eventually

ALL = set(range(PAGES))


@pytest.fixture
def project(redis_connection, redis_url, tenant, tmp_path):
    with crawls(redis_connection, redis_url, tenant, tmp_path) as made:
        yield made


def test_a_crawl_is_complete_and_forgotten_at_its_end(project: Crawls):
    with LinkedSite() as site:
        log = project.run("pages", "-a", f"site={site.url}/0")

    items = project.items()
    assert {item.fields["page"] for item in items} == ALL, log[-3000:]
    assert {item.rule for item in items} == {"pages"}
    assert all(item.url == item.fields["url"] for item in items)
    # The start request passes the filter, as everywhere in Scrapy, so a link leads there once more.
    assert len(items) == PAGES + 1
    assert site.hits["/0"] == 2
    assert set(site.hits.values()) == {1, 2}
    assert "'dupefilter/filtered'" in log
    assert project.left() == ["serial"]


def test_two_processes_share_a_crawl_and_its_start(project: Crawls):
    with LinkedSite(seconds=0.02) as site:
        both = [project.begin("pages", "-a", f"site={site.url}/0") for _ in range(2)]
        logs = [process.end() for process in both]

    assert project.pages() == ALL
    assert site.hits["/0"] == 2
    assert site.served <= 330
    assert all("'scheduler/dequeued/redis': " in log for log in logs)
    assert project.left() == ["serial"]


@pytest.mark.long
@pytest.mark.parametrize("pause", ["interrupt", "terminate"])
def test_a_crawl_that_is_paused_goes_on_where_it_was(project: Crawls, pause):
    with LinkedSite(seconds=0.02) as site:
        first = project.begin("pages", "-a", f"site={site.url}/0")
        eventually(lambda: site.served >= 80, what="80 pages")
        getattr(first, pause)()
        before = site.served
        queued = project.connection.client.zcard(project.keys().queue)
        leased = project.connection.client.zcard(project.keys().leases)
        log = project.run("pages", "-a", f"site={site.url}/0")

    assert before < 200
    assert queued > 0
    assert leased == 0
    assert f"Resuming crawl ({queued} requests scheduled, 0 leased" in log
    assert project.pages() == ALL
    # Nothing was done twice but what the site itself answers twice.
    assert site.served <= 330
    assert project.left() == ["serial"]


@pytest.mark.long
def test_killed_again_and_again_a_crawl_loses_nothing(project: Crawls):
    dice = random.Random(7)
    with LinkedSite(seconds=0.01) as site:
        for _ in range(4):
            crawl = project.begin("pages", "-a", f"site={site.url}/0")
            wanted = site.served + dice.randint(5, 60)
            eventually(lambda wanted=wanted: site.served >= wanted, what="more pages")
            crawl.kill()
        log = project.run("pages", "-a", f"site={site.url}/0")

    by_page = Counter(item.fields["page"] for item in project.items())
    assert set(by_page) == ALL, log[-3000:]
    assert "'scheduler/inherited': " in log
    assert project.left() == ["serial"]


@pytest.mark.long
def test_a_page_that_kills_its_process_is_put_aside_and_the_crawl_goes_on(project: Crawls):
    deaths, log, client = 0, "", project.connection.client
    with LinkedSite() as site:
        for _ in range(5):
            crawl = project.begin(
                *("deadly", "-a", f"site={site.url}/0", "-a", "deadly=7"),
                *("-s", "CRAWLFLEET_ATTEMPTS=3", "-s", "CRAWLFLEET_LEASE_SECONDS=1"),
            )
            log = crawl.end()
            if crawl.code == 0:
                break
            deaths += 1

    assert deaths == 3, log[-3000:]
    assert {item.fields["page"] for item in project.items()} == ALL - {7}
    keys = project.keys("deadly")
    (aside,) = client.lrange(keys.dead, 0, -1)
    assert aside.startswith(b"was begun 3 times, and its process ended each time\n")
    assert f"it is kept in {keys.dead}: {site.url}/7" in log
    assert "'scheduler/deadly': 1" in log
    assert project.left("deadly") == ["dead", "serial"]


@pytest.mark.long
def test_what_is_under_way_when_its_process_dies_is_done_by_the_one_beside_it(project: Crawls):
    with LinkedSite() as site:
        first = project.begin("pages", "-a", f"site={site.url}/0")
        eventually(lambda: site.served >= 60, what="60 pages")
        site.close()
        eventually(lambda: site.held == 8, what="all of its connections are waiting")
        second = project.begin("pages", "-a", f"site={site.url}/0")
        eventually(lambda: site.held == 16, what="the second one has work of its own")
        first.kill()
        site.open()
        log = second.end()

    assert project.pages() == ALL
    assert "took over" in log
    assert project.left() == ["serial"]


@pytest.mark.long
def test_scrapy_redis_loses_what_is_under_way(project: Crawls, tenant):
    peer = "linked.peer_settings"
    with LinkedSite() as site:
        first = project.begin("pages", "-a", f"site={site.url}/0", settings=peer)
        eventually(lambda: site.served >= 60, what="60 pages")
        site.close()
        eventually(lambda: site.held == 8, what="all of its connections are waiting")
        first.kill()
        site.open()
        project.begin("pages", "-a", f"site={site.url}/0", settings=peer).end()

    stored = project.connection.client.lrange(f"{tenant}:pages:items", 0, -1)
    lost = ALL - {json.loads(each)["page"] for each in stored}
    assert len(lost) >= 8


@pytest.mark.long
@pytest.mark.parametrize("kind", ["list", "set", "zset"])
def test_start_urls_that_somebody_pushes_survive_the_process_that_read_them(
    project: Crawls, tenant, kind
):
    key, client = f"{tenant}:starts", project.connection.client
    with LinkedSite() as site:
        urls = [json.dumps({"url": f"{site.url}/{n}", "meta": {"mark": n}}) for n in range(39)]
        urls.append(f"{site.url}/39")
        {
            "list": lambda: client.rpush(key, *urls),
            "set": lambda: client.sadd(key, *urls),
            "zset": lambda: client.zadd(key, {url: n for n, url in enumerate(urls)}),
        }[kind]()
        site.close()
        arguments = (
            "fed",
            "-s",
            f"REDIS_START_URLS_KEY={key}",
            "-s",
            "MAX_IDLE_TIME_BEFORE_CLOSE=4",
        )
        first = project.begin(*arguments)
        eventually(lambda: site.held == 8, what="all of its connections are waiting")
        first.kill()
        site.open()
        project.run(*arguments)

    items = project.items()
    assert {item.fields["page"] for item in items} == set(range(40))
    assert {item.fields["mark"] for item in items} == {None, *range(39)}
    assert {item.rule for item in items} == {"fed"}
    assert {item.url for item in items} == {f"{site.url}/{n}" for n in range(40)}
    assert not client.exists(key)


def test_a_biz_that_there_is_not_ends_the_crawl_before_it_begins(project: Crawls, tenant):
    RedisBizs(project.connection).report({tenant: [QueueKey(tenant, "docs", "main")]})
    with LinkedSite() as site:
        site_is = ("-a", f"site={site.url}/0")
        refused = project.begin("pages", *site_is, "-s", "CRAWLFLEET_BIZ=nobiz")
        log = refused.end()
        assert site.served == 0
        assert "CRAWLFLEET_BIZ" in log
        assert "no biz 'nobiz'; it has docs" in log
        assert refused.code != 0
        assert project.items("nobiz") == []

        project.run("pages", *site_is)
    assert project.pages() == ALL


def test_where_nobody_has_reported_of_bizs_items_are_taken_and_the_log_says_so(
    project: Crawls, tenant
):
    with LinkedSite() as site:
        log = project.run("pages", "-a", f"site={site.url}/0")

    assert project.pages() == ALL
    assert "no fleet has said yet" in log
    gone = RedisBizs(project.connection).report({tenant: []})
    assert gone == [QueueKey(tenant, "docs", "main")]
