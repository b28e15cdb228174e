"""The scheduler beside an engine that the test plays: what is kept when things go wrong."""

import logging
from collections import Counter

import pytest
import scrapy
from scrapy import signals
from scrapy.exceptions import DontCloseSpider, DropItem
from scrapy.http import TextResponse

from infra.local.redis_server import ENV_URL, RedisServer
from tests.contract.scrapy_cases import FedSpider, Station
from tests.kit.kernel import ConfigError, QueueKey, StoreUnavailableError
from tests.kit.patience import patient
from tests.kit.queue import redis_keys
from tests.kit.records import LARGEST_ITEM, item_of, wire_of
from tests.kit.redis import RedisConnection
from tests.kit.requests import Item
from tests.kit.scrapy import DupeFilter, crawl_keys, scheduler


def request(number, **options):
    return scrapy.Request(f"https://shop.example/{number}", **options)


def test_a_request_is_finished_when_the_engine_is_done_with_it_and_not_before(
    station, redis, tenant
):
    here, keys = station(), crawl_keys(tenant, "shop")
    here.scheduler.enqueue_request(request(1))
    taken = here.take()

    here.tick()
    assert redis.zcard(keys.leases) == 1
    item = {"page": 1}
    here.pipeline.process_item(item)
    here.scheduler.enqueue_request(request(2))
    here.slot.inprogress.remove(taken)
    assert redis.zcard(keys.leases) == 1
    # The item may wait for the page it is of, and its request waits for it.
    here.crawler.signals.send_catch_log(
        signals.item_scraped, item=item, response=TextResponse("http://a")
    )
    here.tick()

    assert (redis.zcard(keys.leases), redis.zcard(keys.queue)) == (0, 1)
    assert redis.hlen(redis_keys(QueueKey(tenant, "garden", "main")).items) == 1


def test_what_a_process_is_at_still_is_not_begun_again_though_its_lease_had_ended(
    station, redis, tenant
):
    here, keys = station(), crawl_keys(tenant, "shop")
    for number in (1, 2, 3):
        here.scheduler.enqueue_request(request(number))
    under_way = here.take()
    # It stood still for longer than a lease: what it has begun, and what waits for its engine.
    redis.zadd(keys.leases, dict.fromkeys(redis.zrange(keys.leases, 0, -1), 1))
    here.scheduler.enqueue_request(request(4))

    begun = [each.url[-1] for each in iter(here.take, None)]

    assert sorted([under_way.url[-1], *begun]) == ["1", "2", "3", "4"]
    here.slot.inprogress.clear()
    here.tick()
    assert (redis.zcard(keys.leases), redis.zcard(keys.queue)) == (0, 0)


def test_what_another_process_has_by_now_is_not_begun_any_more(station, redis, tenant):
    here, there, keys = station(), station(), crawl_keys(tenant, "shop")
    for number in (1, 2):
        here.scheduler.enqueue_request(request(number))
    here.take()
    redis.zadd(keys.leases, dict.fromkeys(redis.zrange(keys.leases, 0, -1), 1))
    taken = [each.url[-1] for each in iter(there.take, None)]

    here.tick(3_600)

    assert taken == ["1", "2"]
    assert here.take() is None


def test_an_item_whose_page_is_not_known_yet_holds_its_request_back_for_a_while(
    station, redis, tenant
):
    here, keys = station(), crawl_keys(tenant, "shop")
    here.scheduler.enqueue_request(request(1))
    taken = here.take()
    here.pipeline.process_item({"page": 1})
    here.slot.inprogress.remove(taken)

    here.tick()
    assert redis.zcard(keys.leases) == 1
    here.tick(1.0)

    assert redis.zcard(keys.leases) == 0
    assert redis.hlen(redis_keys(QueueKey(tenant, "garden", "main")).items) == 1


def test_duplicates_are_refused_here_or_by_redis_and_the_engine_hears_of_it(station):
    one, two = station(), station()
    assert one.scheduler.enqueue_request(request(1))
    assert not one.scheduler.enqueue_request(request(1))
    assert one.scheduler.enqueue_request(request(1, dont_filter=True))
    one.tick()

    assert two.scheduler.enqueue_request(request(1))
    assert two.dropped == []
    two.tick()

    assert two.dropped == ["https://shop.example/1"]
    assert (one.stat("dupefilter/filtered"), two.stat("dupefilter/filtered")) == (1, 1)
    assert one.stat("scheduler/enqueued") == 2


def test_a_start_request_is_queued_once_but_its_retries_are_no_start_requests(station):
    one, two = station(), station()
    start = {"dont_filter": True, "meta": {"is_start_request": True}}
    assert one.scheduler.enqueue_request(request(1, **start))
    taken = one.take()
    again = taken.replace(meta={**taken.meta, "retry_times": 1})
    two.scheduler.enqueue_request(request(1, **start))
    two.tick()
    assert two.dropped == ["https://shop.example/1"]

    one.scheduler.enqueue_request(again)
    one.slot.inprogress.remove(taken)

    assert one.take().meta["retry_times"] == 1


def test_a_request_that_json_cannot_hold_stays_local_and_its_key_is_logged_once(station, caplog):
    here, there = station(), station()
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            assert here.scheduler.enqueue_request(request(number, meta={"page": object()}))
        assert not here.scheduler.enqueue_request(request(0, meta={"page": object()}))
        assert not there.scheduler.enqueue_request(request(1, meta={"page": object()}))

    assert "meta['page']" in caplog.records[0].message
    assert len(caplog.records) == 1
    assert here.stat("scheduler/unserializable") == 4
    assert here.take().url == "https://shop.example/0"
    assert here.scheduler.has_pending_requests()
    here.scheduler.close("shutdown")
    assert "3 requests " in caplog.text


def test_an_unreadable_request_is_dead_and_the_crawl_goes_on(station, redis, tenant, caplog):
    here, keys = station(), crawl_keys(tenant, "shop")
    here.scheduler.enqueue_request(request(1, callback=here.spider.lamp))
    here.scheduler.enqueue_request(request(2))
    here.tick()
    [first, _] = sorted(redis.hkeys(keys.requests))
    gone = redis.hget(keys.requests, first).replace(b'"lamp"', b'"gone"')
    redis.hset(keys.requests, first, gone)

    assert here.take().url == "https://shop.example/2"

    assert here.stat("scheduler/unreadable") == 1
    assert b"has no method 'gone'" in redis.lrange(keys.dead, 0, -1)[0]
    assert "is dead" in caplog.text


def test_start_urls_may_be_several_requests_or_none_or_nonsense(station, redis, tenant):
    source = f"{tenant}:start"
    here, keys = station(FedSpider, REDIS_START_URLS_KEY=source), crawl_keys(tenant, "fed")
    redis.rpush(source, "two", "none", "no url", "https://shop.example/3", '{"q": 1}')

    urls = Counter()
    for _ in range(8):
        here.seconds += 60
        taken = here.take()
        if taken is not None:
            urls[taken.url] += 1
            here.slot.inprogress.remove(taken)
    here.tick()

    assert urls == {f"https://shop.example/{n}": 1 for n in (1, 2, 3)}
    assert redis.llen(keys.dead) == 2
    assert (redis.zcard(keys.queue), redis.zcard(keys.leases)) == (0, 0)


def test_a_spider_that_waits_for_start_urls_closes_only_where_a_limit_is_set(station):
    def idle(here):
        results = here.crawler.signals.send_catch_log(
            signals.spider_idle, spider=here.spider, dont_log=DontCloseSpider
        )
        return any(isinstance(getattr(each, "value", None), DontCloseSpider) for _, each in results)

    assert idle(station(FedSpider))
    here = station(FedSpider, MAX_IDLE_TIME_BEFORE_CLOSE=100)
    assert idle(here)
    here.seconds += 101
    assert not idle(here)
    assert not idle(station())
    assert idle(station(SCHEDULER_IDLE_BEFORE_CLOSE=100))


def test_a_process_waits_for_what_others_have_under_way(station):
    one, two = station(), station()
    one.scheduler.enqueue_request(request(1))
    taken = one.take()

    assert two.take() is None
    assert two.scheduler.has_pending_requests()
    one.slot.inprogress.remove(taken)
    one.tick()

    assert not two.scheduler.has_pending_requests()


def test_when_it_closes_it_gives_back_what_it_has_not_begun(station, redis, tenant):
    one, keys = station(), crawl_keys(tenant, "shop")
    for number in range(5):
        one.scheduler.enqueue_request(request(number))
    taken = one.take()
    one.slot.inprogress.remove(taken)

    one.scheduler.close("shutdown")

    assert (redis.zcard(keys.queue), redis.zcard(keys.leases)) == (4, 0)
    two = station()
    assert {two.take().url for _ in range(4)} == {f"https://shop.example/{n}" for n in range(1, 5)}


@pytest.mark.parametrize(
    ("persist", "reason", "kept"),
    [
        (None, "finished", False),
        (None, "shutdown", True),
        (True, "finished", True),
        (False, "shutdown", False),
    ],
)
def test_what_is_kept_at_the_end_is_what_the_setting_says(
    station, redis, tenant, persist, reason, kept
):
    here = station(**({} if persist is None else {"SCHEDULER_PERSIST": persist}))
    here.scheduler.enqueue_request(request(1))
    here.slot.inprogress.remove(here.take())

    here.scheduler.close(reason)

    assert redis.exists(crawl_keys(tenant, "shop").seen) == kept


def test_nothing_is_finished_while_redis_is_away_and_everything_when_it_is_back(
    station, monkeypatch, caplog
):
    monkeypatch.delenv(ENV_URL, raising=False)
    with RedisServer() as server:
        here = station(url=patient(server.url))
        here.scheduler.enqueue_request(request(1))
        taken = here.take()
        client = here.session.connection.client
        client.config_set("maxmemory", "1")  # every write that needs memory is refused
        for number in range(2, 40):
            here.scheduler.enqueue_request(request(number))
        here.pipeline.process_item({"page": 1, "url": "https://shop.example/1"})
        here.slot.inprogress.remove(taken)

        assert here.take() is None
        assert here.scheduler.has_pending_requests()
        assert len(here.scheduler) == 38
        keys = here.session.crawl.keys
        assert client.zcard(keys.leases) == 1
        assert [record.levelname for record in caplog.records].count("WARNING") == 1

        client.config_set("maxmemory", "0")
        here.tick(2.0)

        assert client.zcard(keys.leases) == 0
        assert client.zcard(keys.queue) == 38
        assert here.stat("crawlfleet/items") == 1


def test_a_page_is_finished_when_what_it_has_led_to_is_queued_and_not_before(
    station, redis, tenant
):
    here, keys = station(), crawl_keys(tenant, "shop")
    here.scheduler.enqueue_request(request(1))
    taken = here.take()
    here.scheduler.enqueue_request(request(2))
    here.slot.inprogress.remove(taken)
    push = here.session.crawl.push_each
    here.session.crawl.push_each = lambda requests: (_ for _ in ()).throw(
        StoreUnavailableError("redis", "away")
    )

    here.tick()

    assert (redis.zcard(keys.queue), redis.zcard(keys.leases)) == (0, 1)
    here.session.crawl.push_each = push
    here.tick(2.0)
    assert (redis.zcard(keys.queue), redis.zcard(keys.leases)) == (1, 0)


def test_a_redis_that_is_away_for_too_long_ends_the_crawl_and_what_is_under_way_is_done_again(
    station, redis, tenant
):
    here, keys = station(bounds={"most": 3, "together": 2}), crawl_keys(tenant, "shop")
    here.scheduler.enqueue_request(request(1))
    taken = here.take()
    push = here.session.crawl.push_each
    here.session.crawl.push_each = lambda requests: (_ for _ in ()).throw(
        StoreUnavailableError("redis", "away")
    )
    answers = [here.scheduler.enqueue_request(request(number)) for number in range(2, 9)]
    assert answers == [True] * 3 + [False] * 4
    assert here.closed == [scheduler.AWAY_REASON]
    here.slot.inprogress.remove(taken)

    here.session.crawl.push_each = push
    here.scheduler.close(scheduler.AWAY_REASON)

    # The page whose links were lost is queued again beside those that were kept.
    assert (redis.zcard(keys.queue), redis.zcard(keys.leases)) == (4, 0)


def test_a_start_url_whose_requests_are_lost_is_done_again(station, redis, tenant):
    here, keys = station(FedSpider, bounds={"most": 1, "together": 1}), crawl_keys(tenant, "fed")
    redis.rpush("fed:start_urls", "two")
    push = here.session.crawl.push_each
    here.session.crawl.push_each = lambda requests: (_ for _ in ()).throw(
        StoreUnavailableError("redis", "away")
    )

    assert here.take() is None
    here.session.crawl.push_each = push
    here.scheduler.close(scheduler.AWAY_REASON)

    assert (redis.zcard(keys.queue), redis.zcard(keys.leases)) == (1, 1)


def test_items_that_wait_too_long_make_their_page_be_done_again(station, redis, tenant):
    here, keys = station(most_bytes=10), crawl_keys(tenant, "shop")
    here.scheduler.enqueue_request(request(1))
    taken = here.take()
    here.pipeline.process_item({"page": "x" * 20})
    with pytest.raises(StoreUnavailableError):
        here.pipeline.process_item({"page": 2})
    here.slot.inprogress.remove(taken)

    here.scheduler.close("shutdown")

    assert redis.zcard(keys.queue) == 1


@pytest.mark.parametrize(
    ("item", "why"),
    [
        ({"a": object()}, "a: is a object"),
        ({"a": "x" * 4_500_000}, "larger than"),
        (17, "is no item"),
    ],
)
def test_an_item_that_no_record_can_hold_is_dropped_with_the_reason(station, item, why):
    here = station()

    with pytest.raises(DropItem, match=why):
        here.pipeline.process_item(item)

    assert here.stat("crawlfleet/items_refused") == 1
    assert here.pipeline.flush(True) == 0


def test_an_item_that_its_page_would_make_too_large_holds_up_nobody(station, redis, tenant):
    here, keys = station(), crawl_keys(tenant, "shop")
    here.scheduler.enqueue_request(request(1))
    taken = here.take()
    bare = len(wire_of(Item(rule="shop", url="", fields={"text": ""})))
    for item in ({"text": "x" * (LARGEST_ITEM - bare)}, {"text": "small"}):
        here.pipeline.process_item(item)
        here.crawler.signals.send_catch_log(
            signals.item_scraped, item=item, response=TextResponse("https://shop.example/1")
        )
    here.slot.inprogress.remove(taken)

    here.tick()

    items = redis.hvals(redis_keys(QueueKey(tenant, "garden", "main")).items)
    urls = [item_of(item).url for item in sorted(items, key=len)]
    assert urls == ["https://shop.example/1", ""]
    assert redis.zcard(keys.leases) == 0


def test_the_same_item_object_given_twice_is_two_items(station, redis, tenant):
    here, item = station(), {"page": 1}
    here.pipeline.process_item(item)
    item["page"] = 2
    here.pipeline.process_item(item)

    assert here.pipeline.flush(True) == 2
    assert redis.hlen(redis_keys(QueueKey(tenant, "garden", "main")).items) == 2


def test_a_project_may_keep_a_dupefilter_of_its_own(station):
    here = station(DUPEFILTER_CLASS="scrapy.dupefilters.BaseDupeFilter")
    for _ in range(2):
        assert here.scheduler.enqueue_request(request(1))
    here.tick()
    assert [here.take().url for _ in range(2)] == ["https://shop.example/1"] * 2

    ours = DupeFilter.from_crawler(here.crawler)
    assert [ours.request_seen(request(1)) for _ in range(2)] == [False, True]


def test_wrong_settings_are_reported_all_at_once(redis_url):
    with pytest.raises(ConfigError) as refused:
        Station("", "Not a slug", CRAWLFLEET_BATCH="many", CRAWLFLEET_ORDER="best", name="x")

    assert [problem.field for problem in refused.value.problems] == [
        "CRAWLFLEET_REDIS_URL",
        "CRAWLFLEET_TENANT",
        "CRAWLFLEET_ORDER",
        "CRAWLFLEET_BATCH",
    ]


def test_the_password_comes_from_the_environment(station, monkeypatch):
    monkeypatch.delenv(ENV_URL, raising=False)
    monkeypatch.setenv("CRAWLFLEET_REDIS_PASSWORD", "open sesame")
    with RedisServer() as server, RedisConnection(patient(server.url)) as admin:
        admin.client.config_set("requirepass", "open sesame")
        here = station(url=patient(server.url))

        assert here.scheduler.enqueue_request(request(1))
        assert here.take().url == "https://shop.example/1"
