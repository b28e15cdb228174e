"""Scrapy crawls over a cluster of Redis: complete, killed and resumed; start URLs from afar."""

import json

import pytest
from redis.crc import key_slot

from tests.kit.kernel import ConfigError
from tests.kit.redis import RedisConnection
from tests.kit.scrapy import RedisCrawl, taking_key
from tests.scrapy_project.crawls import Crawls, crawls
from tests.scrapy_project.site import PAGES, LinkedSite
from tests.waiting import eventually

URLS = [f"http://a.example/{n}" for n in range(7)]


class DiedError(Exception):
    """The process has died here."""


class Watched(RedisConnection):
    """A connection that tells which script it is about to run."""

    def __init__(self, url, reported):
        super().__init__(url)
        self.reported = reported

    def again(self, script, keys, *arguments):
        self.reported(script.name)
        return super().again(script, keys, *arguments)


@pytest.fixture
def project(cluster_connection, redis_cluster_url, tenant, tmp_path):
    with crawls(cluster_connection, redis_cluster_url, tenant, tmp_path) as made:
        yield made


@pytest.fixture
def crawl(cluster_connection, tenant):
    return RedisCrawl(cluster_connection, tenant, "shop", "a")


@pytest.fixture
def source(crawl, tenant):
    """A key of start URLs that is in another slot than the crawl."""
    key = f"{tenant}:start_urls"
    assert key_slot(key.encode()) != key_slot(crawl.keys.queue.encode())
    return key


def test_a_crawl_that_is_killed_is_complete_in_the_end(project: Crawls):
    with LinkedSite(seconds=0.01) as site:
        first = project.begin("pages", "-a", f"site={site.url}/0")
        eventually(lambda: site.served >= 60, what="60 pages")
        first.kill()
        both = [project.begin("pages", "-a", f"site={site.url}/0") for _ in range(2)]
        logs = [process.end() for process in both]

    assert project.pages() == set(range(PAGES)), logs[0][-3000:]
    assert project.left() == ["serial"]


def test_start_urls_are_read_from_wherever_they_are(project: Crawls, tenant):
    key = f"{tenant}:starts"
    with LinkedSite() as site:
        project.connection.client.rpush(
            key, *(json.dumps({"url": f"{site.url}/{n}"}) for n in range(5))
        )
        log = project.run(
            "fed", "-s", f"REDIS_START_URLS_KEY={key}", "-s", "MAX_IDLE_TIME_BEFORE_CLOSE=1"
        )

    assert project.pages() == set(range(5)), log[-3000:]
    assert not project.connection.client.exists(key)


@pytest.mark.parametrize("kind", ["list", "set", "zset"])
def test_start_urls_of_another_slot_are_queued_whatever_holds_them(
    crawl, cluster_connection, source, kind
):
    client = cluster_connection.client
    {
        "list": lambda: client.rpush(source, *URLS),
        "set": lambda: client.sadd(source, *URLS),
        "zset": lambda: client.zadd(source, {url: -n for n, url in enumerate(URLS)}),
    }[kind]()

    assert [len(crawl.absorb(source, 3)) for _ in range(4)] == [3, 3, 1, 0]

    taken, _ = crawl.lease(10)
    assert all(each.start for each in taken)
    assert sorted(each.content.decode() for each in taken) == URLS
    if kind != "set":
        assert [each.content.decode() for each in taken] == URLS


@pytest.mark.parametrize("step", ["crawl_enter_starts", "crawl_taken"])
def test_a_batch_in_transit_of_a_dead_process_enters_once(
    cluster_connection, redis_cluster_url, source, tenant, step
):
    client = cluster_connection.client
    client.rpush(source, *URLS)

    def die(script):
        if script == step:
            raise DiedError

    with Watched(redis_cluster_url, die) as dying, pytest.raises(DiedError):
        RedisCrawl(dying, tenant, "shop", "a").absorb(source, 4)
    assert client.llen(taking_key(source, tenant, "shop")) == 5

    other = RedisCrawl(cluster_connection, tenant, "shop", "b")
    while client.exists(source):
        other.absorb(source, 4)

    assert [each.content.decode() for each in other.lease(99)[0]] == URLS
    assert not client.exists(taking_key(source, tenant, "shop"))


def test_who_is_slow_with_a_batch_does_not_bring_it_again(
    crawl, cluster_connection, redis_cluster_url, source, tenant
):
    """Two processes have one batch in hand; meanwhile one goes on to the next."""
    cluster_connection.client.rpush(source, *URLS)
    other = RedisCrawl(cluster_connection, tenant, "shop", "b")
    absorbed = []

    def wait(script):
        if script == "crawl_enter_starts":
            absorbed.extend(len(other.absorb(source, 4)) for _ in range(2))

    with Watched(redis_cluster_url, wait) as slow:
        assert RedisCrawl(slow, tenant, "shop", "a").absorb(source, 4) == []
    assert absorbed == [4, 3]
    assert [each.content.decode() for each in crawl.lease(99)[0]] == URLS


def test_a_source_whose_name_has_no_usable_hash_tag_is_refused(crawl):
    with pytest.raises(ConfigError, match="another name"):
        crawl.absorb("odd}name", 1)
