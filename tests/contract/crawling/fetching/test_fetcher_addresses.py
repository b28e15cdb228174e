"""Tests of the fetcher's address checks, name resolution and certificate verification."""

import asyncio
import ssl

import pytest

from tests.contract.hostile_names import Names, SilentNames
from tests.contract.raw_site import LIMITS, ask, fetch_from, limits, outcome, reply, site
from tests.kit.fetching import AiohttpFetcher
from tests.kit.kernel import (
    AddressRefusedError,
    ConnectFailedError,
    FetchTimeoutError,
    PageGoneError,
    is_public,
)
from tests.kit.requests import Page
from tests.kit.tls import write_certificate
from tests.kit.worlds.worker import until

# ---- addresses -------------------------------------------------------------------------------


def _only_here(address):
    """Stands in for a public address: the one that the test's site listens on."""
    return address == "127.0.0.1" or is_public(address)


INSIDE = [
    "127.0.0.1",
    "[::1]",
    "localhost",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "169.254.169.254",
    "[fd00:ec2::254]",
    "10.0.0.1",
    "0.0.0.0",
    "[::]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
]


@pytest.mark.parametrize("host", INSIDE)
def test_host_inside_is_refused_without_a_connection(host):
    async def run():
        async with site(reply()) as stands:
            error = await outcome(stands.url(host=host), allow_private=False)
            return error, stands.connections

    error, connections = asyncio.run(run())

    assert (type(error), error.retryable, connections) == (AddressRefusedError, False, 0)


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["127.0.0.1", "127.0.0.2"],
        ["::1", "127.0.0.1", "10.0.0.1", "fe80::1"],
        ["::ffff:127.0.0.1"],
        ["169.254.169.254"],
    ],
    ids=str,
)
def test_name_that_leads_inside_is_refused_by_where_it_leads(addresses):
    async def run():
        async with site(reply()) as stands:
            url = stands.url(host="harmless.example")
            error = await outcome(url, allow_private=False, resolver=Names(*addresses))
            return error, stands.connections

    error, connections = asyncio.run(run())

    assert (type(error), connections) == (AddressRefusedError, 0)
    assert not any(address in str(error) for address in addresses)


def test_name_that_changes_its_mind_is_refused():
    async def run():
        names = Names("127.0.0.1")
        async with site(reply()) as stands:
            options = {"may_connect": _only_here, "resolver": names, "name_seconds": 0.0}
            async with AiohttpFetcher(allow_private=False, **options) as fetcher:
                url = stands.url(host="rebinds.example")
                first = await fetcher.fetch(ask(url), LIMITS)
                names.addresses = ("127.0.0.2",)
                with pytest.raises(AddressRefusedError, match="allow_private_addresses"):
                    await fetcher.fetch(ask(url), LIMITS)
                return first.status

    assert asyncio.run(run()) == 200


def test_public_address_beside_a_refused_one_is_used():
    async def run():
        async with site(reply(b"here")) as stands:
            names = Names("10.0.0.1", "127.0.0.1", "fd00::1")
            url = stands.url(host="both.example")
            return await outcome(url, allow_private=False, may_connect=_only_here, resolver=names)

    assert asyncio.run(run()).body == b"here"


@pytest.mark.parametrize(
    "place", ["http://127.0.0.2/", "http://169.254.169.254/latest/", "//[::1]/"]
)
def test_redirect_inside_is_refused(place):
    answer = reply(status=302, Location=place)

    error = fetch_from(answer, allow_private=False, may_connect=_only_here)

    assert type(error) is AddressRefusedError


def test_redirect_by_name_inside_is_refused():
    async def run():
        async with site(reply(status=302, Location="http://inside.example/")) as stands:
            options = {"may_connect": _only_here, "resolver": Names("127.0.0.3")}
            return await outcome(stands.url(), allow_private=False, **options)

    assert type(asyncio.run(run())) is AddressRefusedError


@pytest.mark.parametrize("host", ["2130706434", "0x7f000002", "0177.0.0.2", "127.2"])
def test_redirect_inside_in_an_odd_spelling_is_refused(host):
    async def run():
        async with site(reply(status=302, Location=f"http://{host}/")) as stands:
            options = {"may_connect": _only_here, "resolver": Names("127.0.0.2")}
            return await outcome(stands.url(), allow_private=False, **options)

    error = asyncio.run(run())

    assert isinstance(error, AddressRefusedError | PageGoneError)  # by the socket, or by aiohttp
    assert error.status == 0


def test_name_server_that_says_nothing_is_given_up_on():
    error = asyncio.run(
        outcome("http://a.example/", limits(connect_seconds=0.2), resolver=SilentNames())
    )

    assert type(error) is FetchTimeoutError


# ---- TLS -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return write_certificate(tmp_path_factory.mktemp("tls") / "site.pem", "a.example")


@pytest.mark.parametrize(
    ("host", "trusted", "expected"),
    [
        ("a.example", True, Page),
        ("b.example", True, ConnectFailedError),
        ("a.example", False, ConnectFailedError),
    ],
    ids=["trusted", "of another name", "vouching for itself"],
)
def test_certificate_is_verified(certificate, host, trusted, expected):
    async def run():
        served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        served.load_cert_chain(certificate)
        ours = ssl.create_default_context(cafile=certificate) if trusted else None
        async with site(reply(), ssl=served) as stands:
            url = stands.url(host=host, scheme="https")
            return await outcome(url, resolver=Names("127.0.0.1"), ssl_context=ours)

    assert type(asyncio.run(run())) is expected


def test_plain_http_where_tls_is_expected_cannot_be_connected_to():
    async def run():
        async with site(reply()) as stands:
            return await outcome(stands.url(scheme="https"), limits(total_seconds=0.3))

    assert isinstance(asyncio.run(run()), ConnectFailedError | FetchTimeoutError)


# ---- the check, switched on while downloads run ----------------------------------------------


async def _answering(_head, writer):
    writer.write(reply(b"a page"))
    await writer.drain()


def test_once_addresses_are_checked_no_connection_from_before_is_used():
    allowed = [True]

    async def run():
        async with (
            site(_answering) as stands,
            AiohttpFetcher(lambda: allowed[0]) as fetcher,
        ):
            page = await fetcher.fetch(ask(stands.url("/before")), LIMITS)
            allowed[0] = False
            with pytest.raises(AddressRefusedError, match="allow_private_addresses"):
                await fetcher.fetch(ask(stands.url("/after")), LIMITS)
            allowed[0] = True
            again = await fetcher.fetch(ask(stands.url("/again")), LIMITS)
            return page, again, stands.heads, stands.connections

    page, again, heads, connections = asyncio.run(run())

    assert page.body == again.body == b"a page"
    assert [head.split()[1] for head in heads] == [b"/before", b"/again"]
    assert connections == 2


def test_a_page_on_its_way_when_addresses_come_to_be_checked_is_not_kept():
    allowed, begun = [True], []

    async def half(_head, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha")
        await writer.drain()
        begun.append(writer)

    async def run():
        async with site(half) as stands, AiohttpFetcher(lambda: allowed[0]) as fetcher:
            download = asyncio.create_task(fetcher.fetch(ask(stands.url()), LIMITS))
            await until(lambda: bool(begun))
            allowed[0] = False
            begun[0].write(b"lf")
            await begun[0].drain()
            with pytest.raises(ConnectFailedError, match="check of addresses") as caught:
                await download
            return caught.value.retryable

    assert asyncio.run(run()) is True
