"""A Scrapy crawl and the items of the data queue survive the loss of Redis."""

import time

import pytest
from scrapy.utils.test import get_crawler

from infra.local.redis_server import RedisServer
from tests.contract.scrapy_cases import FedSpider, ShopSpider, Station
from tests.kit.kernel import QueueKey, StoreUnavailableError
from tests.kit.patience import patient
from tests.kit.queue import redis_keys
from tests.kit.redis import RedisConnection
from tests.kit.scrapy import (
    Forget,
    Journal,
    Kept,
    Marks,
    Pushed,
    RedisCrawl,
    crawl_keys,
    session_of,
)
from tests.scrapy_project.crawls import crawls
from tests.scrapy_project.site import PAGES, LinkedSite
from tests.waiting import eventually

TENANT = "acme"
CHECK = 6.0


@pytest.fixture(scope="module")
def server():
    with RedisServer(own=True) as server:
        yield server


@pytest.fixture
def redis(server):
    with RedisConnection(patient(server.url)) as connection:
        connection.client.flushall()
        yield connection.client


@pytest.fixture
def station(server, redis):
    made = []

    def make(kind=ShopSpider, **options):
        made.append(Station(patient(server.url), TENANT, kind, **options))
        return made[-1]

    yield make
    for each in made:
        each.session.connection.close()
        each.session.journal.close()


def push(here, *numbers):
    for number in numbers:
        here.scheduler.enqueue_request(here.request(number))
    here.tick()


def lose(redis, how, server):
    """Empty Redis, or take it back to the snapshot that was saved before."""
    if how == "flush":
        redis.flushall()
        return
    server.kill()
    if how == "empty":
        server.snapshot.unlink(missing_ok=True)
    server.restart()


def crawled(here):
    urls = []
    while (taken := here.take()) is not None:
        urls.append(int(taken.url.rpartition("/")[2]))
        here.slot.inprogress.remove(taken)
        here.tick(1.0)
    return urls


@pytest.mark.parametrize("how", ["flush", "empty", "rollback"])
def test_requests_that_redis_has_lost_are_queued_again(station, redis, server, how):
    here = station()
    push(here, 1, 2)
    redis.save()
    push(here, 3, 4, 5)

    lose(redis, how, server)
    here.tick(CHECK)

    assert set(crawled(here)) == {1, 2, 3, 4, 5}
    assert here.stat("scheduler/restored") == (3 if how == "rollback" else 5)
    assert not here.scheduler.has_pending_requests()


def test_a_crawl_does_not_end_because_redis_has_lost_it(station, redis):
    here = station()
    push(here, 1, 2)
    redis.flushall()

    assert here.scheduler.has_pending_requests()
    assert set(crawled(here)) == {1, 2}


def test_what_is_done_is_not_done_again_and_is_still_known(station, redis):
    here = station()
    push(here, 1, 2, 3)
    first = here.take()
    here.slot.inprogress.remove(first)
    here.tick()
    redis.flushall()
    here.tick(CHECK)

    push(here, 1, 2)

    assert set(crawled(here)) == {2, 3}


def test_what_another_process_has_done_is_not_queued_again(station, redis):
    here, there = station(), station()
    push(here, 1, 2, 3)
    assert set(crawled(there)) == {1, 2, 3}
    here.tick(CHECK)

    redis.flushall()
    here.tick(CHECK)

    assert crawled(here) == []


def test_a_request_of_before_the_loss_ends_no_request_of_afterwards(station, redis):
    here = station()
    push(here, 1, 2)
    before = here.take()
    redis.flushall()
    here.tick(CHECK)
    again = [here.take(), here.take()]

    here.slot.inprogress.remove(before)
    here.tick(1.0)

    assert {each.url for each in again} == {here.request(n).url for n in (1, 2)}
    assert redis.zcard(crawl_keys(TENANT, "shop").leases) == 2


def test_start_urls_that_were_taken_survive(station, redis):
    here = station(FedSpider, REDIS_START_URLS_KEY="acme:start", CRAWLFLEET_BATCH=4)
    redis.rpush("acme:start", *(f"https://shop.example/{n}" for n in range(4)))
    first = here.take()
    redis.flushall()
    here.tick(CHECK)

    assert first is not None
    assert {0, 1, 2, 3} <= set(crawled(here))


def test_a_process_that_was_killed_leaves_its_requests_to_the_next(station, redis, tmp_path):
    journal = {"CRAWLFLEET_JOURNAL": str(tmp_path)}
    here = station(**journal)
    push(here, 1, 2, 3)
    here.session.journal.close()
    redis.flushall()

    successor = station(**journal)

    assert set(crawled(successor)) == {1, 2, 3}


def test_a_crawl_that_was_forgotten_is_not_brought_back(station, redis, tmp_path):
    journal = {"CRAWLFLEET_JOURNAL": str(tmp_path), "SCHEDULER_PERSIST": False}
    here, there = station(**journal), station(**journal)
    push(here, 1, 2)
    here.session.journal.close()
    here.session.crawl.leave("never")
    there.scheduler.close("shutdown")

    successor = station(**journal)

    assert crawled(successor) == []
    push(successor, 1)
    assert crawled(successor) == [1]


@pytest.mark.parametrize("how", ["flush", "empty", "rollback"])
def test_items_that_redis_has_lost_are_put_again_until_they_are_stored(station, redis, server, how):
    here, keys = station(), redis_keys(QueueKey(TENANT, "garden", "main"))
    redis.save()
    for page in (1, 2, 3):
        here.pipeline.process_item({"page": page, "url": "https://shop.example/1"})
    here.pipeline.flush(True)
    stored = redis.lrange(keys.item_queue, -1, -1)[0]
    redis.hdel(keys.items, stored)
    here.tick(CHECK)

    lose(redis, how, server)
    here.tick(CHECK)

    assert redis.hlen(keys.items) == 2
    assert stored not in redis.hkeys(keys.items)


def test_two_processes_of_a_machine_have_a_file_each(tmp_path):
    one, two = Journal(tmp_path, "a"), Journal(tmp_path, "a")
    one.add([Kept("1", Pushed(content=b"x", marks=Marks.SEEN, mark=b"m"))])

    assert two.some() == []
    one.close()
    successor, other = Journal(tmp_path, "a"), Journal(tmp_path, "b")
    assert (successor.some(), other.some()) == (["1"], [])
    for journal in (two, successor, other):
        journal.close()


def test_a_journal_that_cannot_be_written_is_in_memory_and_the_log_says_so(tmp_path, caplog):
    (tmp_path / "file").write_text("no folder")

    journal = Journal(tmp_path / "file", "a")
    journal.add([Kept("1", Pushed(content=b"x"))])

    assert journal.some() == ["1"]
    assert "the journal is in memory" in caplog.text
    journal.close()


def test_a_file_that_is_no_journal_stops_no_crawl(tmp_path, caplog):
    (tmp_path / "a.sqlite").write_bytes(b"anything else" * 1_000)

    journal = Journal(tmp_path, "a")

    assert "the journal is in memory" in caplog.text
    assert journal.beat("crawl") == 0
    journal.close()


@pytest.mark.parametrize(
    "other",
    [
        {"CRAWLFLEET_BIZ": "orchard"},
        {"CRAWLFLEET_QUEUE": "side"},
        {"SCHEDULER_QUEUE_KEY": "shop-1"},
        {"SCHEDULER_QUEUE_KEY": "shop.1"},
        {"CRAWLFLEET_TENANT": "acme-shop"},
        {"CRAWLFLEET_REDIS_URL": "redis://127.0.0.1:1/0"},
    ],
)
def test_what_is_kept_is_brought_to_no_other_crawl_biz_or_redis(tmp_path, other):
    def files():
        return {path.name for path in tmp_path.glob("*.sqlite")}

    def opened(**changes):
        given = {
            "CRAWLFLEET_REDIS_URL": "redis://127.0.0.1:2/0",
            "CRAWLFLEET_TENANT": "acme",
            "CRAWLFLEET_BIZ": "garden",
            "CRAWLFLEET_JOURNAL": str(tmp_path),
            "SCHEDULER_QUEUE_KEY": "shop:1",
            **changes,
        }
        crawler = get_crawler(ShopSpider, given)
        crawler.spider = crawler._create_spider()
        session = session_of(crawler)
        session.connection.close()
        session.journal.close()

    opened()
    first = files()
    opened()
    assert files() == first
    opened(**other)

    assert len(files()) == 2


def test_a_full_disk_is_waited_for_by_beats_and_reads_too(station, redis, caplog):
    here = station()
    database = here.session.journal._db
    database.execute("PRAGMA query_only = 1")
    here.tick(CHECK)
    database.execute("PRAGMA query_only = 0")
    database.execute("ALTER TABLE requests RENAME TO elsewhere")
    here.tick(CHECK)
    database.execute("ALTER TABLE elsewhere RENAME TO requests")
    here.tick(CHECK)

    push(here, 1)

    said = [line.message for line in caplog.records if "until this has passed" in line.message]
    assert ["readonly database" in said[0], "no such table" in said[1]] == [True, True]
    assert crawled(here) == [1]


def test_journals_of_a_crawl_that_are_gone_for_good_are_forgotten(server, redis):
    with RedisConnection(patient(server.url)) as connection:
        crawl = RedisCrawl(connection, TENANT, "shop", "a")
        beats = crawl.keys.beats
        long_ago = int(time.time()) - 31 * 86_400
        redis.hset(beats, mapping={f"old-{n}": f"7 {long_ago}" for n in range(1_000)})
        redis.hset(beats, mapping={"new": f"7 {int(time.time())}", "gone": f"forgotten {long_ago}"})

        assert crawl.beat("here", 0) == 1

        assert set(redis.hkeys(beats)) == {b"new", b"here"}
        assert crawl.beat("new", 7) == 1


def test_the_beats_of_a_crawl_that_begins_again_do_not_expire(server, redis):
    with RedisConnection(patient(server.url)) as connection:
        crawl = RedisCrawl(connection, TENANT, "shop", "a")
        crawl.enter()
        crawl.beat("here", 0)
        crawl.leave(Forget.FINISHED)
        assert redis.ttl(crawl.keys.beats) > 0

        crawl.enter()

        assert redis.ttl(crawl.keys.beats) == -1
        assert crawl.beat("here", 1) == 2


def test_a_disk_that_is_full_is_waited_for_as_redis_is(station, redis, monkeypatch, caplog):
    here = station()
    journal = here.session.journal

    def full(_):
        raise StoreUnavailableError("journal", "OperationalError: database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(journal, "add", full)
        push(here, 1)
        assert here.take() is None
    here.tick(CHECK)

    assert "database or disk is full" in caplog.text
    assert crawled(here) == [1]


def test_a_journal_of_many_requests_is_read_whole_and_once(tmp_path):
    journal = Journal(tmp_path, "a")
    journal.add(Kept(f"{n:05}", Pushed(content=b"x")) for n in range(1_203))

    found = [kept.id for part in journal.requests() for kept in part]

    assert found == [f"{n:05}" for n in range(1_203)]
    assert len({*journal.some(), *journal.some(), *journal.some()}) == 1_203
    journal.close()


def test_a_beat_whose_answer_was_lost_is_no_loss(server, redis):
    with RedisConnection(patient(server.url)) as connection:
        crawl = RedisCrawl(connection, TENANT, "shop", "a")
        assert [crawl.beat("j", 0), crawl.beat("j", 0), crawl.beat("j", 1)] == [1, 1, 1]
        assert [crawl.beat("j", 0), crawl.beat("other", 5)] == [0, 0]


@pytest.mark.parametrize("how", ["flush", "empty"])
def test_a_crawl_whose_redis_is_emptied_again_and_again_is_complete(server, redis, tmp_path, how):
    with (
        LinkedSite(seconds=0.01) as site,
        RedisConnection(patient(server.url)) as connection,
        crawls(connection, patient(server.url), TENANT, tmp_path) as project,
    ):
        crawl = project.begin("pages", "-a", f"site={site.url}/0")
        for wanted in (60, 140):
            eventually(lambda wanted=wanted: site.served >= wanted, what="more pages")
            lose(redis, how, server)
        log = crawl.end()
        stored = project.pages()

    assert stored == set(range(PAGES)), log[-3000:]
    assert "Redis has lost the crawl" in log
