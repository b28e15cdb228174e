"""Cookies of jobs: kept over requests and workers, each job's and tenant's apart."""

import asyncio
import logging
import threading

import pytest
from yarl import URL

from tests.contract.hostile_names import Names
from tests.contract.raw_site import LIMITS, ask, limits, passing, reply, site
from tests.fakes.fetching import MemorySessions
from tests.kit.fetching import AiohttpFetcher, FetchContext, Jars, http_jars
from tests.kit.kernel import QueueKey, StoreUnavailableError

QUEUE_KEY = QueueKey("acme", "docs", "main")
KEPT = limits(cookies=True)


def of(job, queue_key=QUEUE_KEY):
    return FetchContext(queue_key=queue_key, job=job)


def fetcher_with(sessions=None, **options):
    return AiohttpFetcher(allow_private=True, sessions=sessions, **options)


def sent(head):
    return head.partition(b"Cookie: ")[2].partition(b"\r\n")[0].decode()


async def _counting(head, writer):
    """Says what it was told, and sets one more."""
    writer.write(reply(sent(head).encode(), Set_Cookie="seen=yes; Path=/"))


def run_over(check, answer=_counting, **options):
    async def run():
        async with site(answer) as stands, fetcher_with(**options) as fetcher:
            return await check(stands, fetcher)

    return asyncio.run(run())


async def _reported(fetcher, url, fetch_context, asked_limits=KEPT, **fields):
    page = await fetcher.fetch(ask(url, **fields), asked_limits, None, fetch_context)
    return page.body.decode()


def test_a_job_keeps_its_cookies_and_nobody_else_has_them():
    async def check(stands, fetcher):
        url = stands.url()
        await _reported(fetcher, url, of("june"))
        others = (
            of("july"),
            of(None),
            of("june", QueueKey("other", "docs", "main")),
            of("june", QueueKey("acme", "news", "main")),
            FetchContext(job="june"),
        )
        return (
            await _reported(fetcher, url, of("june")),
            [await _reported(fetcher, url, fetch_context) for fetch_context in others],
            await _reported(fetcher, url, of("june"), LIMITS),
        )

    assert run_over(check) == ("seen=yes", [""] * 5, "")


def test_the_requests_own_cookies_go_before_those_of_the_job():
    async def check(stands, fetcher):
        await _reported(fetcher, stands.url(), of("june"))
        return await _reported(fetcher, stands.url(), of("june"), headers={"Cookie": "a=b"})

    assert run_over(check) == "a=b; seen=yes"


def test_cookies_set_on_the_way_are_sent_further_on():
    async def answer(head, writer):
        if head.split()[1] == b"/login":
            writer.write(reply(status=302, Location="/home", Set_Cookie="session=1; Path=/"))
        else:
            writer.write(reply(sent(head).encode()))

    async def check(stands, fetcher):
        return await _reported(fetcher, stands.url("/login"), of("june"))

    assert run_over(check, answer) == "session=1"


def test_a_redirect_to_another_site_takes_no_cookies_along():
    async def answer(head, writer):
        if head.split()[1] == b"/a":
            port = head.partition(b"Host: a.example:")[2].split()[0].decode()
            place = f"http://b.example:{port}/"
            writer.write(reply(status=302, Location=place, Set_Cookie="session=1; Path=/"))
        else:
            writer.write(reply(sent(head).encode()))

    async def check(stands, fetcher):
        url = stands.url("/a", host="a.example")
        return await _reported(fetcher, url, of("june"), headers={"Cookie": "tenant=secret"})

    assert run_over(check, answer, resolver=Names("127.0.0.1")) == ""


@pytest.mark.parametrize(
    "said",
    [
        "a=b; Domain=victim.example; Path=/",
        "a=b; Domain=example; Path=/",
        "a=b; Domain=.com; Path=/",
        "a=b; Domain=; Path=/",
        "a=b; Domain=127.0.0.1; Path=/",
        "a=b; Path=/",
    ],
)
def test_a_site_sets_no_cookies_for_others(said):
    async def answer(head, writer):
        writer.write(reply(sent(head).encode(), Set_Cookie=said))

    async def check(stands, fetcher):
        await _reported(fetcher, stands.url(host="evil.example"), of("june"))
        urls = [stands.url(host=host) for host in ("victim.example", "a.com", "127.0.0.1")]
        return [await _reported(fetcher, url, of("june")) for url in urls]

    assert run_over(check, answer, resolver=Names("127.0.0.1")) == [""] * 3


def test_a_flood_of_cookies_ends_as_a_page_and_a_bounded_jar():
    flood = b"".join(b"Set-Cookie: c%d=%s; Path=/\r\n" % (n, b"v" * 4_000) for n in range(100))

    async def answer(_, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n" + flood + b"Content-Length: 0\r\n\r\n")

    async def check(stands, fetcher):
        for _ in range(3):
            await _reported(fetcher, stands.url(), of("june"))
        return stands.heads

    heads = run_over(check, answer)

    assert 4_000 < len(heads[2]) < 20_000


# ---- other workers -----------------------------------------------------------------------------


def test_what_one_worker_has_learned_the_next_one_knows():
    sessions = MemorySessions()

    async def check(stands, _):
        async with fetcher_with(sessions) as first:
            await _reported(first, stands.url(), of("june"))
        async with fetcher_with(sessions) as second:
            return await _reported(second, stands.url(), of("june"))

    assert run_over(check) == "seen=yes"


def test_workers_at_the_same_job_exchange_what_they_learn():
    sessions = MemorySessions()

    async def run():
        one = Jars(sessions, exchange_seconds=0.01)
        two = Jars(sessions, exchange_seconds=0.01)
        url = URL("http://a.example/")
        ours, theirs = await one.open(QUEUE_KEY, "june"), await two.open(QUEUE_KEY, "june")
        ours.jar.learn(url, ["a=1"])
        one.exchange(ours)
        async with asyncio.timeout(60):
            while theirs.jar.header(url) != "a=1":
                await passing(0.01)
                await two.open(QUEUE_KEY, "june")
        await one.close()
        await two.close()

    asyncio.run(run())


def test_jars_used_the_longest_ago_are_saved_and_put_away():
    url = URL("http://a.example/")

    async def run():
        sessions = MemorySessions()
        jars = http_jars.Jars(sessions, most=3)
        first = {}
        for job in range(10):
            first[job] = await jars.open(QUEUE_KEY, f"j{job}")
            first[job].jar.learn(url, [f"a={job}"])
        async with asyncio.timeout(60):
            while sessions.load(QUEUE_KEY, "j0") is None:
                await passing(0.01)
        again = {job: await jars.open(QUEUE_KEY, f"j{job}") for job in (9, 8, 7, 0)}
        kept = [job for job, opened in again.items() if opened is first[job]]
        reported = again[0].jar.header(url)
        await jars.close()
        return kept, reported

    assert asyncio.run(run()) == ([9, 8, 7], "a=0")


def test_jars_are_saved_at_most_every_few_seconds():
    class Counting(MemorySessions):
        saved = loaded = 0

        def load(self, queue_key, job):
            self.loaded += 1
            return super().load(queue_key, job)

        def save(self, queue_key, job, cookies):
            self.saved += 1
            super().save(queue_key, job, cookies)

    sessions = Counting()

    async def answer(head, writer):
        writer.write(reply(Set_Cookie=f"n={head.split()[1].decode()[1:]}; Path=/"))

    async def check(stands, fetcher):
        for number in range(50):
            await _reported(fetcher, stands.url(f"/{number}"), of("june"))
        return sessions.loaded, sessions.saved

    loaded, saved = run_over(check, answer, sessions=sessions)

    assert (loaded, saved) <= (3, 2)
    assert sessions.saved >= 1, "at the end it is"


def test_a_store_of_cookies_that_is_down_keeps_no_page_away(caplog):
    class Down(MemorySessions):
        def load(self, queue_key, job):
            raise StoreUnavailableError("redis", "down")

    async def check(stands, fetcher):
        await _reported(fetcher, stands.url(), of("june"))
        return await _reported(fetcher, stands.url(), of("june"))

    with caplog.at_level(logging.WARNING):
        assert run_over(check, sessions=Down()) == "seen=yes"

    assert "not exchanged" in caplog.text


def test_the_store_of_cookies_is_not_asked_on_the_event_loop():
    asked = set()

    class Elsewhere(MemorySessions):
        def load(self, queue_key, job):
            asked.add(threading.current_thread())
            return super().load(queue_key, job)

    async def check(stands, fetcher):
        return await _reported(fetcher, stands.url(), of("june"))

    run_over(check, sessions=Elsewhere())

    assert asked
    assert threading.main_thread() not in asked
