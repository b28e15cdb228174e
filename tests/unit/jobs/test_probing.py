"""A worker finds out what its way to a site is like: politely, once a pool; whose fault it is."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from tests.fakes.bidding import MemoryProbeCache, MemoryProber
from tests.fakes.fetching import MemoryFetcher
from tests.fakes.politeness import MemoryHosts, MemoryRobotsCache
from tests.kit.bidding import (
    ASK_SECONDS,
    HOLD,
    PROBE_BYTES,
    PROBE_SECONDS,
    WAIT_SECONDS,
    LinkProber,
    Pauses,
    Probe,
    ProbeKey,
    UnknownLink,
)
from tests.kit.config import HostLimits, Politeness, ProxyPool
from tests.kit.kernel import (
    ConnectFailedError,
    NoProxyError,
    PageGoneError,
    ServerFaultError,
    StoreUnavailableError,
    ThrottledError,
    UnknownBizError,
)
from tests.kit.politeness import HostAsk
from tests.kit.warned import Warned
from tests.kit.worlds.memory import make_biz, make_tree

URL = "https://example.org/test"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
FOUND = Probe(at=NOW, seconds=0.25, bytes_per_second=1e6)
ROBOTS = "https://example.org/robots.txt"
BIZ = make_biz(politeness=Politeness())
BRISK = HostLimits(per_second=1_000.0)
QUICK = Pauses(look_seconds=0.01)


def a_key(**fields):
    values = {"tenant": "default", "biz": "docs", "pool": "main", "origin": "https://example.org"}
    return ProbeKey(**{**values, **fields})


class Config:
    def __init__(self, tree):
        self.tree = tree

    def current(self):
        return self.tree


class Away:
    """A part that does not answer."""

    def __getattr__(self, name):
        def refuse(*args, **kwargs):
            raise StoreUnavailableError("redis", "no answer")

        return refuse


class Worker:
    """``answer`` is what the site does; time passes as it does."""

    def __init__(
        self,
        answer=FOUND,
        biz=BIZ,
        hosts=BRISK,
        robots=b"User-agent: *\nAllow: /\n",
        pauses=QUICK,
    ):
        tree = make_tree(biz)
        stage = msgspec.structs.replace(tree.stage, hosts=hosts)
        tree = msgspec.structs.replace(tree, stage=stage)
        self.tree = tree
        self.steady = 0.0
        self.hosts = MemoryHosts()
        self.prober = MemoryProber({URL: answer})
        self.cache = MemoryProbeCache(lambda: self.steady)
        self.warned = Warned()
        self.ports = LinkProber(
            config=Config(tree),
            hosts=self.hosts,
            robots=MemoryRobotsCache(),
            fetcher=MemoryFetcher({ROBOTS: robots}),
            prober=self.prober,
            cache=self.cache,
            clock=lambda: NOW,
            pauses=pauses,
        )

    def probe(self, worker="w1", url=URL, **options):
        return asyncio.run(self.ports.probe(a_key(), url, worker, **options))

    @property
    def asked(self):
        return [url for url, _, _ in self.prober.asked]


def test_a_link_is_probed_politely_and_known_to_the_pool():
    pools = {"eu": ProxyPool(secret="list")}
    biz = make_biz(politeness=Politeness())
    biz = msgspec.structs.replace(biz, fetch=msgspec.structs.replace(biz.fetch, proxies="eu"))
    worker = Worker(biz=biz)
    stage = msgspec.structs.replace(worker.tree.stage, proxies=pools)
    worker.ports.config.tree = msgspec.structs.replace(worker.tree, stage=stage)

    assert worker.probe() == worker.probe("w2") == FOUND

    ((url, limits, fetch_context),) = worker.prober.asked
    assert (url, fetch_context.pool, fetch_context.proxies) == (URL, "eu", pools["eu"])
    assert (limits.total_seconds, limits.max_body_bytes) == (PROBE_SECONDS, PROBE_BYTES)
    assert [body.url for body in worker.ports.fetcher.asked] == [ROBOTS]


def test_what_is_known_is_found_out_anew_after_its_time_and_a_fault_sooner():
    worker = Worker()
    worker.probe(keep_seconds=60)
    worker.steady += 59
    worker.probe()
    assert len(worker.asked) == 1
    worker.steady += 2
    worker.probe()
    assert len(worker.asked) == 2

    broken = Worker(ConnectFailedError("nobody is there"))
    assert broken.probe(keep_seconds=60) == Probe(at=NOW, fault="nobody is there")
    broken.steady += 9
    broken.probe()
    assert len(broken.asked) == 1
    broken.steady += 2
    # That it has been strained by us is another story: its host would be left alone for a while.
    broken.ports = replace(broken.ports, hosts=MemoryHosts())
    broken.probe()
    assert len(broken.asked) == 2


@pytest.mark.parametrize(
    "error",
    [ConnectFailedError("x"), PageGoneError("x", status=403), ServerFaultError("x", status=500)],
)
def test_a_site_that_gives_no_answer_is_at_fault(error):
    assert Worker(error).probe().fault == "x"


def test_a_test_link_that_the_site_does_not_want_is_asked_for_by_nobody():
    worker = Worker(robots=b"User-agent: *\nDisallow: /test\n")

    found = worker.probe()

    assert "Disallow: /test" in found.fault
    assert worker.asked == []


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (ThrottledError("later", status=429, retry_after_seconds=30), 30),
        (ThrottledError("later", status=503), 5),
        (NoProxyError("later", again_seconds=9), 5),
    ],
)
def test_a_throttled_probe_leaves_the_link_unknown_and_lets_others_try(error, again):
    worker = Worker(error)

    assert worker.probe() == UnknownLink(why="later", again_seconds=again)
    assert worker.cache.get_or_claim(a_key(), "w2", HOLD) is True


def test_robots_that_are_not_known_judge_nothing():
    worker = Worker(robots=ServerFaultError("answered 500", status=500))

    found = worker.probe()

    assert isinstance(found, UnknownLink)
    assert worker.asked == []


def test_without_a_host_slot_the_link_is_unknown():
    worker = Worker(hosts=HostLimits(per_second=0.01))
    ask = HostAsk(
        host="example.org",
        tenant="other",
        count=1,
        running=0,
        interval_seconds=100.0,
        concurrency=1,
    )
    worker.hosts.reserve([ask], "other")

    found = worker.probe()

    assert isinstance(found, UnknownLink)
    assert "no free slot now" in found.why
    assert found.again_seconds > 1
    assert worker.asked == []


def test_waiting_for_slots_leaves_the_link_unknown_but_a_silent_site_is_at_fault():
    short = Pauses(ask_seconds=0.2)

    async def for_ever(*_args, **_options):
        await asyncio.Event().wait()

    waiting = Worker(pauses=short)
    waiting.ports.fetcher.fetch = for_ever
    assert isinstance(waiting.probe(), UnknownLink)

    silent = Worker(pauses=short)

    async def silence(url, limits, hop_guard, fetch_context):
        await hop_guard(url)
        await for_ever()

    silent.prober.probe = silence
    assert "0.2 seconds" in silent.probe().fault
    assert silent.hosts.states(["example.org"], {"example.org": "default"})[0].overload == 1


def test_while_one_worker_asks_the_others_wait_for_what_comes_of_it():
    worker = Worker()
    begun, go_on = asyncio.Event(), asyncio.Event()
    looked, all_there = set(), asyncio.Event()

    class Watched:
        def get_or_claim(self, key, who, hold):
            looked.add(who)
            if len(looked) == 5:
                loop.call_soon_threadsafe(all_there.set)
            return worker.cache.get_or_claim(key, who, hold)

        def __getattr__(self, name):
            return getattr(worker.cache, name)

    ports, loop = replace(worker.ports, cache=Watched()), None

    async def slow(url, limits, hop_guard, fetch_context):
        worker.prober.asked.append((url, limits, fetch_context))
        begun.set()
        await go_on.wait()
        return FOUND

    worker.prober.probe = slow

    async def run():
        nonlocal loop
        loop = asyncio.get_running_loop()
        first = asyncio.create_task(ports.probe(a_key(), URL, "w1"))
        await begun.wait()
        others = [asyncio.create_task(ports.probe(a_key(), URL, f"w{n}")) for n in range(2, 6)]
        await asyncio.wait_for(all_there.wait(), 10)
        go_on.set()
        return await asyncio.gather(first, *others)

    assert asyncio.run(run()) == [FOUND] * 5
    assert len(worker.asked) == 1


def test_who_waits_for_too_long_judges_nothing():
    worker = Worker(pauses=Pauses(wait_seconds=0.03, look_seconds=0.01))
    worker.cache.get_or_claim(a_key(), "w1", HOLD)

    found = worker.probe("w2")

    assert "another worker" in found.why
    assert worker.asked == []


def test_who_asks_ends_before_its_mark_and_that_before_those_who_wait():
    assert PROBE_SECONDS < ASK_SECONDS < HOLD.total_seconds() < WAIT_SECONDS
    assert timedelta(seconds=20) > HOLD


def test_without_the_cache_each_asks_for_itself():
    worker = Worker()
    worker.ports = replace(worker.ports, cache=Away())

    assert worker.probe() == FOUND
    assert len(worker.warned.texts) == 2


def test_without_host_slots_the_link_is_unknown():
    worker = Worker()
    worker.ports = replace(worker.ports, hosts=Away())

    found = worker.probe()

    assert isinstance(found, UnknownLink)
    assert worker.asked == []


def test_a_biz_that_is_gone_and_a_key_of_another_site_are_refused():
    worker = Worker()

    with pytest.raises(UnknownBizError):
        asyncio.run(worker.ports.probe(a_key(biz="gone"), URL, "w1"))
    with pytest.raises(ValueError, match="another site"):
        worker.probe(url="https://example.com/test")
