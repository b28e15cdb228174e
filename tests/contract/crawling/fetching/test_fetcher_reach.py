"""The reach of downloads: whom each hop asked, allowed ports, and stores that are no pages."""

import asyncio
import socket

import pytest

from infra.local.parts import free_port
from tests.contract.hostile_names import Names
from tests.contract.proxy_site import HERE, proxy
from tests.contract.raw_site import LIMITS, ask, outcome, reply, site
from tests.kit.config import ProxyPool, Stage
from tests.kit.fetching import AiohttpFetcher, FetchContext, StoreAddresses
from tests.kit.kernel import AddressRefusedError, ConnectFailedError, QueueKey, ServerFaultError
from tests.waiting import eventually

OUTSIDE = "127.0.0.2"
QUEUE_KEY = QueueKey("acme", "docs", "main")


def only_outside(address):
    return address == OUTSIDE


def through(line, **options):
    """A fetcher that leaves by that proxy."""
    return AiohttpFetcher(**({"read_secret": lambda _: line, "allow_private": True} | options))


def context(**options):
    pool = ProxyPool(secret="proxies", **({"allow_private": True} | options))
    return FetchContext(queue_key=QUEUE_KEY, pool="europe", proxies=pool)


# ---- the addresses that were asked --------------------------------------------------------------


def test_a_page_has_the_address_that_was_asked_at_each_hop():
    async def run():
        async with site(reply(b"page"), host=OUTSIDE) as there:
            moved = reply(status=302, Location=there.url(host=OUTSIDE))
            async with site(moved) as first:
                return await outcome(first.url())

    assert asyncio.run(run()).peers == (HERE, OUTSIDE)


def test_a_failed_download_has_the_addresses_too_also_of_one_that_never_answered():
    async def hang_up(_, writer):
        writer.close()

    async def run():
        async with site(hang_up, host=OUTSIDE) as there:
            moved = reply(status=302, Location=there.url(host=OUTSIDE))
            async with site(moved) as first:
                return await outcome(first.url())

    error = asyncio.run(run())

    assert (type(error), error.peers) == (ServerFaultError, (HERE, OUTSIDE))


def test_an_address_that_nobody_listens_at_was_not_asked():
    error = asyncio.run(outcome(f"http://127.0.0.1:{free_port()}/"))

    assert (type(error), error.peers) == (ConnectFailedError, ())


@pytest.mark.parametrize("resolves_names", [False, True])
def test_behind_a_proxy_the_address_is_the_one_that_it_was_told_where_it_was_told_one(
    resolves_names,
):
    async def run():
        names = Names(OUTSIDE)
        options = {"allow_private": False, "may_connect": only_outside, "resolver": names}
        async with (
            site(reply(b"page"), host=OUTSIDE) as stands,
            proxy(names=names) as by,
            through(by.line(), **options) as fetcher,
        ):
            asked = ask(stands.url(host="a.example"))
            return await fetcher.fetch(asked, LIMITS, None, context(resolves_names=resolves_names))

    assert asyncio.run(run()).peers == ("proxy" if resolves_names else OUTSIDE,)


# ---- ports --------------------------------------------------------------------------------------


def asked_at(stage, url_of=lambda stands: stands.url()):
    async def run():
        async with site(reply(b"page")) as stands:
            end = await outcome(url_of(stands), may_ask=stage.may_ask)
            return end, stands.connections

    return asyncio.run(run())


def test_a_port_that_the_stage_does_not_name_is_refused_without_a_connection():
    error, connections = asked_at(Stage(ports=(80, 443), allow_private_addresses=True))

    assert (type(error), error.retryable, connections) == (AddressRefusedError, False, 0)
    assert "(ports of the stage)" in str(error)


def test_a_redirect_to_a_port_that_the_stage_does_not_name_is_refused():
    async def run():
        async with (
            site(reply(b"page")) as inside,
            site(reply(status=302, Location=inside.url())) as first,
        ):
            error = await outcome(first.url(), may_ask=Stage(ports=(first.port,)).may_ask)
            return error, first.connections, inside.connections

    error, first, inside = asyncio.run(run())

    assert (type(error), first, inside) == (AddressRefusedError, 1, 0)


def test_the_port_of_a_proxy_is_no_port_of_a_site():
    async def run():
        async with (
            site(reply(b"page")) as stands,
            proxy() as by,
            through(by.line(), may_ask=Stage(ports=(stands.port,)).may_ask) as fetcher,
        ):
            return await fetcher.fetch(ask(stands.url()), LIMITS, None, context())

    assert asyncio.run(run()).body == b"page"


@pytest.mark.parametrize(
    ("stage", "port", "may"),
    [
        (Stage(), 80, True),
        (Stage(), 8443, True),
        (Stage(), 6379, False),
        (Stage(), 22, False),
        (Stage(allow_private_addresses=True), 22, True),
        (Stage(allow_private_addresses=True, ports=(443,)), 80, False),
    ],
)
def test_unset_the_usual_ports_are_allowed_and_all_where_private_addresses_are(stage, port, may):
    assert stage.may_ask(port) is may


# ---- stores -------------------------------------------------------------------------------------


def stores_at(*places, **options):
    stores = StoreAddresses(lambda: places, **options)
    stores.renew()
    return stores


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"])
def test_a_store_on_this_machine_is_no_page_even_where_private_addresses_are_allowed(host):
    async def run():
        async with site(reply(b"+PONG")) as store, site(reply(b"page")) as beside:
            stores = stores_at(("127.0.0.1", store.port))
            refused = await outcome(store.url(host=host), is_store=stores.has)
            page = await outcome(beside.url(), is_store=stores.has)
            return refused, store.connections, page

    refused, connections, page = asyncio.run(run())

    assert (type(refused), connections, page.body) == (AddressRefusedError, 0, b"page")
    assert "a store of the platform" in str(refused)


def test_a_proxy_is_not_sent_to_a_store_and_may_know_hosts_that_we_do_not():
    async def run():
        async with site(reply(b"+PONG")) as store, site(reply(b"page")) as stands:
            stores = stores_at(("127.0.0.1", store.port))
            async with (
                proxy(names=Names(HERE)) as by,
                through(by.line(), is_store=stores.has) as fetcher,
            ):
                with pytest.raises(AddressRefusedError):
                    await fetcher.fetch(ask(store.url()), LIMITS, None, context())
                known_there = stands.url(host="only-there.invalid")
                page = await fetcher.fetch(ask(known_there), LIMITS, None, context())
                return store.connections, page.body

    assert asyncio.run(run()) == (0, b"page")


def looks_up(known):
    """A look-up that knows these names; their addresses, or the error."""

    def look_up(host, port, _):
        if isinstance(found := known[host], Exception):
            raise found
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (each, port)) for each in found]

    return look_up


def test_a_public_address_of_a_store_is_refused_at_every_port_and_in_every_spelling():
    stores = stores_at(("db.example", 27017), look_up=looks_up({"db.example": ["93.184.215.14"]}))

    assert stores.has("93.184.215.14", 27017)
    assert stores.has("93.184.215.14", 443)
    assert stores.has("::ffff:93.184.215.14", 443)
    assert not stores.has("93.184.215.15", 27017)


def test_a_stores_address_is_looked_up_again_and_stays_while_the_name_server_is_silent():
    known = {"db.example": ["93.184.215.14"]}
    stores = stores_at(("db.example", 27017), look_up=looks_up(known), fresh_seconds=0.0)

    known["db.example"] = OSError("no name server answers")
    stores.renew()
    assert stores.has("93.184.215.14", 443)

    known["db.example"] = ["93.184.215.99"]
    eventually(lambda: stores.has("93.184.215.99", 443))
    eventually(lambda: not stores.has("93.184.215.14", 443))
