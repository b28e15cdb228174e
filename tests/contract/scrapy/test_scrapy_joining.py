"""A project of scrapy-redis joins with its settings as they are, or is refused with a sentence."""

import json
import logging
from urllib.parse import urlsplit

import pytest
import scrapy
from scrapy import statscollectors
from scrapy.settings import Settings
from scrapy.utils.misc import load_object

from tests.contract.scrapy_cases import FedSpider, ShopSpider
from tests.kit.kernel import ConfigError, QueueKey
from tests.kit.queue import redis_keys
from tests.kit.scrapy import Addon, Order, StatsCollector, crawl_keys, settings
from tests.scrapy_project.crawls import crawls
from tests.scrapy_project.site import PAGES, LinkedSite
from tests.waiting import eventually

THEIRS = {
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
    "ITEM_PIPELINES": {"scrapy_redis.pipelines.RedisPipeline": 300},
    "STATS_CLASS": "scrapy_redis.stats.RedisStatsCollector",
}


class OtherShopSpider(ShopSpider):
    name = "other"


class BatchedSpider(FedSpider):
    redis_batch_size = 2


def joined(**given):
    """The settings of a project with our add-on, once it has been asked."""
    found = Settings()
    found.setdict(given, "project")
    Addon().update_settings(found)
    return found


def read(kind=ShopSpider, **given):
    return settings.read_settings(Settings(given), kind())


def request(number, **options):
    return scrapy.Request(f"https://shop.example/{number}", **options)


def test_the_classes_of_scrapy_redis_are_replaced_at_whatever_priority_they_were_set():
    found = Settings()
    found.setdict(THEIRS, "project")
    found.set("SCHEDULER", THEIRS["SCHEDULER"], "cmdline")

    Addon().update_settings(found)

    assert load_object(found["SCHEDULER"]).__module__ == "crawlfleet.scrapy.scheduler"
    assert load_object(found["DUPEFILTER_CLASS"]).__module__ == "crawlfleet.scrapy.fingerprints"
    assert load_object(found["STATS_CLASS"]) is StatsCollector
    assert dict(found["ITEM_PIPELINES"]) == {"crawlfleet.scrapy.Pipeline": 300}
    assert found["REDIS_ITEMS_KEY"] == "%(spider)s:items"


def test_a_pipeline_that_the_project_has_disabled_stays_disabled():
    found = joined(ITEM_PIPELINES={"scrapy_redis.pipelines.RedisPipeline": None, "a.B": 1})

    assert dict(found["ITEM_PIPELINES"]) == {"a.B": 1}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SCHEDULER", "scrapy.core.scheduler.Scheduler", "does not go with the add-on's"),
        ("SCHEDULER", "nowhere.Scheduler", "cannot be imported"),
        ("DUPEFILTER_CLASS", type("Own", (load_object(THEIRS["DUPEFILTER_CLASS"]),), {}), "not go"),
    ],
)
def test_a_class_that_cannot_stand_beside_ours_is_refused_by_its_setting(name, value, said):
    with pytest.raises(ConfigError, match=said) as refused:
        joined(**{name: value})

    assert [problem.field for problem in refused.value.problems] == [name]


def test_a_subclass_of_ours_and_a_dupefilter_of_its_own_stay():
    own = type("Own", (load_object("crawlfleet.scrapy.Scheduler"),), {})
    filter_ = "scrapy.dupefilters.BaseDupeFilter"

    found = joined(SCHEDULER=own, DUPEFILTER_CLASS=filter_)

    assert (found["SCHEDULER"], found["DUPEFILTER_CLASS"]) == (own, filter_)


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ({"REDIS_HOST": "r.example"}, "redis://r.example:6379/0"),
        ({"REDIS_PORT": 7000}, "redis://localhost:7000/0"),
        ({"REDIS_HOST": "::1", "REDIS_DB": 2}, "redis://[::1]:6379/2"),
        ({"REDIS_URL": "redis://a:1/0", "REDIS_HOST": "b"}, "redis://a:1/0"),
        (
            {"REDIS_PARAMS": {"host": "h", "db": 3, "ssl": True, "username": "u@v"}},
            "rediss://u%40v@h:6379/3",
        ),
        (
            {"REDIS_HOST": "h", "REDIS_PARAMS": {"socket_timeout": 9, "encoding": "utf-8"}},
            "redis://h:6379/0?socket_timeout=9",
        ),
        ({"REDIS_PARAMS": {"unix_socket_path": "/run/r.sock"}}, "unix:///run/r.sock?db=0"),
        ({"REDIS_HOST": "h", "CRAWLFLEET_REDIS_URL": "rediss://ours"}, "rediss://ours"),
    ],
)
def test_the_address_is_made_as_scrapy_redis_makes_it(given, address, monkeypatch):
    monkeypatch.delenv("CRAWLFLEET_REDIS_URL", raising=False)

    assert read(**given).redis_url == address


def test_the_fleets_redis_on_another_machine_is_reached_by_tls_unless_its_host_is_named(
    monkeypatch,
):
    monkeypatch.delenv("CRAWLFLEET_PLAIN_STORES", raising=False)
    there = {"CRAWLFLEET_REDIS_URL": "redis://10.0.0.7:6379"}

    with pytest.raises(ConfigError, match="CRAWLFLEET_REDIS_URL: needs TLS"):
        read(**there)
    for plain in ("10.0.0.7", "a.example, 10.0.0.7", "*"):
        found = read(**there, CRAWLFLEET_PLAIN_STORES=plain)
        assert found.redis_url == there["CRAWLFLEET_REDIS_URL"]
    monkeypatch.setenv("CRAWLFLEET_PLAIN_STORES", "10.0.0.7")
    assert read(**there).redis_url == there["CRAWLFLEET_REDIS_URL"]


def test_the_password_of_the_parameters_is_used_and_not_put_into_the_address(monkeypatch):
    monkeypatch.delenv("CRAWLFLEET_REDIS_PASSWORD", raising=False)
    found = read(REDIS_PARAMS={"password": "secret"})

    assert found.password == "secret"
    assert "secret" not in found.redis_url


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"REDIS_PORT": "many"}, "REDIS_PORT"),
        ({"REDIS_DB": -1}, "REDIS_DB"),
        ({"REDIS_PARAMS": "no"}, "REDIS_PARAMS"),
        ({"REDIS_PARAMS": {"port": 0}}, "REDIS_PARAMS['port']"),
        ({"REDIS_ENCODING": "klingon"}, "REDIS_ENCODING"),
        ({"REDIS_START_URLS_BATCH_SIZE": 0}, "REDIS_START_URLS_BATCH_SIZE"),
        ({"SCHEDULER_QUEUE_CLASS": "my.Queue"}, "SCHEDULER_QUEUE_CLASS"),
        ({"SCHEDULER_QUEUE_KEY": "%(name)s"}, "SCHEDULER_QUEUE_KEY"),
        ({"SCHEDULER_QUEUE_KEY": "a b"}, "SCHEDULER_QUEUE_KEY"),
        ({"SCHEDULER_DUPEFILTER_KEY": "{a}"}, "SCHEDULER_DUPEFILTER_KEY"),
        ({"REDIS_ITEMS_KEY": "50%"}, "REDIS_ITEMS_KEY"),
        ({"STATS_KEY": "%d"}, "STATS_KEY"),
        (
            {
                "SCHEDULER_QUEUE_CLASS": "scrapy_redis.queue.FifoQueue",
                "CRAWLFLEET_ORDER": "newest",
            },
            "CRAWLFLEET_ORDER",
        ),
    ],
)
def test_a_setting_of_scrapy_redis_that_cannot_be_obeyed_is_refused_by_its_name(given, field):
    with pytest.raises(ConfigError) as refused:
        read(**{"REDIS_HOST": "h", **given})

    assert [problem.field for problem in refused.value.problems] == [field]


def test_any_other_setting_of_scrapy_redis_is_warned_of_by_its_name(station, caplog):
    with caplog.at_level(logging.WARNING):
        station(
            SCHEDULER_SERIALIZER="json",
            REDIS_ITEMS_SERIALIZER="json.dumps",
            REDIS_DECODE_RESPONSES=True,
            REDIS_IDLE_BACKOFF_ENABLED=True,
            DUPEFILTER_KEY="x",
            REDIS_HOST="elsewhere.example",
            REDIS_PARAMS={"redis_cls": "redis.RedisCluster"},
            REDIS_START_URLS_AS_SET=True,
            REDIS_ENCODING="utf-8",
        )

    said = {record.getMessage().split(" is not obeyed")[0] for record in caplog.records}
    assert said == {
        *("SCHEDULER_SERIALIZER", "REDIS_ITEMS_SERIALIZER", "REDIS_DECODE_RESPONSES"),
        *("REDIS_IDLE_BACKOFF_ENABLED", "DUPEFILTER_KEY", "REDIS_HOST", "REDIS_PARAMS"),
        "REDIS_PARAMS['redis_cls']",
    }


@pytest.mark.parametrize(
    ("queue", "served"),
    [
        ("PriorityQueue", [3, 1, 2, 4]),
        ("SpiderPriorityQueue", [3, 1, 2, 4]),
        ("FifoQueue", [1, 2, 3, 4]),
        ("SpiderQueue", [1, 2, 3, 4]),
        ("LifoQueue", [4, 3, 2, 1]),
        ("SpiderStack", [4, 3, 2, 1]),
    ],
)
def test_each_queue_class_serves_requests_in_its_order(station, queue, served):
    here = station(SCHEDULER_QUEUE_CLASS=f"scrapy_redis.queue.{queue}")
    for number, priority in ((1, 0), (2, 0), (3, 9), (4, -1)):
        here.scheduler.enqueue_request(request(number, priority=priority))

    assert [int(each.url[-1]) for each in iter(here.take, None)] == served
    assert here.session.settings.order is (
        Order.NEWEST if queue in {"LifoQueue", "SpiderStack"} else Order.OLDEST
    )


def test_spiders_with_one_queue_key_share_their_requests_and_others_do_not(station):
    one = station(SCHEDULER_QUEUE_KEY="all:requests")
    other = station(OtherShopSpider, SCHEDULER_QUEUE_KEY="all:requests")
    apart = station(OtherShopSpider, SCHEDULER_QUEUE_KEY="apart:%(spider)s:requests")
    one.scheduler.enqueue_request(request(1))
    one.tick()

    assert apart.take() is None
    assert other.take().url == "https://shop.example/1"


def test_spiders_with_one_dupefilter_key_share_their_fingerprints(station, redis, tenant):
    one = station(SCHEDULER_DUPEFILTER_KEY="all:dupefilter")
    other = station(OtherShopSpider, SCHEDULER_DUPEFILTER_KEY="all:dupefilter")
    apart = station(OtherShopSpider, SCHEDULER_QUEUE_KEY="apart:requests")
    for here in (one, other, apart):
        here.scheduler.enqueue_request(request(1))
        here.tick()

    assert (one.dropped, other.dropped, apart.dropped) == ([], ["https://shop.example/1"], [])
    assert redis.scard(crawl_keys(tenant, "all").seen) == 1


def test_without_such_keys_a_crawl_is_where_it_always_was():
    found = read(REDIS_HOST="h")

    assert (found.crawl, found.known_by) == ("shop", "shop")
    assert read(REDIS_HOST="h", CRAWLFLEET_CRAWL="x").known_by == "x"


def test_start_urls_are_taken_in_batches_of_the_setting_or_the_spiders(station, redis, tenant):
    source = f"{tenant}:start"
    for kind, number in ((FedSpider, 3), (BatchedSpider, 2)):
        redis.delete(source)
        redis.rpush(source, *(f"https://shop.example/{n}" for n in range(8)))
        here = station(kind, REDIS_START_URLS_KEY=source, REDIS_START_URLS_BATCH_SIZE=3)
        here.take()

        assert redis.llen(source) == 8 - number
        here.scheduler.close("shutdown")
        redis.delete(*crawl_keys(tenant, "fed"))


def test_start_urls_are_decoded_by_the_setting(station, redis, tenant):
    source = f"{tenant}:start"
    redis.rpush(source, "https://shop.example/é".encode("latin-1"))

    here = station(FedSpider, REDIS_START_URLS_KEY=source, REDIS_ENCODING="latin-1")

    assert here.take().url == "https://shop.example/%C3%A9"


def test_items_go_to_the_list_of_the_setting_and_to_the_biz(station, redis, tenant):
    key = f"{tenant}:%(spider)s:items"
    here = station(REDIS_ITEMS_KEY=key)
    for page in (1, 2):
        here.pipeline.process_item({"page": page, "url": "https://shop.example/1"})

    assert here.pipeline.flush(True) == 2

    listed = redis.lrange(f"{tenant}:shop:items", 0, -1)
    assert [json.loads(each)["page"] for each in listed] == [1, 2]
    assert redis.hlen(redis_keys(QueueKey(tenant, "garden", "main")).items) == 2


def test_a_list_that_cannot_take_items_has_the_biz_get_them_once(station, redis, tenant):
    here = station(REDIS_ITEMS_KEY=f"{tenant}:items")
    redis.set(f"{tenant}:items", "no list")
    here.pipeline.process_item({"page": 1, "url": "https://shop.example/1"})
    for _ in range(3):
        here.seconds += 10
        here.pipeline.close_spider()
    redis.delete(f"{tenant}:items")

    here.pipeline.flush(True)

    assert redis.llen(f"{tenant}:items") == 1
    assert redis.hlen(redis_keys(QueueKey(tenant, "garden", "main")).items) == 1


def test_stats_of_all_processes_are_added_up_in_the_hash_of_the_setting(station, redis, tenant):
    key = f"{tenant}:shop:stats"
    collectors = []
    for depth in (3, 5, 4):
        here = station(STATS_KEY=f"{tenant}:%(spider)s:stats", SCHEDULER_PERSIST=True)
        stats = StatsCollector(here.crawler, clock=lambda here=here: here.seconds)
        stats.open_spider()
        for _ in range(depth):
            stats.inc_value("pages")
        stats.max_value("deepest", depth)
        stats.min_value("flattest", depth)
        stats.set_value("said", "x")
        stats.inc_value("half", 0.5)
        collectors.append(stats)
    for stats in collectors:
        stats.close_spider(reason="finished")

    assert redis.hgetall(key) == {
        b"pages": b"12",
        b"deepest": b"5",
        b"flattest": b"3",
        b"said": b"x",
        b"half": b"1.5",
    }
    assert collectors[0].get_value("pages") == 3


def test_stats_are_forgotten_with_their_crawl(station, redis, tenant):
    key = f"{tenant}:shop:stats"
    here = station(STATS_KEY=key)
    stats = StatsCollector(here.crawler)
    stats.open_spider()
    stats.inc_value("pages")
    here.scheduler.close("finished")

    stats.close_spider(reason="finished")

    assert not redis.exists(key)


def test_stats_wait_for_a_redis_that_is_away(station, redis, tenant, caplog):
    key = f"{tenant}:shop:stats"
    here = station(STATS_KEY=key, SCHEDULER_PERSIST=True)
    stats = StatsCollector(here.crawler, clock=lambda: here.seconds)
    stats.open_spider()
    redis.set(key, "no hash")
    stats.inc_value("pages", 2)
    redis.delete(key)
    here.seconds += 6

    stats.inc_value("pages")

    assert "the stats of this process wait" in caplog.text
    assert redis.hgetall(key) == {b"pages": b"3"}


def test_the_settings_of_the_source_run_as_they_are_written(
    redis_connection, redis_url, tenant, tmp_path
):
    client, place = redis_connection.client, urlsplit(redis_url)
    given = ("-s", f"REDIS_PORT={place.port}", "-s", f"CRAWLFLEET_TENANT={tenant}")
    bounds = ("-s", "MAX_IDLE_TIME_BEFORE_CLOSE=2", "-s", "CRAWLFLEET_LEASE_SECONDS=2")
    keys = ("-s", f"REDIS_START_URLS_KEY={tenant}:starts", "-s", f"REDIS_ITEMS_KEY={tenant}:items")
    arguments = ("myspider", *given, *bounds, *keys)
    seed = {"settings": "linked.seed_settings", "address": False}
    with LinkedSite() as site, crawls(redis_connection, redis_url, tenant, tmp_path) as project:
        client.lpush(f"{tenant}:starts", f"{site.url}/0")
        first = project.begin(*arguments, **seed)
        eventually(lambda: site.served >= 40, what="40 pages")
        first.kill()
        log = project.begin(*arguments, **seed).end()

    pages = {json.loads(each)["page"] for each in client.lrange(f"{tenant}:items", 0, -1)}
    assert pages == set(range(PAGES)), log[-3000:]
    assert "Resuming crawl" in log
    assert "Traceback" not in log
    assert client.exists(crawl_keys(tenant, "myspider").seen)


@pytest.mark.parametrize("name", ["SCHEDULER", "DUPEFILTER_CLASS"])
def test_a_process_whose_class_is_refused_says_so_and_fails(
    redis_connection, redis_url, tenant, tmp_path, name
):
    with crawls(redis_connection, redis_url, tenant, tmp_path) as project:
        process = project.begin("pages", "-s", f"{name}=scrapy_redis.spiders.RedisMixin")
        log = process.end()

    assert process.code != 0
    assert f"{name}: is 'scrapy_redis.spiders.RedisMixin', which does not go with" in log


@pytest.mark.filterwarnings("ignore:Passing a 'spider' argument")
def test_stats_are_those_of_older_scrapy_too(station, redis, tenant, monkeypatch):
    ended = []

    def begin(self, crawler):
        self._dump, self._stats = False, {}

    def close_spider(self, spider, reason):
        ended.append((spider.name, reason))

    monkeypatch.setattr(statscollectors.StatsCollector, "__init__", begin)
    monkeypatch.setattr(statscollectors.StatsCollector, "close_spider", close_spider)
    here = station(STATS_KEY=f"{tenant}:%(spider)s:stats", SCHEDULER_PERSIST=True)
    stats = StatsCollector(here.crawler)

    stats.open_spider(here.spider)
    stats.inc_value("pages", 2, spider=here.spider)
    stats.close_spider(here.spider, reason="finished")

    assert redis.hget(f"{tenant}:shop:stats", "pages") == b"2"
    assert ended == [("shop", "finished")]
