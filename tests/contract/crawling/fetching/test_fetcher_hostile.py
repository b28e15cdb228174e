"""The web at its worst: every answer ends as a page or as one of our errors, in bounded memory."""

import asyncio
import gzip
import socket
import struct
import tracemalloc
import zlib

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.contract.raw_site import LIMITS, ask, fetch_from, limits, outcome, reply, site
from tests.kit.examples import examples
from tests.kit.fetching import CODINGS, AiohttpFetcher
from tests.kit.kernel import (
    ConnectFailedError,
    FetchError,
    FetchTimeoutError,
    PageGoneError,
    ServerFaultError,
    TooLargeError,
)
from tests.kit.requests import Page

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"

# ---- answers that are no HTTP, or stop half-way ----------------------------------------------

BROKEN = {
    "nothing at all": b"",
    "a lonely line end": b"\r\n",
    "prose": b"I am not a web server.\r\n\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n",
    "binary": bytes(range(256)) * 20,
    "a status that is no number": b"HTTP/1.1 abc OK\r\n\r\n",
    "a version from the future": b"HTTP/9.9 200 OK\r\n\r\n",
    "head cut off": OK + b"Content-Type: text/h",
    "header without a colon": OK + b"nonsense\r\n\r\n",
    "header name with a space": OK + b"X A: 1\r\n\r\n",
    "header with a NUL": OK + b"X-A: 1\x002\r\n\r\n",
    "header longer than a book": OK + b"X-A: " + b"a" * 1_000_000 + b"\r\n\r\n",
    "ten thousand headers": OK + b"X-A: 1\r\n" * 10_000 + b"\r\n",
    "status line longer than a book": b"HTTP/1.1 200 " + b"O" * 1_000_000 + b"\r\n\r\n",
    "length that is no number": OK + b"Content-Length: many\r\n\r\n",
    "negative length": OK + b"Content-Length: -1\r\n\r\n",
    "two lengths": OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "length and chunks": OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "body shorter than said": OK + b"Content-Length: 100\r\n\r\nabc",
    "chunks cut off": CHUNKED + b"5\r\nhel",
    "chunks without an end": CHUNKED + b"5\r\nhello\r\n",
    "chunk size that is no number": CHUNKED + b"zz\r\nhello\r\n0\r\n\r\n",
    "chunk size beyond all numbers": CHUNKED + b"f" * 40 + b"\r\nhello\r\n0\r\n\r\n",
    "protocol switched unasked": (
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"
    ),
    "gzip that is none": reply(b"plainly text", Content_Encoding="gzip"),
    "gzip cut off": reply(gzip.compress(b"x" * 9_000)[:-9], Content_Encoding="gzip"),
    "gzip with a wrong checksum": reply(
        gzip.compress(b"x")[:-8] + b"\1" * 8, Content_Encoding="gzip"
    ),
    "deflate cut off": reply(zlib.compress(b"x" * 9_000)[:-5], Content_Encoding="deflate"),
    "five codings": reply(b"x", Content_Encoding="gzip, gzip, gzip, gzip, gzip"),
    "gzip of nothing, over and over": reply(gzip.compress(b"") * 4_000, Content_Encoding="gzip"),
}


@pytest.mark.parametrize("answer", list(BROKEN.values()), ids=list(BROKEN))
def test_broken_answer_is_the_sites_fault(answer):
    error = fetch_from(answer)

    assert type(error) is ServerFaultError
    assert len(str(error)) < 500


@pytest.mark.parametrize("coding", sorted(CODINGS))
def test_garbage_in_any_coding_is_the_sites_fault(coding):
    assert type(fetch_from(reply(b"\xff" * 500, Content_Encoding=coding))) is ServerFaultError


@pytest.mark.parametrize("before", [b"", OK + b"Content-Length: 100\r\n\r\nabc"])
def test_reset_connection_is_worth_another_try(before):
    async def answer(_, writer):
        writer.write(before)
        await writer.drain()
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    error = fetch_from(answer)

    assert isinstance(error, ServerFaultError | ConnectFailedError)
    assert error.retryable


@examples(1.2, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(
        [b"", OK, CHUNKED, OK + b"Content-Encoding: gzip\r\n\r\n", b"HTTP/1.1 302 x\r\nLocation: "]
    ),
    st.binary(max_size=400),
)
def test_whatever_bytes_come_the_end_is_a_page_or_one_of_our_errors(start, rest):
    assert isinstance(fetch_from(start + rest, limits(total_seconds=5.0)), Page | FetchError)


# ---- answers without an end ------------------------------------------------------------------


def _endless(start, again):
    async def answer(_, writer):
        writer.write(start)
        while True:
            writer.write(again)
            await writer.drain()

    return answer


def _silent(start):
    async def answer(_, writer):
        writer.write(start)
        await writer.drain()
        await asyncio.Event().wait()

    return answer


ENDLESS = {
    "body up to the hang-up": (_endless(OK + b"\r\n", b"x" * 9_999), TooLargeError),
    "chunks": (_endless(CHUNKED, b"3e8\r\n" + b"x" * 1_000 + b"\r\n"), TooLargeError),
    "chunks of one byte": (_endless(CHUNKED, b"1\r\nx\r\n" * 1_000), TooLargeError),
    "headers": (_endless(OK, b"X-A: 1\r\n" * 100), ServerFaultError),
    "one header": (_endless(OK + b"X-A: ", b"a" * 1_000), ServerFaultError),
    "100 Continue": (_endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 10), ServerFaultError),
    "trailers": (_endless(CHUNKED + b"0\r\n", b"X-A: 1\r\n" * 100), ServerFaultError),
}


@pytest.mark.parametrize(("answer", "kind"), list(ENDLESS.values()), ids=list(ENDLESS))
def test_endless_answer_ends_at_its_limit(answer, kind):
    error = fetch_from(answer)

    assert type(error) is kind


def test_body_that_announces_too_much_is_not_read():
    error = fetch_from(_silent(OK + b"Content-Length: 100001\r\n\r\n"))

    assert type(error) is TooLargeError


SLOW = {
    "says nothing": _silent(b""),
    "stops in the head": _silent(OK + b"X-A: "),
    "stops before the body": _silent(OK + b"Content-Length: 5\r\n\r\n"),
    "stops in the body": _silent(OK + b"Content-Length: 5\r\n\r\nab"),
    "stops in a chunk": _silent(CHUNKED + b"5\r\nab"),
    "stops in a compressed body": _silent(
        OK + b"Content-Encoding: gzip\r\nContent-Length: 99\r\n\r\n" + gzip.compress(b"x")[:12]
    ),
    "extends a chunk for ever": _endless(CHUNKED + b"1;", b"a" * 1_000),
}


@pytest.mark.parametrize("answer", list(SLOW.values()), ids=list(SLOW))
def test_slow_answer_ends_when_the_time_is_up(answer):
    error = fetch_from(answer, limits(total_seconds=0.2))

    assert type(error) is FetchTimeoutError
    assert "fetch.total_seconds" in str(error)


# ---- compression bombs -----------------------------------------------------------------------


def _gzip_bomb():
    """1 GiB of zeros, about 1 MB on the wire: one flushed block of 16 MiB, 64 times."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(1 << 24)) + packer.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff" + block * 64


def _bombs():
    zeros, gzipped = bytes(1 << 26), _gzip_bomb()
    bombs = {
        "gzip": gzipped,
        "deflate": gzipped[10:],
        "gzip, gzip": gzip.compress(gzipped),
    }
    if "br" in CODINGS:
        bombs["br"] = __import__("brotli").compress(zeros, quality=1)
    if "zstd" in CODINGS:
        bombs["zstd"] = __import__("backports.zstd").zstd.compress(zeros)
    return bombs


BOMBS = _bombs()


@pytest.mark.parametrize(("coding", "bomb"), list(BOMBS.items()), ids=list(BOMBS))
def test_bomb_is_defused_in_little_memory(coding, bomb):
    async def run():
        answer = reply(bomb, Content_Encoding=coding)
        async with site(answer) as stands, AiohttpFetcher(allow_private=True) as fetcher:
            tracemalloc.start()
            try:
                with pytest.raises(TooLargeError):
                    await fetcher.fetch(ask(stands.url()), limits(max_body_bytes=2_000_000))
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    assert asyncio.run(run()) < 12_000_000


# ---- ways that lead nowhere ------------------------------------------------------------------

NOWHERE = [
    "ftp://a.example/",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "data:text/html,x",
    "http://",
    "http://[",
    "http://a:99999999/",
    "https:///",
]


@pytest.mark.parametrize("place", NOWHERE)
def test_redirect_to_no_page_is_final(place):
    error = fetch_from(reply(status=302, Location=place))

    assert isinstance(error, PageGoneError)


def test_redirect_to_itself_ends_at_the_limit():
    async def answer(_, writer):
        writer.write(reply(status=301, Location="/"))

    assert type(fetch_from(answer)) is TooLargeError


def test_redirect_without_a_place_is_final_even_where_none_is_followed():
    assert type(fetch_from(reply(status=301), limits(max_redirects=0))) is PageGoneError


def test_redirect_with_credentials_and_an_authorization_does_not_break_the_border():
    async def run():
        async with site(reply()) as inner:
            there = f"http://user:secret@127.0.0.1:{inner.port}/"
            async with (
                site(reply(status=302, Location=there)) as outer,
                AiohttpFetcher(True) as fetcher,
            ):
                body = ask(outer.url(), headers={"Authorization": "Bearer t"})
                await fetcher.fetch(body, LIMITS)
                return outer.heads, inner.heads

    outer, inner = asyncio.run(run())

    assert b"Bearer t" in outer[0]
    assert b"Bearer t" not in inner[0]


def test_unknown_host_cannot_be_connected_to():
    error = asyncio.run(outcome("http://nowhere.invalid/"))

    assert type(error) is ConnectFailedError
    assert "nowhere.invalid" in str(error)


def test_closed_port_cannot_be_connected_to():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        error = asyncio.run(outcome(f"http://127.0.0.1:{port}/"))

    assert type(error) is ConnectFailedError
    assert str(error) == f"connection refused by 127.0.0.1:{port}"
