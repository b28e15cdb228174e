"""Tests of the ACL rights that Scrapy's Redis users need, by docs/guides/scrapy.md."""

import json
import pickle
from collections.abc import Iterator

import pytest
import redis
from scrapy import Request

from infra.local.redis_server import RedisServer
from tests.contract.redis_users import rules_of
from tests.kit.cli import run
from tests.kit.patience import patient
from tests.kit.redis import RedisConnection
from tests.kit.scrapy import FINGERPRINTERS, RedisCrawl
from tests.scrapy_project.crawls import Crawls, crawls
from tests.scrapy_project.site import PAGES, LinkedSite
from tests.waiting import eventually

TENANT = "acme"
STARTS = "fed:start_urls"


CRAWLING = rules_of("scrapy", TENANT=TENANT, BIZ="docs")
STARTING = rules_of("scrapy", "start_urls", START_URLS=STARTS)[-1:]
IMPORTING = rules_of("importer", SPIDER="old")


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer(own=True) as server:
        yield server


@pytest.fixture(scope="module")
def everything(server) -> Iterator[RedisConnection]:
    """The connection of whoever may do all."""
    with RedisConnection(patient(server.url)) as connection:
        yield connection


def user(server: RedisServer, everything: RedisConnection, name: str, *rules: str) -> str:
    """Make a user of these rights and nothing else; returns its address, without the password."""
    everything.client.execute_command("ACL", "SETUSER", name, "reset", "on", ">secret", *rules)
    return patient(server.url.replace("redis://", f"redis://{name}@"))


@pytest.fixture
def project(server, everything, tmp_path, monkeypatch) -> Iterator[Crawls]:
    monkeypatch.setenv("CRAWLFLEET_REDIS_PASSWORD", "secret")
    address = user(server, everything, "scrapy", *CRAWLING, *STARTING)
    with crawls(everything, address, TENANT, tmp_path) as made:
        yield made
    everything.client.flushall()


def test_a_user_of_these_rights_takes_over_what_was_killed_and_crawls_to_the_end(project: Crawls):
    with LinkedSite(seconds=0.02) as site:
        first = project.begin("pages", "-a", f"site={site.url}/0")
        eventually(lambda: site.served >= 40, what="40 pages")
        first.kill()
        log = project.run("pages", "-a", f"site={site.url}/0")

    assert project.pages() == set(range(PAGES)), log[-3000:]
    assert "no fleet has said yet" in log
    assert "NOPERM" not in log
    assert "NoPermission" not in log
    assert project.left() == ["serial"]


def test_a_user_of_these_rights_reads_start_urls(project: Crawls):
    with LinkedSite() as site:
        urls = [json.dumps({"url": f"{site.url}/{n}"}) for n in range(5)]
        project.connection.client.rpush(STARTS, *urls)
        log = project.run(
            "fed", "-s", f"REDIS_START_URLS_KEY={STARTS}", "-s", "MAX_IDLE_TIME_BEFORE_CLOSE=1"
        )

    assert project.pages() == set(range(5)), log[-3000:]


@pytest.mark.parametrize("kind", ["set", "zset"])
def test_a_user_of_these_rights_queues_start_urls_whatever_holds_them(server, everything, kind):
    address = user(server, everything, "scrapy", *CRAWLING, *STARTING)
    client, urls = everything.client, [f"http://a.example/{n}" for n in range(5)]
    {
        "set": lambda: client.sadd(STARTS, *urls),
        "zset": lambda: client.zadd(STARTS, dict.fromkeys(urls, 1)),
    }[kind]()

    with RedisConnection(address, password="secret") as connection:
        crawl = RedisCrawl(connection, TENANT, "fed", "a")
        assert len(crawl.absorb(STARTS, 9)) == 5
        taken, _ = crawl.lease(9)

    assert sorted(each.content.decode() for each in taken) == urls
    client.flushall()


@pytest.mark.parametrize(
    "command",
    [
        ("ZCARD", "cf:{scrapy:other:pages}:queue"),
        ("SADD", "cf:{scrapy:acmes:pages}:seen", "x"),
        ("HGETALL", "cf:{acme:shop}:items"),
        ("LPUSH", "cf:{acme:docs}:queue", "x"),
        ("ZCARD", "cf:{acme:docs}:leases"),
        ("GET", "cf:{fleet}:workers"),
        ("EVAL", "return redis.call('GET', 'cf:{acme:docs}:marks')", 0),
        ("EVAL", "return redis.call('FLUSHALL')", 0),
        ("SORT", "cf:{acme:docs}:item_queue", "BY", "nosort", "GET", "other:*"),
        ("FLUSHALL",),
        ("KEYS", "*"),
        ("SCAN", "0"),
        ("INFO",),
        ("CONFIG", "GET", "requirepass"),
        ("ACL", "LIST"),
        ("SCRIPT", "FLUSH"),
        ("PUBLISH", "x", "y"),
    ],
    ids=lambda command: " ".join(map(str, command))[:40],
)
def test_a_user_of_these_rights_is_refused_elsewhere(server, everything, command):
    address = user(server, everything, "scrapy", *CRAWLING)

    with (
        RedisConnection(address, password="secret") as connection,
        pytest.raises(
            redis.ResponseError,
            match=r"(?i)no permissions|can't run this command|can't access at least one",
        ),
    ):
        connection.client.execute_command(*command)


def test_start_urls_are_refused_to_who_only_crawls(server, everything):
    address = user(server, everything, "scrapy", *CRAWLING)

    with (
        RedisConnection(address, password="secret") as connection,
        pytest.raises(redis.ResponseError, match=r"(?i)no permissions"),
    ):
        connection.client.lpop(STARTS)


@pytest.fixture
def importing(server, everything, monkeypatch) -> Iterator[list[str]]:
    """The command, over what a scrapy-redis crawl has left."""
    client, url = everything.client, "http://shop.example/1"
    client.zadd("old:requests", {pickle.dumps({"url": url, "callback": "parse"}): 0})
    client.sadd("old:dupefilter", FINGERPRINTERS["scrapy-redis"](Request(url)).hex())
    client.rpush("old:start_urls", "http://shop.example/2")
    monkeypatch.setenv("SCRAPY_REDIS_PASSWORD", "secret")
    monkeypatch.setenv("CRAWLFLEET_REDIS_PASSWORD", "secret")
    address = user(server, everything, "importer", *IMPORTING)
    target = user(server, everything, "scrapy", *CRAWLING)
    options = ["--spider", "old", "--to", "scheduler", "--to-redis", target, "--tenant", TENANT]
    yield ["import", "scrapy-redis", address, *options, "--yes"]
    client.flushall()


def test_a_user_of_the_importers_rights_imports(everything, importing):
    assert run(importing) == 0
    assert everything.client.zcard("cf:{scrapy:acme:old}:queue") == 2


def test_a_user_of_the_importers_rights_deletes_nothing(everything, importing, capsys):
    assert run([*importing, "--delete"]) != 0
    assert "NoPermissionError" in capsys.readouterr().err
    assert everything.client.exists("old:requests", "old:dupefilter", "old:start_urls") == 3


def test_with_unlink_the_importer_deletes_what_it_has_taken_over(server, everything, importing):
    user(server, everything, "importer", *rules_of("importer", "delete", SPIDER="old"))

    assert run([*importing, "--delete"]) == 0
    assert everything.client.exists("old:requests", "old:dupefilter", "old:start_urls") == 0
