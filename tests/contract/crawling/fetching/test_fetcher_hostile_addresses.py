"""Every way we know of to write, to name and to lead to an address that is nobody's website."""

import asyncio

import pytest

from tests.contract.hostile_names import Names, RebindingNames
from tests.contract.raw_site import LIMITS, ask, limits, outcome, passing, reply, site
from tests.kit.fetching import AiohttpFetcher
from tests.kit.fetching import CachedResolver as Cached
from tests.kit.kernel import (
    AddressRefusedError,
    FetchError,
    PageGoneError,
    TooLargeError,
    is_public,
)

#: Spelled canonically: the socket refuses them.
PRIVATE = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "100.127.255.254",
    "127.0.0.1",
    "127.1.2.3",
    "168.63.129.16",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "[::]",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::127.0.0.1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:a9fe:a9fe]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b::169.254.169.254]",
    "[64:ff9b:1::1]",
    "[100::1]",
    "[2001::1]",
    "[2001:db8::1]",
    "[2002:7f00:1::]",
    "[2002:a9fe:a9fe::]",
    "[3fff::1]",
    "[5f00::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[fe80::1]",
    "[fec0::1]",
    "[ff02::1]",
]

#: Odd spellings of loopback and metadata, and what libraries have been known to take for them.
ODD = [
    "2130706433",
    "0x7f000001",
    "0X7F000001",
    "017700000001",
    "0177.0.0.1",
    "0x7f.0.0.1",
    "0x7f.1",
    "127.1",
    "127.0.1",
    "127.00.00.01",
    "0",
    "0x0",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "127.0.0.1.",
    "1.2.3.4.5",
    "256.0.0.1",
    "[::1%25lo]",
    "[fe80::1%25eth0]",
    "[::1%lo]",
    "[127.0.0.1]",
    "[v1.fe80::1]",
    "127\u30020\u30020\u30021",
    "\uff11\uff12\uff17.0.0.1",
    "\u2460\u2461\u2466.0.0.1",
    "\u217169.254.169.254",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "127.0.0.1%00.example",
    "127.0.0.1%23@example",
    "a@127.0.0.1",
    "a.example@127.0.0.1",
    "a.example#@127.0.0.1",
    "a.example\\@127.0.0.1",
    "a.example%2f@127.0.0.1",
]


def _only_here(address):
    """Stands in for a public address: the one that the test's site listens on."""
    return address == "127.0.0.1"


def _settled(error):
    assert isinstance(error, FetchError)
    assert isinstance(error, AddressRefusedError | PageGoneError), error
    assert not error.retryable


@pytest.mark.parametrize("host", PRIVATE)
def test_a_private_address_is_refused(host):
    async def run():
        async with site(reply()) as stands:
            return await outcome(stands.url(host=host), allow_private=False), stands.connections

    error, connections = asyncio.run(run())

    assert (type(error), connections) == (AddressRefusedError, 0)


@pytest.mark.parametrize("host", PRIVATE)
def test_a_redirect_to_a_private_address_is_refused(host):
    seen = []

    def asked_first(address):
        seen.append(address)
        return len(seen) == 1 or is_public(address)  # the first hop is allowed, whatever it is

    async def run():
        async with site(reply(status=302, Location=f"http://{host}:9/latest/")) as stands:
            return await outcome(stands.url(), allow_private=False, may_connect=asked_first)

    _settled(asyncio.run(run()))
    assert len(seen) == 2


@pytest.mark.parametrize("host", ODD, ids=ascii)
def test_an_odd_spelling_leads_nowhere_private(host):
    async def run():
        async with site(reply()) as stands:
            url = f"http://{host}:{stands.port}/"
            names = Names("127.0.0.1", "::1")  # as bad as a name server can be
            return await outcome(url, allow_private=False, resolver=names), stands.connections

    error, connections = asyncio.run(run())

    _settled(error)
    assert connections == 0


@pytest.mark.parametrize("host", ODD, ids=ascii)
def test_a_redirect_to_an_odd_spelling_leads_nowhere_private(host):
    async def run():
        async with site(reply()) as inside:
            place = f"http://{host}:{inside.port}/".encode()
            said = b"HTTP/1.1 302 x\r\nLocation: " + place + b"\r\nContent-Length: 0\r\n\r\n"
            first = []

            def may_connect(address):
                first.append(address)
                return len(first) == 1 or is_public(address)

            async with site(said) as outside:
                error = await outcome(
                    outside.url(),
                    allow_private=False,
                    may_connect=may_connect,
                    resolver=Names("127.0.0.1", "::1"),
                )
            return error, inside.connections

    error, connections = asyncio.run(run())

    _settled(error)
    assert connections == 0


@pytest.mark.parametrize(
    "place",
    [
        "file:///etc/passwd",
        "file://127.0.0.1/etc/passwd",
        "ftp://127.0.0.1/",
        "gopher://127.0.0.1:6379/_FLUSHALL",
        "dict://127.0.0.1:11211/stats",
        "ldap://127.0.0.1/",
        "data:text/html,<h1>x</h1>",
        "javascript:alert(1)",
        "jar:http://127.0.0.1!/",
        "netdoc:///etc/passwd",
        "unix:/var/run/docker.sock",
        "ws://127.0.0.1/",
        "//[::1]/",
        "/\\127.0.0.1/",
        "http:/127.0.0.1/",
        "http:127.0.0.1",
        "\x00http://127.0.0.1/",
        "http://127.0.0.1\x00.example/",
        "http://a.example\t@127.0.0.1/",
    ],
    ids=ascii,
)
def test_a_redirect_to_what_is_no_page_is_refused_and_nothing_is_sent(place):
    async def run():
        async def answer(head, writer):
            here = head.split()[1] == b"/"
            writer.write(reply(status=307, Location=place) if here else reply(status=404))

        async with site(answer) as stands:
            options = {"may_connect": _only_here, "allow_private": False}
            return await outcome(stands.url(), **options), len(stands.heads)

    error, asked = asyncio.run(run())

    assert isinstance(error, FetchError)
    assert asked <= 2, "at most a path of the same site was asked for"


# ---- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", [each.strip("[]") for each in PRIVATE])
def test_a_name_that_leads_to_a_private_address_is_refused(address):
    error = asyncio.run(
        outcome("http://a.example:9/", allow_private=False, resolver=Names(address))
    )

    assert type(error) is AddressRefusedError
    assert address not in str(error)


def test_a_name_that_is_public_when_it_is_checked_and_private_when_it_is_used_is_refused():
    """There is no moment in between: the address that is checked is the socket's."""

    async def run():
        names = RebindingNames("93.184.215.14", "127.0.0.1")
        judged, connected = [], []

        def may_connect(address):
            judged.append(address)
            return is_public(address) and connected.append(address) is not None

        async with (
            site(reply()) as stands,
            AiohttpFetcher(
                False, resolver=names, may_connect=may_connect, name_seconds=0.0
            ) as fetcher,
        ):
            for _ in range(6):
                with pytest.raises(FetchError):
                    await fetcher.fetch(
                        ask(stands.url(host="rebinds.example")), limits(connect_seconds=0.2)
                    )
            return judged, stands.connections

    judged, connections = asyncio.run(run())

    assert set(judged) == {"93.184.215.14", "127.0.0.1"}
    assert connections == 0


def test_one_name_is_asked_for_once_for_all_who_want_it_and_again_when_it_is_old():
    async def run():
        names = RebindingNames("127.0.0.1", "127.0.0.2")
        cached = Cached(names, fresh_seconds=0.2)
        found = await asyncio.gather(*(cached.resolve("a.example", 80) for _ in range(50)))
        once = names.asked
        async with asyncio.timeout(60):
            while (await cached.resolve("a.example", 80))[0]["host"] == "127.0.0.1":
                await passing(0.01)
        await cached.close()
        return {place["host"] for each in found for place in each}, once, names.asked

    assert asyncio.run(run()) == ({"127.0.0.1"}, 1, 2)


def test_names_are_not_remembered_without_bound():
    async def run():
        names = RebindingNames("127.0.0.1")
        cached = Cached(names, hosts=10)
        for number in range(100):
            await cached.resolve(f"h{number}.example", 80)
        for number in range(99, 89, -1):
            await cached.resolve(f"h{number}.example", 80)
        known = names.asked
        await cached.resolve("h89.example", 80)
        await cached.close()
        return known, names.asked

    assert asyncio.run(run()) == (100, 101)


@pytest.mark.parametrize("failure", [OSError("no such host"), UnicodeError("label too long")])
def test_a_name_that_cannot_be_looked_up_is_a_failure_to_connect(failure):
    class Failing(Names):
        asked = 0

        async def resolve(self, host, port=0, family=0):
            self.asked += 1
            raise failure

    async def run():
        names = Failing()
        async with AiohttpFetcher(allow_private=False, resolver=names) as fetcher:
            for _ in range(3):
                with pytest.raises(FetchError) as caught:
                    await fetcher.fetch(ask("http://a.example/"), LIMITS)
                assert caught.value.retryable
        return names.asked

    assert asyncio.run(run()) == 1, "a failure is remembered for a moment, too"


# ---- chains ------------------------------------------------------------------------------------


def test_a_chain_over_many_hosts_ends_at_the_limit():
    async def run():
        async def answer(head, writer):
            number = int(head.split()[1][1:] or 0) + 1
            place = f"http://h{number}.example:{port}/{number}"
            writer.write(reply(status=302, Location=place))

        async with site(answer) as stands:
            port = stands.port
            there = stands.url("/0", host="h0.example")
            options = {"resolver": Names("127.0.0.1")}
            return await outcome(there, limits(max_redirects=20), **options), len(stands.heads)

    error, asked = asyncio.run(run())

    assert (type(error), asked) == (TooLargeError, 21)


def test_a_chain_between_two_hosts_that_never_ends_does():
    async def run():
        async def answer(head, writer):
            other = "b" if b"Host: a.example" in head else "a"
            place = f"http://{other}.example:{port}/"
            writer.write(reply(status=307, Location=place, Set_Cookie="n=1; Path=/"))

        async with site(answer) as stands:
            port = stands.port
            there = stands.url(host="a.example")
            return await outcome(there, resolver=Names("127.0.0.1"))

    assert type(asyncio.run(run())) is TooLargeError
