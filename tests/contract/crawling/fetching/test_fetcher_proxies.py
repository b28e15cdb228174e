"""Leaving through proxies: by which, with which credentials, and what a bad one may do to us."""

import asyncio
import base64
import ssl
from collections import Counter

import pytest

from infra.local.parts import free_port
from tests.contract.hostile_names import Names, RebindingNames
from tests.contract.proxy_site import HERE, proxy
from tests.contract.raw_site import LIMITS, ask, limits, reply, site
from tests.kit.config import ProxyPool, Rotation
from tests.kit.fetching import AiohttpFetcher, FetchContext, ProxyExchange, http_proxies
from tests.kit.kernel import (
    AddressRefusedError,
    ConfigError,
    ConnectFailedError,
    FetchError,
    NoProxyError,
    PageGoneError,
    Problem,
    QueueKey,
    StoreUnavailableError,
)
from tests.kit.tls import write_certificate

USER, PASSWORD = "crawler", "pass-w0rd"
REPORTED = b"Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode())
PUBLIC = "93.184.215.14"
QUEUE_KEY = QueueKey("acme", "docs", "main")


def fetch_context(job=None, **options):
    pool = ProxyPool(secret="proxies", **({"allow_private": True} | options))
    return FetchContext(queue_key=QUEUE_KEY, job=job, pool="europe", proxies=pool)


def fetcher_over(*lines, **options):
    return AiohttpFetcher(
        **({"allow_private": True, "read_secret": lambda _: "\n".join(lines)} | options)
    )


def fetcher_by(read_secret, clock):
    """A fetcher whose lists of proxies grow old by that clock."""
    return fetcher_over(proxies=http_proxies.Proxies(read_secret, ProxyExchange(clock)))


async def error_of(fetcher, url, asked_limits=LIMITS, **options):
    with pytest.raises(FetchError) as caught:
        await fetcher.fetch(ask(url), asked_limits, None, fetch_context(**options))
    return caught.value


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return write_certificate(tmp_path_factory.mktemp("tls") / "site.pem", "a.example")


def serving(certificate):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


# ---- ways --------------------------------------------------------------------------------------


def test_http_pages_come_through_a_proxy_that_asks_who_we_are():
    async def run():
        async with (
            site(reply(b"page")) as stands,
            proxy(REPORTED) as through,
            fetcher_over(through.line(f"{USER}:{PASSWORD}")) as fetcher,
        ):
            page = await fetcher.fetch(ask(stands.url("/a?b")), LIMITS, None, fetch_context())
            return page, stands, through

    page, stands, through = asyncio.run(run())

    assert page.body == b"page"
    assert page.url == stands.url("/a?b")
    assert through.heads[0].startswith(b"GET %s HTTP/1.1\r\n" % stands.url("/a?b").encode())
    assert b"roxy" not in stands.heads[0]


def test_https_pages_come_through_a_tunnel_and_are_verified(certificate):
    async def run():
        async with (
            site(reply(b"page"), ssl=serving(certificate)) as stands,
            proxy(REPORTED) as through,
            fetcher_over(
                through.line(f"{USER}:{PASSWORD}"),
                ssl_context=ssl.create_default_context(cafile=certificate),
            ) as fetcher,
        ):
            there = stands.url(host="a.example", scheme="https")
            page = await fetcher.fetch(ask(there), LIMITS, None, fetch_context())
            other = await error_of(fetcher, stands.url(host="b.example", scheme="https"))
            return page.body, other, stands, through

    body, other, stands, through = asyncio.run(run())

    assert (body, type(other)) == (b"page", ConnectFailedError)
    assert through.heads[0].startswith(b"CONNECT a.example:%d HTTP/1.1" % stands.port)
    assert b"roxy" not in stands.heads[0]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_proxy_itself_may_speak_tls(certificate, scheme):
    async def run():
        options = {"ssl": serving(certificate)} if scheme == "https" else {}
        async with (
            site(reply(b"page"), **options) as stands,
            proxy(REPORTED, ssl=serving(certificate)) as through,
            fetcher_over(
                f"https://{USER}:{PASSWORD}@a.example:{through.port}",
                ssl_context=ssl.create_default_context(cafile=certificate),
                resolver=Names("127.0.0.1"),
            ) as fetcher,
        ):
            there = stands.url(host="a.example", scheme=scheme)
            return (await fetcher.fetch(ask(there), LIMITS, None, fetch_context())).body

    assert asyncio.run(run()) == b"page"


def test_each_hop_of_one_download_takes_the_same_way():
    async def answer(head, writer):
        first = head.split()[1] == b"/a"
        writer.write(reply(status=302, Location="/b") if first else reply(b"end"))

    async def run():
        async with (
            site(answer) as stands,
            proxy() as one,
            proxy() as two,
            fetcher_over(one.line(), two.line()) as fetcher,
        ):
            page = await fetcher.fetch(ask(stands.url("/a")), LIMITS, None, fetch_context())
            return page.body, len(page.redirects), {len(one.heads), len(two.heads)}

    assert asyncio.run(run()) == (b"end", 1, {0, 2})


def test_requests_take_turns_and_jobs_keep_their_proxy():
    async def run():
        async with (
            site(reply()) as stands,
            proxy() as one,
            proxy() as two,
            proxy() as three,
            fetcher_over(one.line(), two.line(), three.line()) as fetcher,
        ):
            proxies = (one, two, three)
            for _ in range(9):
                await fetcher.fetch(ask(stands.url()), LIMITS, None, fetch_context())
            requests = [len(each.heads) for each in proxies]
            used = Counter()
            for job in ("june", "july", "august", "may"):
                before = [len(each.heads) for each in proxies]
                for _ in range(3):
                    ours = fetch_context(job, rotation=Rotation.EACH_JOB)
                    await fetcher.fetch(ask(stands.url()), LIMITS, None, ours)
                grown = [len(e.heads) - b for e, b in zip(proxies, before, strict=True)]
                used[tuple(sorted(grown))] += 1
            return requests, used

    requests, used = asyncio.run(run())

    assert requests == [3, 3, 3]
    assert used == {(0, 0, 3): 4}


# ---- health ------------------------------------------------------------------------------------


def test_a_proxy_that_fails_is_left_out_for_a_while_and_then_tried_again(unused_port):
    now = [0.0]

    async def run():
        async with (
            site(reply()) as stands,
            proxy() as good,
            fetcher_by(
                lambda _: f"http://127.0.0.1:{unused_port}\n{good.line()}", lambda: now[0]
            ) as fetcher,
        ):
            url = stands.url()

            async def failures(times):
                failed = 0
                for _ in range(times):
                    try:
                        await fetcher.fetch(ask(url), LIMITS, None, fetch_context(max_failures=2))
                    except ConnectFailedError:
                        failed += 1
                return failed

            seen = [await failures(10)]
            now[0] = 61.0
            seen.append(await failures(10))
            now[0] = 61.0 + 119.0
            seen.append(await failures(10))
            now[0] = 61.0 + 121.0
            seen.append(await failures(10))
            return seen

    assert asyncio.run(run()) == [2, 1, 0, 1]


def test_where_all_proxies_are_in_cool_down_one_is_used_all_the_same():
    port = free_port()

    async def run():
        dead = f"http://127.0.0.1:{port}"
        async with site(reply(b"page")) as stands, fetcher_over(dead) as fetcher:
            for _ in range(3):
                await error_of(fetcher, stands.url(), max_failures=1)
            async with proxy(port=port):
                return (await fetcher.fetch(ask(stands.url()), LIMITS, None, fetch_context())).body

    assert asyncio.run(run()) == b"page"


def test_a_site_that_fails_is_not_the_proxys_fault(unused_port):
    now, errors = [0.0], []

    async def run():
        async with (
            site(reply(status=404)) as stands,
            proxy() as good,
            fetcher_by(
                lambda _: f"http://127.0.0.1:{unused_port}\n{good.line()}", lambda: now[0]
            ) as fetcher,
        ):
            for now[0] in range(6):
                errors.append(type(await error_of(fetcher, stands.url(), max_failures=1)))

    asyncio.run(run())

    # If the good one rested too, the dead one would be tried again, whose rest is over sooner.
    assert errors == [ConnectFailedError] + [PageGoneError] * 5


def test_a_list_is_read_again_when_the_proxy_refuses_us():
    now, texts = [0.0], []

    async def run():
        async with site(reply(b"page")) as stands, proxy(REPORTED) as through:
            texts.append(through.line("crawler:old"))
            async with fetcher_by(lambda _: texts[-1], lambda: now[0]) as fetcher:
                error = await error_of(fetcher, stands.url())
                texts.append(through.line(f"{USER}:{PASSWORD}"))
                now[0] = http_proxies.AGAIN_SECONDS
                page = await fetcher.fetch(ask(stands.url()), LIMITS, None, fetch_context())
                return error, page.body

    error, body = asyncio.run(run())

    assert (type(error), error.retryable, body) == (ConnectFailedError, True, b"page")


# ---- lists -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "read",
    [
        None,
        lambda _: "",
        lambda _: "nonsense\nftp://a:1\nhttp://\nsocks5://a:1",
        lambda _: 1 / 0,
        lambda name: (_ for _ in ()).throw(ConfigError([Problem(name, f"quotes {PASSWORD}")])),
    ],
    ids=["nobody reads", "empty", "no proxies", "a mistake", "a refusal"],
)
def test_without_a_proxy_nothing_is_sent_at_all(read, caplog):
    async def run():
        async with site(reply()) as stands, fetcher_over(read_secret=read) as fetcher:
            return await error_of(fetcher, stands.url()), stands.connections

    error, connections = asyncio.run(run())

    assert (type(error), error.retryable, connections) == (NoProxyError, True, 0)
    assert error.again_seconds == http_proxies.AGAIN_SECONDS
    assert "'europe'" in str(error)
    assert "the secret 'proxies'" in str(error)
    assert PASSWORD not in f"{caplog.text} {error}"


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (ConfigError([Problem("secret proxies", "there is no such secret")]), "no such secret"),
        (StoreUnavailableError("secretsmanager", "proxies: Timeout"), "does not answer"),
    ],
)
def test_why_a_pool_has_no_proxies_is_reported_with_its_name_and_that_of_the_secret(
    fault, why, caplog
):
    def read(_):
        raise fault

    async def run():
        async with site(reply()) as stands, fetcher_over(read_secret=read) as fetcher:
            return await error_of(fetcher, stands.url())

    error = asyncio.run(run())

    for reported in (str(error), caplog.text):
        assert why in reported
        assert "'europe'" in reported
        assert "'proxies'" in reported


def test_an_empty_list_is_read_again_as_soon_as_one_that_could_not_be_read():
    now, texts = [0.0], [""]

    async def run():
        async with (
            site(reply(b"page")) as stands,
            proxy() as through,
            fetcher_by(lambda _: texts[-1], lambda: now[0]) as fetcher,
        ):
            error = await error_of(fetcher, stands.url())
            texts.append(through.line())
            now[0] = http_proxies.AGAIN_SECONDS
            return error, (
                await fetcher.fetch(ask(stands.url()), LIMITS, None, fetch_context())
            ).body

    error, body = asyncio.run(run())
    assert (type(error), body) == (NoProxyError, b"page")


def test_a_dead_proxy_is_named_without_its_password(unused_port):
    async def run():
        line = f"http://{USER}:{PASSWORD}@127.0.0.1:{unused_port}"
        async with fetcher_over(line) as fetcher:
            return await error_of(fetcher, "http://a.example/")

    error = asyncio.run(run())

    assert f"http://127.0.0.1:{unused_port} " in str(error)
    assert PASSWORD not in str(error)


def test_an_old_list_is_better_than_none():
    now, lists = [0.0], []

    async def run():
        async with site(reply(b"page")) as stands, proxy() as through:
            lists.append(through.line())
            async with fetcher_by(lambda _: lists.pop(), lambda: now[0]) as fetcher:
                for moment in (0.0, 1_000.0, 2_000.0):
                    now[0] = moment
                    page = await fetcher.fetch(ask(stands.url()), LIMITS, None, fetch_context())
                return page.body

    assert asyncio.run(run()) == b"page"


# ---- addresses ---------------------------------------------------------------------------------

PRIVATE = [
    "127.0.0.1",
    "169.254.169.254",
    "10.0.0.1",
    "[::1]",
    "[fd00:ec2::254]",
    "[64:ff9b::a00:1]",
]


@pytest.mark.parametrize("host", PRIVATE)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_target_with_a_private_address_is_refused_before_the_proxy_hears_of_it(host, scheme):
    async def run():
        async with proxy() as through, fetcher_over(through.line(), allow_private=False) as fetcher:
            error = await error_of(fetcher, f"{scheme}://{host}:9/")
            return error, through.connections

    error, connections = asyncio.run(run())

    assert (type(error), connections) == (AddressRefusedError, 0)


@pytest.mark.parametrize("addresses", [["10.0.0.1"], [PUBLIC, "127.0.0.1"], [PUBLIC, "fd00::1"]])
def test_a_target_any_of_whose_addresses_is_private_is_refused(addresses):
    async def run():
        async with (
            proxy() as through,
            fetcher_over(
                through.line(), allow_private=False, resolver=Names(*addresses)
            ) as fetcher,
        ):
            return await error_of(fetcher, "http://a.example/"), through.connections

    error, connections = asyncio.run(run())

    assert (type(error), connections) == (AddressRefusedError, 0)


def test_a_redirect_inside_is_refused_behind_a_proxy_too():
    async def run():
        def only_here(address):
            return address == "127.0.0.1"

        there = "http://169.254.169.254/latest/meta-data/"
        async with (
            site(reply(status=302, Location=there)) as stands,
            proxy() as through,
            fetcher_over(through.line(), allow_private=False, may_connect=only_here) as fetcher,
        ):
            return await error_of(fetcher, stands.url()), len(through.heads)

    error, asked = asyncio.run(run())

    assert (type(error), asked) == (AddressRefusedError, 1)


def test_a_proxy_with_a_private_address_is_used_only_where_its_pool_allows_it():
    async def run():
        async with (
            proxy() as through,
            fetcher_over(through.line(), allow_private=False) as fetcher,
        ):
            error = await error_of(fetcher, f"http://{PUBLIC}/", allow_private=False)
            before = through.connections
            await error_of(fetcher, f"http://{PUBLIC}:9/", limits(total_seconds=0.5))
            return error, before, through.connections

    error, before, after = asyncio.run(run())

    assert (type(error), before) == (ConnectFailedError, 0)
    assert after > 0


#: Stands for a public address of the site; 127.0.0.1 for one inside that must not be reached.
OUTSIDE = "127.0.0.2"


def only_outside(address):
    return address == OUTSIDE


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_is_told_the_address_that_was_judged_whatever_the_name_leads_to_next(
    scheme, certificate
):
    options = {"ssl": serving(certificate)} if scheme == "https" else {}

    async def run():
        names = RebindingNames(OUTSIDE, HERE)
        async with (
            site(reply(b"inside"), **options) as inside,
            site(reply(b"outside"), host=OUTSIDE, port=inside.port, **options) as outside,
            proxy(names=names) as through,
            fetcher_over(
                through.line(),
                allow_private=False,
                may_connect=only_outside,
                resolver=names,
                ssl_context=ssl.create_default_context(cafile=certificate),
            ) as fetcher,
        ):
            there = outside.url("/a?b", host="a.example", scheme=scheme)
            page = await fetcher.fetch(ask(there), LIMITS, None, fetch_context())
            return page, outside, inside.connections, through

    page, outside, inside, through = asyncio.run(run())

    assert (page.body, page.url, inside) == (
        b"outside",
        outside.url("/a?b", host="a.example", scheme=scheme),
        0,
    )
    told = "CONNECT " if scheme == "https" else "GET http://"
    assert through.heads[0].startswith(f"{told}{OUTSIDE}:{outside.port}".encode())
    assert f"\r\nHost: a.example:{outside.port}\r\n".encode() in outside.heads[0]


def test_behind_a_proxy_a_certificate_is_asked_to_be_the_names_and_not_the_addresss(tmp_path):
    of_address = write_certificate(tmp_path / "address.pem", OUTSIDE)

    async def run():
        async with (
            site(reply(b"page"), host=OUTSIDE, ssl=serving(of_address)) as stands,
            proxy(names=Names(OUTSIDE)) as through,
            fetcher_over(
                through.line(),
                allow_private=False,
                may_connect=only_outside,
                resolver=Names(OUTSIDE),
                ssl_context=ssl.create_default_context(cafile=of_address),
            ) as fetcher,
        ):
            return await error_of(fetcher, stands.url(host="a.example", scheme="https"))

    error = asyncio.run(run())

    assert (type(error), "TLS through" in str(error)) == (ConnectFailedError, True)


def test_a_connection_that_was_verified_for_one_name_serves_no_other_at_the_same_address(
    certificate,
):
    async def answer(head, writer):
        writer.write(reply(b"page"))

    async def run():
        async with (
            site(answer, host=OUTSIDE, ssl=serving(certificate)) as stands,
            proxy(names=Names(OUTSIDE)) as through,
            fetcher_over(
                through.line(),
                allow_private=False,
                may_connect=only_outside,
                resolver=Names(OUTSIDE),
                ssl_context=ssl.create_default_context(cafile=certificate),
            ) as fetcher,
        ):
            there = stands.url(host="a.example", scheme="https")
            page = await fetcher.fetch(ask(there), LIMITS, None, fetch_context())
            return page.body, await error_of(fetcher, stands.url(host="b.example", scheme="https"))

    body, error = asyncio.run(run())

    assert (body, type(error)) == (b"page", ConnectFailedError)


def test_where_a_proxy_takes_names_alone_the_target_is_refused_unless_its_pool_lets_it_look_up(
    certificate,
):
    async def run(**pool):
        async with (
            site(reply(b"page"), host=OUTSIDE, ssl=serving(certificate)) as stands,
            proxy(names=Names(OUTSIDE), takes_addresses=False) as through,
            fetcher_over(
                through.line(),
                allow_private=False,
                may_connect=only_outside,
                resolver=Names(OUTSIDE),
                ssl_context=ssl.create_default_context(cafile=certificate),
            ) as fetcher,
        ):
            there = stands.url(host="a.example", scheme="https")
            if not pool:
                return await error_of(fetcher, there), stands.connections
            page = await fetcher.fetch(ask(there), LIMITS, None, fetch_context(**pool))
            return page.body, through.heads[0].split()[1]

    error, connections = asyncio.run(run())
    body, told = asyncio.run(run(resolves_names=True))

    assert (type(error), connections) == (ConnectFailedError, 0)
    assert "answered 403 to CONNECT" in str(error)
    assert "resolves_names of the pool" in str(error)
    assert (body, told.partition(b":")[0]) == (b"page", b"a.example")


def test_a_failed_answer_behind_a_proxy_is_of_the_name_and_not_of_the_address():
    async def run():
        async with (
            site(reply(status=404), host=OUTSIDE) as stands,
            proxy(names=Names(OUTSIDE)) as through,
            fetcher_over(
                through.line(),
                allow_private=False,
                may_connect=only_outside,
                resolver=Names(OUTSIDE),
            ) as fetcher,
        ):
            there = stands.url("/gone", host="a.example")
            return await error_of(fetcher, there), there

    error, there = asyncio.run(run())

    assert (error.answer.url, error.answer.status) == (there, 404)


@pytest.fixture
def unused_port():
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]
