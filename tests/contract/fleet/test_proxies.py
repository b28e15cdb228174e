"""The health of proxies, shared over real Redis by the heartbeats of several workers."""

import asyncio
import threading
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from infra.local.parts import free_port
from tests.contract.proxy_site import proxy
from tests.contract.raw_site import ask, limits, reply, site
from tests.kit.config import ProxyPool
from tests.kit.fetching import (
    AiohttpFetcher,
    Fault,
    FetchContext,
    ProxyExchange,
    Verb,
    http_proxies,
)
from tests.kit.fleet import RedisProxyPools, RedisWorkers
from tests.kit.kernel import FetchError, NoProxyError, StoreUnavailableError
from tests.kit.queue import fleet_keys
from tests.waiting import eventually

PASSWORD = "pass-w0rd"
LIMITS = limits(total_seconds=1.0, connect_seconds=1.0)
POOL = ProxyPool(secret="proxies", max_failures=1, rest_seconds=0.2, allow_private=True)
LONG = ProxyPool(secret="proxies", max_failures=1, rest_seconds=600.0, allow_private=True)
PLACES = {"k1": "http://10.0.0.1:3128", "k2": "http://10.0.0.2:3128"}


class Fleet:
    """Workers that beat over one Redis, each with what it knows of proxies."""

    def __init__(self, connection, *names: str) -> None:
        self.connection, self.name = connection, f"fleet-{uuid4().hex}"
        self.workers = RedisWorkers(connection, fleet=self.name)
        self.keys = fleet_keys(self.name)
        self.each = {name: ProxyExchange() for name in names}
        for exchange in self.each.values():
            exchange.listed("eu", PLACES)
            exchange.choose("eu", list(PLACES), 0)

    def beat(self, *names: str) -> None:
        for name in names or self.each:
            self.workers.beat(name, datetime.now(UTC), proxies=self.each[name])

    def fail(self, name: str, key: str = "k1", pool: ProxyPool = POOL) -> None:
        exchange = self.each[name]
        exchange.failed("eu", pool, key, "a.example", exchange.clock(), Fault.UNREACHABLE)

    def succeed(self, name: str, key: str = "k1") -> None:
        exchange = self.each[name]
        exchange.succeeded("eu", key, "a.example", exchange.clock())

    def chosen(self, name: str) -> str | None:
        number = self.each[name].choose("eu", list(PLACES), 0)
        return None if number is None else list(PLACES)[number]

    def states(self, *pools: str):
        return RedisProxyPools(self.connection, fleet=self.name).states(pools or ("eu",))


@pytest.fixture
def fleet(redis_connection):
    return Fleet(redis_connection, "a", "b", "c")


def test_a_proxy_that_one_worker_finds_dead_is_left_out_by_the_others_after_a_beat_each(fleet):
    fleet.beat()
    fleet.fail("a", pool=LONG)
    assert fleet.chosen("b") == "k1"

    fleet.beat("a")
    fleet.beat("b", "c")

    assert [fleet.chosen(name) for name in "abc"] == ["k2", "k2", "k2"]
    fleet.beat()
    [eu] = fleet.states()
    assert (eu.name, eu.size, eu.away) == ("eu", 2, 1)
    [dead] = [one for one in eu.proxies if one.is_away]
    assert (dead.place, dead.fault, dead.seen_by, dead.failed) == (
        *(PLACES["k1"], "unreachable", "a"),
        1,
    )
    assert 590 < (dead.until - datetime.now(UTC)).total_seconds() < 601


def test_after_the_cool_down_one_worker_tries_and_all_hear_what_comes_of_it(fleet):
    fleet.beat()
    fleet.fail("a")
    fleet.beat("a", "b", "c")

    def granted() -> list[str]:
        fleet.beat()
        return [name for name in "abc" if fleet.chosen(name) == "k1"]

    tried = []
    eventually(lambda: tried.extend(granted()) or tried, what="one is granted the try")
    [trier] = tried
    assert granted() == []

    fleet.fail(trier)
    fleet.beat(trier, *"abc")
    [eu] = fleet.states()
    assert eu.proxies[0].cool_downs == 2

    tried.clear()
    eventually(lambda: tried.extend(granted()) or tried, what="it is tried once more")
    fleet.succeed(tried[0])
    fleet.beat(tried[0], *"abc")

    assert [fleet.chosen(name) for name in "abc"] == ["k1", "k1", "k1"]
    assert [one.until for one in fleet.states()[0].proxies] == [None]


def test_a_worker_that_comes_later_knows_what_the_others_have_found(fleet, redis_connection):
    fleet.beat()
    fleet.fail("a", pool=LONG)
    fleet.beat("a")

    fleet.each["late"] = ProxyExchange()
    fleet.beat("late")
    fleet.each["late"].listed("eu", PLACES)

    assert fleet.chosen("late") == "k2"


def test_workers_at_once_get_one_try_between_them(fleet):
    fleet.each |= {f"w{n}": ProxyExchange() for n in range(8)}
    for exchange in fleet.each.values():
        exchange.listed("eu", PLACES)
        exchange.choose("eu", list(PLACES), 0)
    fleet.beat()
    fleet.fail("a")
    fleet.beat("a")
    fleet.beat()
    eventually(
        lambda: any(one.verb is Verb.TRY for one in fleet.each["b"].reports().reports),
        what="the cool-down is over",
    )

    threads = [threading.Thread(target=fleet.beat, args=(name,)) for name in fleet.each]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [fleet.chosen(name) for name in fleet.each].count("k1") == 1


def test_where_redis_has_lost_all_of_it_what_workers_find_is_shared_anew(fleet):
    fleet.beat()
    fleet.fail("a", pool=LONG)
    fleet.beat()
    fleet.beat()
    fleet.connection.client.delete(*fleet.keys)
    assert fleet.chosen("b") == "k2"

    fleet.fail("c", key="k2", pool=LONG)
    fleet.beat("c")
    fleet.beat("a", "b")

    assert [fleet.chosen(name) for name in "abc"] == [None, None, None]


def test_no_more_is_kept_than_is_bounded_and_nothing_for_ever(fleet):
    fleet.beat()
    client, exchange = fleet.connection.client, fleet.each["a"]
    old = datetime.now(UTC).timestamp() * 1_000 - 2 * 3_600_000 - 1_000
    for n in range(90):
        client.hset(fleet.keys.proxies, f"eu old{n}", "http://10.0.0.9:1 1 0 0 0 0 0 - 0 - -")
        client.zadd(fleet.keys.proxies_seen, {f"eu old{n}": old})
    exchange.succeeded("eu", "k1", "a.example", exchange.clock())
    fleet.fail("a", key="k2")

    fleet.beat("a")
    fleet.beat("a")

    assert {one.decode() for one in client.hkeys(fleet.keys.proxies)} == {"eu k2"}
    ours = (fleet.keys.proxies, fleet.keys.proxies_seen, fleet.keys.proxies_news)
    assert all(0 < client.ttl(key) <= 14_400 for key in (*ours, fleet.keys.proxy_pools))


def test_beats_of_a_stage_without_proxies_leave_nothing_of_them(fleet):
    fleet.workers.beat("a", datetime.now(UTC))

    assert not any(fleet.connection.client.exists(key) for key in fleet.keys[-4:])


@pytest.mark.parametrize(
    "kept",
    ["", "nonsense", "http://10.0.0.1:3128 x y z", "a b c d e f g h i j k"],
)
def test_what_another_hand_has_left_there_costs_no_heartbeat(fleet, kept):
    fleet.beat("a")
    fleet.connection.client.hset(fleet.keys.proxies, "eu k1", kept)
    fleet.fail("a", pool=LONG)

    fleet.beat("a", "b")

    assert fleet.chosen("b") == "k2"


def test_an_answer_that_is_none_is_a_fault_of_redis_and_what_was_to_be_told_is_kept(fleet):
    fleet.beat("a")
    fleet.fail("a", pool=LONG)
    fleet.connection.client.delete(fleet.keys.proxies)
    fleet.connection.client.set(fleet.keys.proxies, "no HASH")

    with pytest.raises(StoreUnavailableError):
        fleet.beat("a")

    fleet.connection.client.delete(fleet.keys.proxies)
    fleet.beat("a", "b")
    assert fleet.chosen("b") == "k2"


# ---- real proxies ------------------------------------------------------------------------------


def _silent(start: bytes = b""):
    async def answer(_, writer):
        writer.write(start)
        await writer.drain()
        await asyncio.Event().wait()

    return answer


#: What a bad proxy answers; the dead one's port is nobody's.
BAD = {
    "unreachable": None,
    "silent": _silent(),
    "credentials": reply(status=407, Proxy_Authenticate="Basic"),
    "closed": b"\x00\x01 I am no proxy\r\n\r\n",
}


@pytest.mark.parametrize("fault", BAD)
def test_a_bad_proxy_that_one_worker_has_met_is_met_by_no_other(fleet, fault):
    async def run():
        async with AsyncExitStack() as stack:
            stands = await stack.enter_async_context(site(reply(b"page")))
            good = await stack.enter_async_context(proxy())
            bad = f"http://crawler:{PASSWORD}@127.0.0.1:{free_port()}"
            met = None
            if BAD[fault] is not None:
                met = await stack.enter_async_context(site(BAD[fault]))
                bad = f"http://crawler:{PASSWORD}@127.0.0.1:{met.port}"
            lines = f"{good.line()}\n{bad}"
            each = {}
            for name in ("a", "b"):
                fleet.each[name] = ProxyExchange()
                proxies = http_proxies.Proxies(lambda _: lines, fleet.each[name])
                fetcher = AiohttpFetcher(True, proxies=proxies)
                each[name] = await stack.enter_async_context(fetcher)
            context = FetchContext(pool="eu", proxies=LONG)
            failed = []
            for name, times in (("a", 4), ("b", 6)):
                for _ in range(times):
                    try:
                        await each[name].fetch(ask(stands.url()), LIMITS, None, context)
                    except FetchError:
                        failed.append(name)
                fleet.beat("a")
                fleet.beat("b")
            return failed, met

    failed, met = asyncio.run(run())

    assert failed == ["a"]
    assert met is None or met.connections == 1
    [eu] = fleet.states()
    assert [(one.fault, one.seen_by) for one in eu.proxies if one.is_away] == [(fault, "a")]
    stored = repr(
        [fleet.connection.client.hgetall(key) for key in (fleet.keys.proxies, fleet.keys.cards)]
    )
    for secret in (PASSWORD, "crawler"):
        assert secret not in f"{stored} {eu!r}"


def test_requests_wait_where_the_fleet_leaves_all_proxies_out(fleet):
    async def run():
        fleet.each["a"] = ProxyExchange()
        lines = f"http://crawler:{PASSWORD}@127.0.0.1:{free_port()}"
        proxies = http_proxies.Proxies(lambda _: lines, fleet.each["a"])
        context = FetchContext(pool="eu", proxies=LONG)
        async with AiohttpFetcher(True, proxies=proxies) as fetcher:
            with pytest.raises(FetchError):
                await fetcher.fetch(ask("http://a.example/"), LIMITS, None, context)
            fleet.beat("a")
            with pytest.raises(NoProxyError) as caught:
                await fetcher.fetch(ask("http://a.example/"), LIMITS, None, context)
        return caught.value

    error = asyncio.run(run())

    assert "none of the 1 proxies of the pool 'eu' works" in str(error)
    assert 2.0 <= error.again_seconds <= 30.0
    assert PASSWORD not in str(error)
