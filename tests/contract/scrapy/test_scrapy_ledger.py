"""The ledger of a Scrapy crawl: each request that was queued is in one state, at any moment."""

import pytest

from tests.contract.scrapy_cases import FedSpider
from tests.kit.scrapy import CrawlLedger, RedisCrawlLedgers, crawl_keys
from tests.scrapy_project.crawls import crawls
from tests.scrapy_project.site import LinkedSite
from tests.waiting import eventually


@pytest.fixture
def ledgers(redis_connection):
    return RedisCrawlLedgers(redis_connection)


def difference(ledger):
    ended = ledger.done + ledger.dead + ledger.cancelled
    return ledger.submitted - ledger.queued - ledger.leased - ended


def push(here, *numbers):
    for number in numbers:
        here.scheduler.enqueue_request(here.request(number))


def test_each_step_of_a_request_is_in_the_ledger_of_its_crawl_and_its_biz(
    station, ledgers, redis_connection, tenant
):
    here = station()
    push(here, 1, 2, 3, 1)
    taken = here.take()
    assert ledgers.of_crawl(tenant, "garden", "shop") == CrawlLedger(submitted=3, leased=3)

    here.slot.inprogress.remove(taken)
    here.tick()
    here.session.crawl.mark_dead(
        redis_connection.client.zrange(crawl_keys(tenant, "shop").leases, 0, 0)[0]
        .decode()
        .split(":")[1],
        "no page",
    )
    here.scheduler.close("shutdown")

    of_crawl = ledgers.of_crawl(tenant, "garden", "shop")
    assert of_crawl == CrawlLedger(submitted=3, queued=1, done=1, dead=1)
    assert ledgers.of_biz(tenant, "garden") == of_crawl
    assert ledgers.of_biz(tenant, "other") == CrawlLedger()
    assert ledgers.of_crawl(tenant, "other", "shop") is None


def test_start_urls_are_submitted_and_what_they_lead_to_is(station, ledgers, tenant):
    here = station(FedSpider, REDIS_START_URLS_KEY=f"{tenant}:start")
    here.session.connection.client.rpush(f"{tenant}:start", "two", "https://shop.example/9")

    while taken := here.take():
        here.slot.inprogress.remove(taken)
        here.seconds += 1
    here.tick()

    assert ledgers.of_crawl(tenant, "garden", "fed") == CrawlLedger(submitted=4, done=4)


@pytest.mark.parametrize("how", ["at its end", "at its start"])
def test_what_is_forgotten_is_cancelled_and_the_ledger_stays(station, ledgers, tenant, how):
    here = station(SCHEDULER_PERSIST=how == "at its start")
    push(here, 1, 2, 3)
    here.tick()
    here.scheduler.close("shutdown")
    if how == "at its start":
        station(SCHEDULER_FLUSH_ON_START=True)

    assert ledgers.of_crawl(tenant, "garden", "shop") == CrawlLedger(submitted=3, cancelled=3)


def test_a_crawl_of_an_older_version_counts_from_what_it_has_left(station, ledgers, tenant):
    here = station(SCHEDULER_PERSIST=True)
    push(here, 1, 2, 3)
    here.tick()
    here.scheduler.close("shutdown")
    here.session.connection.client.delete(f"cf:{{scrapy:{tenant}:shop}}:counts")

    station()

    assert ledgers.of_crawl(tenant, "garden", "shop") == CrawlLedger(submitted=3, queued=3)


def test_crawls_that_are_long_over_are_forgotten_and_those_under_way_come_back(
    station, ledgers, redis, tenant
):
    crawls = f"cf:{{scrapy:{tenant}:}}:crawls"
    here = station()
    redis.hset(crawls, mapping={f"{n:04}": "garden" for n in range(1_200)} | {"far": "orchard"})
    push(here, 1)
    here.tick()

    found = [ledgers.of_biz(tenant, "garden") for _ in range(2)]

    assert found == [CrawlLedger(), CrawlLedger(submitted=1, queued=1)]
    assert set(redis.hkeys(crawls)) == {b"shop", b"far"}
    redis.delete(crawls)
    here.tick(6.0)
    assert ledgers.of_biz(tenant, "garden") == CrawlLedger(submitted=1, queued=1)


def test_killed_at_any_moment_a_crawl_balances(
    redis_connection, redis_url, tenant, tmp_path, ledgers
):
    with (
        LinkedSite(seconds=0.01, pages=120) as site,
        crawls(redis_connection, redis_url, tenant, tmp_path) as project,
    ):
        for wanted in (20, 60):
            crawl = project.begin("pages", "-a", f"site={site.url}/0")
            while site.served < wanted:
                eventually(lambda: ledgers.of_crawl(tenant, "docs", "pages"), what="the crawl")
                assert difference(ledgers.of_crawl(tenant, "docs", "pages")) == 0
            crawl.kill()
        project.run("pages", "-a", f"site={site.url}/0")

    whole = ledgers.of_crawl(tenant, "docs", "pages")
    assert (difference(whole), whole.queued, whole.leased) == (0, 0, 0)
    assert whole.done >= 120
