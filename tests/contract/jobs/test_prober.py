"""Ways that are measured, to real sites on loopback: honest, slow, hostile, elsewhere."""

import asyncio
import tracemalloc

import msgspec
import pytest

from tests.contract.raw_site import passing, reply, site
from tests.fakes.bidding import MemoryProber
from tests.kit.bidding import PROBE_BYTES, HttpProber, Probe, limits_of
from tests.kit.config import FetchLimits, ProxyPool
from tests.kit.fetching import FetchContext, http_proxies
from tests.kit.kernel import (
    AddressRefusedError,
    ConnectFailedError,
    FetchError,
    FetchTimeoutError,
    PageGoneError,
    RobotsDeniedError,
    ServerFaultError,
    ThrottledError,
    is_public,
)

LIMITS = limits_of(FetchLimits())
QUICK = msgspec.structs.replace(LIMITS, total_seconds=0.6, first_byte_seconds=0.5)


async def outcome(url, limits=LIMITS, hop_guard=None, fetch_context=None, **options):
    prober = HttpProber(options.pop("allow_private", True), **options)
    given = {} if fetch_context is None else {"fetch_context": fetch_context}
    try:
        return await prober.probe(url, limits, hop_guard, **given)
    except FetchError as error:
        return error


def probe(answer, limits=LIMITS, **options):
    async def run():
        async with site(answer) as stands:
            began = asyncio.get_running_loop().time()
            found = await outcome(stands.url(), limits, **options)
            stands.seconds = asyncio.get_running_loop().time() - began
            return found, stands

    return asyncio.run(run())


def test_an_honest_site_is_measured():
    async def answer(head, writer):
        await passing(0.1)
        writer.write(reply(b"x" * 200_000))
        await writer.drain()

    found, _ = probe(answer)

    assert isinstance(found, Probe)
    assert (0.1 <= found.seconds < 2.0, found.fault) == (True, None)
    assert found.bytes_per_second > 200_000  # a hundred times as much where nobody is in the way


def test_a_slow_network_shows_in_its_speed():
    async def answer(head, writer):
        writer.write(b"HTTP/1.1 200 x\r\nContent-Length: 40000\r\n\r\n")
        for _ in range(10):
            writer.write(b"x" * 4_000)
            await writer.drain()
            await passing(0.05)

    found, _ = probe(answer)

    assert found.seconds < 0.5, "the half second of the body is none of the answer's"
    assert 5_000 < found.bytes_per_second < 120_000


def test_a_page_that_is_too_short_says_nothing_of_speed():
    found, _ = probe(reply(b"short"))

    assert (found.seconds > 0, found.bytes_per_second) == (True, None)


@pytest.mark.parametrize("status", [404, 410, 405])
def test_a_page_that_is_gone_measures_the_link_too(status):
    found, _ = probe(reply(b"x" * 20_000, status=status))

    assert found.seconds is not None
    assert found.bytes_per_second is not None


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, PageGoneError),
        (403, PageGoneError),
        (451, PageGoneError),
        (429, ThrottledError),
        (500, ServerFaultError),
        (503, ThrottledError),
    ],
)
def test_a_site_that_refuses_us_is_no_link(status, kind):
    found, _ = probe(reply(b"x" * 20_000, status=status, Retry_After="7"))

    assert (type(found), found.status) == (kind, status)
    assert getattr(found, "retry_after_seconds", 7) == 7


def test_each_probe_connects_anew():
    async def run():
        async def answer(head, writer):
            writer.write(reply(b"x" * 20))
            await writer.drain()

        async with site(answer) as stands:
            prober = HttpProber(True)
            for _ in range(3):
                await prober.probe(stands.url(), LIMITS)
            return stands.connections

    assert asyncio.run(run()) == 3


def test_a_probe_sends_the_agent_and_headers_of_the_biz_through_the_hop_guard():
    passed = []

    async def hop_guard(url):
        passed.append(url)

    async def run():
        async with site(reply()) as stands:
            limits = limits_of(FetchLimits(user_agent="Mine/1", headers={"X-Key": "k"}))
            await outcome(stands.url("/p"), limits, hop_guard)
            return stands.url("/p"), stands.heads

    url, (head,) = asyncio.run(run())
    assert passed == [url]
    assert head.startswith(b"GET /p HTTP/1.1\r\n")
    assert b"Mine/1" in head
    assert b"X-Key: k" in head


def test_a_hop_guard_that_refuses_prevents_the_connection():
    async def hop_guard(url):
        raise RobotsDeniedError("not here")

    found, stands = probe(reply(), hop_guard=hop_guard)

    assert (type(found), stands.connections) == (RobotsDeniedError, 0)


def test_it_leaves_by_the_bizs_proxies():
    async def run():
        async with site(reply(b"x" * 20_000)) as proxy:
            pool = ProxyPool(secret="list", allow_private=True)
            found = await outcome(
                "http://127.0.0.1:9/there",
                fetch_context=FetchContext(pool="eu", proxies=pool),
                proxies=http_proxies.Proxies(lambda name: proxy.url()),
            )
            return found, proxy.heads

    found, heads = asyncio.run(run())
    assert found.bytes_per_second is not None
    assert heads[0].startswith(b"GET http://127.0.0.1:9/there HTTP/1.1")


# ---- hostile sites


def test_a_site_without_end_is_read_no_further_than_is_needed():
    sent = 0

    async def answer(head, writer):
        nonlocal sent
        writer.write(b"HTTP/1.1 200 x\r\nContent-Length: 9999999999\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            sent += 65_536
            await writer.drain()

    tracemalloc.start()
    found, stands = probe(answer)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert found.bytes_per_second > 100_000
    assert stands.seconds < 5
    assert peak < 12_000_000
    assert sent < 40 * 2**20


def test_a_bomb_is_decoded_by_nobody():
    body = b"\x1f\x8b" + b"\x00" * (PROBE_BYTES + 5_000)

    found, _ = probe(reply(body, Content_Encoding="gzip, gzip, br, junk"))

    assert found.bytes_per_second is not None


def test_a_site_that_drips_is_slow_and_not_waited_for():
    async def answer(head, writer):
        writer.write(b"HTTP/1.1 200 x\r\nContent-Length: 5000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await passing(0.02)

    found, stands = probe(answer, QUICK)

    assert 0 < found.bytes_per_second < 200
    assert stands.seconds < 3


def test_a_site_whose_head_drips_gives_no_answer():
    async def answer(head, writer):
        for letter in b"HTTP/1.1 200 x\r\nX-Long: " + b"y" * 5_000:
            writer.write(bytes([letter]))
            await writer.drain()
            await passing(0.02)

    found, _ = probe(answer, QUICK)

    assert type(found) is FetchTimeoutError


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\x00" * 4_000,
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 999999 x\r\n\r\n",
        b"HTTP/1.1 200 x\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 x\r\nContent-Length: 90000\r\n\r\ncut off",
        b"HTTP/1.1 302 x\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=range(8),
)
def test_garbage_ends_as_an_error_of_ours(said):
    found, _ = probe(said, QUICK)

    assert isinstance(found, FetchError)


def test_nobody_there_is_said_so():
    assert type(asyncio.run(outcome("http://127.0.0.1:1/", QUICK))) is ConnectFailedError


def test_a_private_address_is_refused_and_nobody_connects():
    found, stands = probe(reply(), allow_private=False)

    assert (type(found), stands.connections) == (AddressRefusedError, 0)


@pytest.mark.parametrize(
    "options", [{"may_ask": lambda _: False}, {"is_store": lambda address, port: True}]
)
def test_a_port_that_may_not_be_asked_and_a_store_are_no_test_links(options):
    found, stands = probe(reply(), **options)

    assert (type(found), stands.connections) == (AddressRefusedError, 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "169.254.169.254", "[::ffff:169.254.169.254]"])
def test_a_redirect_to_metadata_is_refused_and_nobody_connects(host):
    async def run():
        async with site(reply()) as inside:
            seen = []

            def may_connect(address):
                seen.append(address)
                return len(seen) == 1 or is_public(address)  # the first hop, whatever it is

            place = f"http://{host}:{inside.port}/latest/meta-data/"
            async with site(reply(status=302, Location=place)) as outside:
                found = await outcome(outside.url(), allow_private=False, may_connect=may_connect)
            return found, inside.connections, outside.connections

    found, inside, outside = asyncio.run(run())

    assert (type(found), inside, outside) == (AddressRefusedError, 0, 1)


def test_redirects_count_into_the_first_byte_and_end_somewhere():
    async def answer(head, writer):
        await passing(0.05)
        hops = int(head.split()[1].strip(b"/") or 0)
        there = {"Location": f"/{hops - 1}"} if hops else {}
        writer.write(reply(b"x", status=302 if hops else 200, **there))
        await writer.drain()

    async def run(hops):
        async with site(answer) as stands:
            return await outcome(stands.url(f"/{hops}"))

    assert asyncio.run(run(3)).seconds >= 0.2
    assert isinstance(asyncio.run(run(9)), FetchError)


# ---- the fake


def test_the_fake_returns_what_it_was_given():
    way = Probe(at=None, seconds=0.1)
    twin = MemoryProber({"http://a/": way, "http://b/": ConnectFailedError("no")})
    passed = []

    async def hop_guard(url):
        passed.append(url)

    assert asyncio.run(twin.probe("http://a/", LIMITS, hop_guard)) is way
    with pytest.raises(ConnectFailedError):
        asyncio.run(twin.probe("http://b/", LIMITS))
    assert (passed, [url for url, _, _ in twin.asked]) == (
        ["http://a/"],
        ["http://a/", "http://b/"],
    )
