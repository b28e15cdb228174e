"""The fetcher's contract, over the real one and its fake, then what only the real one can show."""

import asyncio
import gzip
import zlib

import msgspec
import pytest

from tests.contract.raw_site import LIMITS, ask, fetch_from, limits, reply, site
from tests.fakes.fetching import MemoryFetcher
from tests.kit.fetching import CODINGS, AiohttpFetcher, FetchContext, HostSlots
from tests.kit.kernel import (
    FetchTimeoutError,
    LeaseLostError,
    PageGoneError,
    QueueKey,
    ServerFaultError,
    ThrottledError,
    TooLargeError,
)
from tests.kit.requests import Page

# ---- both ------------------------------------------------------------------------------------


async def _real(check):
    async def answer(head, writer):
        target = head.split()[1]
        known = {b"/page": reply(b"hello"), b"/page?x=1&q=a+b": reply(b"with params")}
        writer.write(known.get(target, reply(status=404)))

    async with site(answer) as stands, AiohttpFetcher(allow_private=True) as fetcher:
        await check(fetcher, stands.url)


async def _twin(check):
    answers = {
        "http://a.example/page": b"hello",
        "http://a.example/page?x=1&q=a+b": b"with params",
    }
    async with MemoryFetcher(answers) as fetcher:
        await check(fetcher, lambda path: f"http://a.example{path}")


@pytest.fixture(params=[_real, _twin], ids=["real", "memory"])
def over(request):
    """Runs a check over a fetcher that knows ``/page`` and ``/page?x=1&q=a+b``."""
    return lambda check: asyncio.run(request.param(check))


def test_page_is_fetched(over):
    async def check(fetcher, url):
        page = await fetcher.fetch(ask(url("/page")), LIMITS)

        assert (page.status, page.body, page.url) == (200, b"hello", url("/page"))
        assert page.redirects == ()

    over(check)


def test_params_join_those_of_the_url(over):
    async def check(fetcher, url):
        page = await fetcher.fetch(ask(url("/page?x=1"), params={"q": "a b"}), LIMITS)

        assert page.body == b"with params"

    over(check)


def test_a_request_that_is_anothers_when_its_turn_comes_is_not_asked_for(over):
    """Its worker has waited for the host for so long that it was taken for dead."""

    async def lost(url):
        raise LeaseLostError("another worker owns it")

    async def free(url):
        return None

    async def check(fetcher, url):
        with pytest.raises(LeaseLostError):
            await fetcher.fetch(ask(url("/page")), LIMITS, lost)

        one = msgspec.structs.replace(LIMITS, per_host=1)
        with pytest.raises(LeaseLostError):
            await fetcher.fetch(ask(url("/page")), one, lost)
        assert (await fetcher.fetch(ask(url("/page")), one, free)).status == 200, "the slot is free"

    over(check)


def test_unknown_page_is_gone(over):
    async def check(fetcher, url):
        with pytest.raises(PageGoneError) as caught:
            await fetcher.fetch(ask(url("/nothing")), LIMITS)

        assert caught.value.status == 404

    over(check)


def test_body_beyond_the_limit_is_too_large(over):
    async def check(fetcher, url):
        assert await fetcher.fetch(ask(url("/page")), limits(max_body_bytes=5))
        with pytest.raises(TooLargeError, match=r"\(fetch.max_body_bytes\)"):
            await fetcher.fetch(ask(url("/page")), limits(max_body_bytes=4))

    over(check)


@pytest.mark.parametrize(
    "fields",
    [
        {"url": "ftp://a.example/"},
        {"url": "http://user:secret@a.example/"},
        {"url": "http://2130706433/"},
        {"method": "CONNECT"},
        {"method": "GET / HTTP/1.1\r\nX: y"},
        {"headers": {"X-A": "1\r\nX-B: 2"}},
        {"headers": {"X-A\r\nX-B": "1"}},
        {"headers": {"Host": "a\r\nX-B: 2"}},
        {"body": "\ud800"},
        {"params": {"q": "\ud800"}},
    ],
    ids=str,
)
def test_request_that_nobody_may_send_is_refused_before_it_leaves(over, fields):
    async def check(fetcher, url):
        with pytest.raises(PageGoneError):
            await fetcher.fetch(ask(**({"url": url("/page"), "method": "POST"} | fields)), LIMITS)

    over(check)


def test_the_fake_serves_pages_and_errors_and_lists_requests():
    page = Page(url="http://b.example/", status=203, headers={"a": "b"}, body=b"", redirects=("x",))
    answers = {"http://a.example/": page, "http://b.example/": ServerFaultError("no", status=500)}

    async def run():
        async with MemoryFetcher(answers) as fetcher:
            assert await fetcher.fetch(ask("http://a.example/"), LIMITS) == page
            with pytest.raises(TooLargeError):
                await fetcher.fetch(ask("http://a.example/"), limits(max_redirects=0))
            with pytest.raises(ServerFaultError):
                await fetcher.fetch(ask("http://b.example/"), LIMITS)
            return [body.url for body in fetcher.asked]

    assert asyncio.run(run()) == ["http://a.example/", "http://a.example/", "http://b.example/"]


# ---- what is sent ----------------------------------------------------------------------------


def _sent(asked_limits=LIMITS, path="/", **fields):
    """The head of the request that a site sees, as a list of lines."""

    async def run():
        async with site(reply()) as stands, AiohttpFetcher(allow_private=True) as fetcher:
            await fetcher.fetch(ask(stands.url(path), **fields), asked_limits)
            return stands.heads[0].decode().rstrip("\r\n").split("\r\n")

    return asyncio.run(run())


def test_headers_of_the_request_go_over_those_of_the_biz():
    biz = limits(user_agent="Bot/1", headers={"X-A": "biz", "X-B": "biz"})

    sent = _sent(biz, headers={"x-a": "request", "X-C": "request"})

    assert {"x-a: request", "X-B: biz", "X-C: request", "User-Agent: Bot/1"} <= set(sent)
    assert not any(line.startswith("X-A") for line in sent)


def test_headers_of_the_connection_are_not_the_tenants_to_set():
    given = {
        "Host": "other.example",
        "content-length": "999",
        "Transfer-Encoding": "chunked",
        "Connection": "close, X-Secret",
        "Expect": "100-continue",
        "Upgrade": "h2c",
        "Proxy-Authorization": "Basic eA==",
        "TE": "trailers",
    }

    sent = " ".join(_sent(headers=given, method="POST", body="ab")).lower()

    assert "content-length: 2" in sent
    for word in ("other.example", "999", "chunked", "x-secret", "100-", "h2c", "basic", "trailers"):
        assert word not in sent


def test_encoded_url_is_sent_to_the_letter():
    path = "/%7Ea/%2F/../b;c?x=%2F%3D+%20&&y=[1]&z"

    assert _sent(path=path)[0] == f"GET {path} HTTP/1.1"


def test_unencoded_url_is_encoded_once():
    assert (
        _sent(path="/ö b/%20?q=ü%&r=a%2Fb")[0] == "GET /%C3%B6%20b/%20?q=%C3%BC%25&r=a/b HTTP/1.1"
    )


def test_params_are_plain_text():
    assert (
        _sent(path="/?a=%2F", params={"q": "%2F&ü"})[0] == "GET /?a=%2F&q=%252F%26%C3%BC HTTP/1.1"
    )


def test_fragment_stays_at_home():
    assert _sent(path="/a#b")[0] == "GET /a HTTP/1.1"


def test_long_body_is_posted_whole():
    seen = []

    async def run():
        async def read(reader, writer):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split()[0])
            seen.append(await reader.readexactly(length))
            writer.write(reply())
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(read, "127.0.0.1", 0)
        async with server, AiohttpFetcher(allow_private=True) as fetcher:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            await fetcher.fetch(ask(url, method="POST", body="ü" * 1_000_000), LIMITS)

    asyncio.run(run())

    assert seen == ["ü".encode() * 1_000_000]


def test_cookies_are_not_kept_between_requests():
    async def run():
        async with site(reply(Set_Cookie="a=b")) as stands, AiohttpFetcher(True) as fetcher:
            await fetcher.fetch(ask(stands.url()), LIMITS)
            await fetcher.fetch(ask(stands.url()), LIMITS)
            return stands.heads

    assert not any(b"ookie" in head for head in asyncio.run(run()))


def test_host_gets_no_more_connections_than_the_biz_allows():
    async def run():
        under_way, most = 0, 0
        turn = asyncio.Event()

        async def answer(_, writer):
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            if under_way == 3:
                turn.set()
            await turn.wait()
            under_way -= 1
            writer.write(reply())

        slots = HostSlots()
        async with (
            site(answer) as stands,
            AiohttpFetcher(allow_private=True, slots=slots) as fetcher,
        ):
            three = limits(per_host=3)
            waiting = [fetcher.fetch(ask(stands.url(f"/{n}")), three) for n in range(12)]
            pages = await asyncio.gather(*waiting)
            return len(pages), most, len(slots)

    assert asyncio.run(run()) == (12, 3, 0)


def test_the_downloads_of_one_tenant_at_a_host_keep_no_other_tenants_waiting():
    async def run():
        go = asyncio.Event()

        async def answer(head, writer):
            if head.split()[1] == b"/slow":
                await go.wait()
            writer.write(reply())

        def of(tenant):
            return FetchContext(queue_key=QueueKey(tenant, "shop", "main"))

        one = limits(per_host=1)
        async with site(answer) as stands, AiohttpFetcher(allow_private=True) as fetcher:
            theirs = [
                asyncio.create_task(
                    fetcher.fetch(ask(stands.url("/slow")), one, fetch_context=of("them"))
                )
                for _ in range(4)
            ]
            await stands.asked.wait()
            ours = fetcher.fetch(ask(stands.url("/ours")), one, fetch_context=of("us"))
            page = await asyncio.wait_for(ours, 60)
            assert not any(task.done() for task in theirs)
            go.set()
            await asyncio.gather(*theirs)
            return page.status

    assert asyncio.run(run()) == 200


def test_cancelled_waiters_do_not_take_slots_with_them():
    async def run():
        go = asyncio.Event()

        async def answer(_, writer):
            await go.wait()
            writer.write(reply())

        slots = HostSlots()
        async with (
            site(answer) as stands,
            AiohttpFetcher(allow_private=True, slots=slots) as fetcher,
        ):
            one = limits(per_host=1)
            tasks = [asyncio.create_task(fetcher.fetch(ask(stands.url()), one)) for _ in range(4)]
            await stands.asked.wait()
            assert len(slots) == 1
            tasks[1].cancel()  # while it waits
            go.set()
            await tasks[0]
            tasks[2].cancel()  # perhaps in the moment it is handed the slot
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(ended[3], Page)
            return len(slots)

    assert asyncio.run(run()) == 0


# ---- what comes back -------------------------------------------------------------------------


def test_headers_are_lower_case_and_the_last_one_wins():
    page = fetch_from(b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 0\r\n\r\n")

    assert page.headers == {"x-a": "2", "content-length": "0"}


def test_header_that_is_no_utf8_can_still_be_stored():
    page = fetch_from(
        b"HTTP/1.1 200 OK\r\nX-A: caf\xe9\r\nX-B: \xc3\xa9\r\nContent-Length: 0\r\n\r\n"
    )

    assert (page.headers["x-a"], page.headers["x-b"]) == ("café", "é")
    assert msgspec.json.encode(page)


def test_redirects_are_followed_and_recorded():
    async def answer(head, writer):
        target = head.split()[1]
        hops = {b"/a": "/b?x=%2F", b"/b?x=%2F": "c", b"/b?x=/": "c"}
        said = hops.get(target)
        writer.write(reply(status=302, Location=said) if said else reply(b"end"))

    async def run():
        async with site(answer) as stands, AiohttpFetcher(allow_private=True) as fetcher:
            page = await fetcher.fetch(ask(stands.url("/a")), limits(max_redirects=2))
            with pytest.raises(TooLargeError, match=r"\(fetch.max_redirects\)"):
                await fetcher.fetch(ask(stands.url("/a")), limits(max_redirects=1))
            return page, stands

    page, stands = asyncio.run(run())

    assert page.body == b"end"
    assert page.url == stands.url("/c")
    assert page.redirects[0] == stands.url("/a")
    assert len(page.redirects) == 2


def test_connection_is_kept_between_pages():
    async def answer(_, writer):
        writer.write(reply(b"x"))

    async def run():
        async with site(answer) as stands, AiohttpFetcher(allow_private=True) as fetcher:
            for _ in range(5):
                await fetcher.fetch(ask(stands.url()), LIMITS)
            return stands.connections

    assert asyncio.run(run()) == 1


def test_head_is_a_page_without_a_body():
    async def run():
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\nContent-Encoding: gzip\r\n\r\n"
        async with site(answer) as stands, AiohttpFetcher(allow_private=True) as fetcher:
            return await fetcher.fetch(ask(stands.url(), method="HEAD"), LIMITS)

    assert asyncio.run(run()).body == b""


def _packed(coding, data):
    if coding == "br":
        return __import__("brotli").compress(data)
    if coding == "zstd":
        return __import__("backports.zstd").zstd.compress(data)
    return {"gzip": gzip.compress, "deflate": zlib.compress}[coding](data)


@pytest.mark.parametrize("coding", sorted(CODINGS))
@pytest.mark.parametrize("size", [0, 1, 99, 1_000_000])
def test_every_coding_we_ask_for_is_undone(coding, size):
    text = (b"0123456789 abcdef " * (size // 18 + 1))[:size]

    page = fetch_from(
        reply(_packed(coding, text), Content_Encoding=coding), limits(max_body_bytes=size + 99)
    )

    assert page.body == text


def test_bare_deflate_and_stacked_and_joined_codings_are_undone():
    bare = zlib.compress(b"hello")[2:-4]
    joined = gzip.compress(b"hel") + gzip.compress(b"lo")
    stacked = gzip.compress(zlib.compress(b"hello"))

    assert fetch_from(reply(bare, Content_Encoding="deflate")).body == b"hello"
    assert fetch_from(reply(joined, Content_Encoding="x-gzip")).body == b"hello"
    assert fetch_from(reply(joined + b"\0\0", Content_Encoding="GZIP")).body == b"hello"
    assert fetch_from(reply(stacked, Content_Encoding="deflate, gzip")).body == b"hello"


def test_coding_that_is_none_is_passed_over():
    assert fetch_from(reply(b"hello", Content_Encoding="utf-8")).body == b"hello"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (304, PageGoneError),
        (302, PageGoneError),
        (410, PageGoneError),
        (408, FetchTimeoutError),
        (500, ServerFaultError),
        (999, ServerFaultError),
    ],
)
def test_final_status_becomes_its_error(status, kind):
    error = fetch_from(reply(status=status))

    assert (type(error), error.status) == (kind, status)


@pytest.mark.parametrize("status", [429, 503])
def test_throttling_says_for_how_long(status):
    error = fetch_from(reply(status=status, Retry_After="17"))

    assert (type(error), error.status, error.retry_after_seconds) == (ThrottledError, status, 17.0)


def test_fetcher_is_used_inside_its_context():
    with pytest.raises(RuntimeError, match="async with"):
        asyncio.run(AiohttpFetcher(allow_private=True).fetch(ask("http://a.example/"), LIMITS))
