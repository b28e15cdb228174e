"""``crawlfleet import scrapy-redis`` over keys that scrapy-redis itself has written."""

import json
import os
import pickle

import pytest
import scrapy
from scrapy.utils.test import get_crawler
from scrapy_redis.dupefilter import RFPDupeFilter
from scrapy_redis.queue import FifoQueue, PriorityQueue

from tests.kit.cli import run
from tests.kit.executors import load_request
from tests.kit.kernel import UnknownBizError, UnknownRuleError
from tests.kit.redis import RedisConnection
from tests.kit.scrapy import DupeFilter, RedisCrawl, session_of
from tests.kit.sdk import Submitted, sdk


class ShopSpider(scrapy.Spider):
    name = "shop"

    def lamp(self, response, **_):
        """A callback."""


class Runs:
    """A pickle of it runs a program when it is loaded."""

    def __init__(self, command):
        self._command = command

    def __reduce__(self):
        return os.system, (self._command,)


class OldSite:
    """The keys that a scrapy-redis crawl has left, under a name that no other test uses."""

    def __init__(self, client, tenant, queue=PriorityQueue):
        self.client = client
        self.name = f"shop-{tenant}"
        self.spider = ShopSpider(name=self.name)
        self.queue = queue(client, self.spider, f"{self.name}:requests")
        self.filter = RFPDupeFilter(client, f"{self.name}:dupefilter")

    def queue_requests(self, count=30):
        for number in range(count):
            request = scrapy.Request(
                f"https://shop.example/{number}?b=1&a=2",
                self.spider.lamp,
                priority=number % 3,
                cb_kwargs={"at": (number, b"x")},
                headers={"Accept": "text/html"},
                cookies={"seen": "1"},
            )
            assert not self.filter.request_seen(request)
            self.queue.push(request)

    def size(self):
        return sum(
            self.client.exists(f"{self.name}:{kind}")
            for kind in ("requests", "dupefilter", "start_urls")
        )


@pytest.fixture
def old(redis_connection, tenant):
    return OldSite(redis_connection.client, tenant)


@pytest.fixture
def imported(redis_url, capsys):
    """Run the command; its exit code and its JSON."""

    def call(old, *arguments):
        code = run(
            ["import", "scrapy-redis", redis_url, "--spider", old.name, "--json", *arguments]
        )
        out = capsys.readouterr()
        return code, json.loads(out.out) if out.out else out.err

    return call


class Api:
    """A client that notes what it is given, and knows client ids as the API does."""

    def __init__(self):
        self.entries = {}
        self.asked = []

    def __call__(self, *_):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def stats(self, biz):
        self.asked.append((biz, None))
        if biz != "shop":
            raise UnknownBizError(f"there is no biz called {biz!r}")

    def explain_url(self, biz, url, *, rule):
        self.stats(biz)
        self.asked[-1] = (biz, rule)
        if rule != "lamps":
            raise UnknownRuleError(f"there is no rule or spider {rule!r}; this biz has lamps")

    def submit_each(self, biz, entries, **options):
        self.options = {"biz": biz, **options}
        for index, entry in enumerate(entries):
            repeated = entry["client_id"] in self.entries
            self.entries.setdefault(entry["client_id"], entry)
            yield Submitted(index=index, url=entry["url"], id=str(index), repeated=repeated)


@pytest.fixture
def api(monkeypatch):
    made = Api()
    monkeypatch.setattr(sdk, "Client", made)
    return made


def kept(client, tenant):
    """Return a dump of all of a tenant's Redis keys, old and new."""
    return {key: client.dump(key) for key in client.scan_iter(f"*{tenant}*", count=1000)}


def crawl_of(redis_connection, tenant, old):
    return RedisCrawl(redis_connection, tenant, old.name, "reader")


def test_without_yes_it_counts_and_changes_nothing(old, imported, redis_connection, tenant):
    old.queue_requests()
    before = kept(redis_connection.client, tenant)

    code, reported = imported(old, "--to", "scheduler", "--tenant", tenant)

    assert code == 0
    assert (reported["requests"], reported["readable"], reported["fingerprints"]) == (30, 30, 30)
    assert reported["fingerprints_made_by"] == "scrapy-redis"
    assert not reported["acted"]
    assert kept(redis_connection.client, tenant) == before
    assert len(before) == 2


@pytest.mark.parametrize("queue", [PriorityQueue, FifoQueue])
def test_requests_and_fingerprints_move_to_our_scheduler_once(
    redis_connection, tenant, imported, queue, tmp_path
):
    old = OldSite(redis_connection.client, tenant, queue)
    old.queue_requests()
    seen = scrapy.Request("https://shop.example/seen?z=1&y=2")
    old.filter.request_seen(seen)
    arguments = ("--to", "scheduler", "--tenant", tenant, "--yes")

    first = imported(old, *arguments)
    again = imported(old, *arguments)

    assert (first[0], again[0]) == (0, 0)
    assert first[1]["done"] == {
        "requests queued": 30,
        "requests queued before": 0,
        "fingerprints": 31,
    }
    assert again[1]["done"]["requests queued"] == 0
    assert old.size() == 2
    crawl = crawl_of(redis_connection, tenant, old)
    taken, _ = crawl.lease(100)
    requests = [load_request(each.content, old.spider) for each in taken]
    assert len(requests) == 30
    assert requests[0].priority == 2
    assert {request.callback.__name__ for request in requests} == {"lamp"}
    assert {request.cb_kwargs["at"] for request in requests} == {(n, b"x") for n in range(30)}
    crawler = get_crawler(
        ShopSpider,
        {
            "CRAWLFLEET_REDIS_URL": "redis://127.0.0.1:1",
            "CRAWLFLEET_TENANT": tenant,
            "CRAWLFLEET_JOURNAL": str(tmp_path),
        },
    )
    crawler.spider = old.spider
    session = session_of(crawler)
    session.fingerprints = crawl.enter().fingerprints
    session.crawl = crawl
    assert DupeFilter.from_crawler(crawler).request_seen(seen)
    assert not DupeFilter.from_crawler(crawler).request_seen(scrapy.Request("https://new.example/"))
    session.journal.close()


def test_requests_and_start_urls_become_requests_of_a_biz_once(old, imported, api):
    old.queue_requests(3)
    start = {"url": "https://shop.example/list", "meta": {"page": 1}, "q": "lamp"}
    old.client.rpush(f"{old.name}:start_urls", "https://shop.example/start", json.dumps(start))
    arguments = ("--biz", "shop", "--rule", "lamps", "--yes")

    code, reported = imported(old, *arguments)
    _, again = imported(old, *arguments)

    assert code == 0
    assert reported["done"] == {"submitted": 5, "submitted before": 0}
    assert again["done"] == {"submitted": 0, "submitted before": 5}
    assert (api.options["biz"], api.options["rule"]) == ("shop", "lamps")
    by_url = {entry["url"]: entry for entry in api.entries.values()}
    lamp = by_url["https://shop.example/1?b=1&a=2"]
    assert lamp["headers"] == {"Accept": "text/html", "Cookie": "seen=1"}
    carried = json.loads(lamp["meta"]["scrapy"])
    assert carried["callback"] == "lamp"
    assert carried["cb_kwargs"] == {"at": {"$": ["tuple", [1, {"$": ["bytes", "eA=="]}]]}}
    assert "meta" not in by_url["https://shop.example/start"]
    listed = by_url["https://shop.example/list?q=lamp"]
    assert json.loads(listed["meta"]["scrapy"]) == {"meta": {"page": 1}}


def test_a_malicious_pickle_is_reported_and_left_and_does_nothing(
    old, imported, redis_connection, tenant, tmp_path
):
    trace = tmp_path / "trace"
    old.queue_requests(2)
    evil = pickle.dumps({"url": "https://shop.example/", "meta": {"x": Runs(f"touch {trace}")}})
    old.client.zadd(f"{old.name}:requests", {evil: 0, b"junk": 1})

    code, reported = imported(old, "--to", "scheduler", "--tenant", tenant, "--yes", "--delete")

    assert code == 1
    assert not trace.exists()
    assert reported["readable"] == 2
    first = reported["first_unreadable"]
    assert len(first) == 2
    assert all(1 <= one["place"] <= 4 for one in first)
    assert "https://shop.example/" in {one["url"] for one in first}
    assert reported["unreadable"] == {
        "asks for posix.system, which is not plain data": 1,
        "is no pickle: error": 1,
    }
    assert not reported["deleted"]
    assert old.size() == 2
    assert crawl_of(redis_connection, tenant, old).load().queued == 2


def test_start_urls_move_to_another_redis_and_the_source_is_deleted_on_request(
    old, imported, redis_url, tenant
):
    old.queue_requests(2)
    other = redis_url.replace("/0?", "/1?")
    old.client.sadd(f"{old.name}:start_urls", "https://shop.example/a", "https://shop.example/b")
    arguments = ("--to", "scheduler", "--tenant", tenant, "--to-redis", other, "--yes")

    code, reported = imported(old, *arguments, "--delete")

    assert code == 0
    assert reported["done"]["start URLs"] == 2
    assert reported["deleted"]
    assert old.size() == 0
    with RedisConnection(other) as there:
        taken, _ = crawl_of(there, tenant, old).lease(10)
    assert sorted(each.content for each in taken if each.start) == [
        b"https://shop.example/a",
        b"https://shop.example/b",
    ]


def test_start_urls_that_stay_are_not_deleted(old, imported, tenant):
    old.queue_requests(2)
    old.client.rpush(f"{old.name}:start_urls", "https://shop.example/a")

    code, reported = imported(old, "--to", "scheduler", "--tenant", tenant, "--yes", "--delete")

    assert (code, reported["deleted"]) == (0, True)
    assert old.client.lrange(f"{old.name}:start_urls", 0, -1) == [b"https://shop.example/a"]
    assert old.size() == 1


def test_a_crawl_with_fingerprints_of_another_make_is_not_mixed_with_these(
    old, imported, redis_connection, tenant
):
    old.queue_requests(1)
    crawl_of(redis_connection, tenant, old).learn([b"x" * 16])

    code, reported = imported(old, "--to", "scheduler", "--tenant", tenant, "--yes")

    assert code == 1
    assert "another --crawl" in reported


def test_fingerprints_of_an_older_scrapy_are_known_as_such(old, imported, tenant):
    from tests.kit.scrapy import Legacy26Fingerprinter

    request = scrapy.Request("https://shop.example/1", old.spider.lamp)
    old.queue.push(request)
    mark = Legacy26Fingerprinter().fingerprint(request).hex()
    old.client.sadd(f"{old.name}:dupefilter", mark, "no sha1")

    _, reported = imported(old, "--to", "scheduler", "--tenant", tenant, "--yes")

    assert reported["fingerprints_made_by"] == "scrapy-2.6"
    assert reported["done"]["fingerprints"] == 1


def test_nothing_there_is_said(old, imported, capsys, redis_url):
    old.queue_requests(1)
    name = f"no{old.name}"

    code = run(["import", "scrapy-redis", redis_url, "--spider", name, "--to", "scheduler"])

    said = capsys.readouterr().err
    assert code == 2
    assert f"nothing is under {name}:requests, {name}:dupefilter, {name}:start_urls" in said
    assert "there are " in said
    assert ":requests" in said.partition("there are ")[2]
    assert "--yes takes it over" not in said


def test_without_yes_the_biz_and_the_rule_are_asked_for(old, imported, api):
    old.queue_requests(1)

    right = imported(old, "--biz", "shop", "--rule", "lamps")
    no_rule = imported(old, "--biz", "shop", "--rule", "lmaps")
    no_biz = imported(old, "--biz", "nobiz")

    assert (right[0], no_rule[0], no_biz[0]) == (0, 2, 4)
    assert "'lmaps'" in no_rule[1]
    assert "lamps" in no_rule[1]
    assert "'nobiz'" in no_biz[1]
    assert api.entries == {}


@pytest.mark.parametrize(
    "arguments",
    [
        ("--to", "scheduler", "--biz", "shop"),
        ("--to", "scheduler", "--rule", "lamps"),
        ("--biz", "shop", "--crawl", "lamps"),
        ("--biz", "shop", "--to-redis", "redis://127.0.0.1:1"),
    ],
)
def test_an_option_of_the_other_target_is_refused(old, imported, api, arguments):
    code, said = imported(old, *arguments)

    assert code == 2
    assert arguments[-2] in said
    assert "--to " in said


def test_unreadable_requests_are_listed(old, redis_url, capsys):
    old.client.zadd(f"{old.name}:requests", {b"(junk https://shop.example/7": 1})

    run(["import", "scrapy-redis", redis_url, "--spider", old.name, "--to", "scheduler"])

    said = capsys.readouterr().err
    assert "request 1 of the queue, https://shop.example/7: is no pickle" in said


def test_an_unavailable_redis_is_reported(old, capsys):
    arguments = ["import", "scrapy-redis", "redis://127.0.0.1:1", "--spider", "s", "--biz", "b"]

    assert run(arguments) == 3
    assert "redis" in capsys.readouterr().err


def test_it_asks_whose_requests_they_become(capsys):
    assert run(["import", "scrapy-redis", "redis://127.0.0.1:1", "--spider", "s"]) == 2
    assert "--biz" in capsys.readouterr().err
