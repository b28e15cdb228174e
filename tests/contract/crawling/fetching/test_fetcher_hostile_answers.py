"""Answers made to hurt: framing that lies, floods, drips, bombs. Each ends, in time and memory."""

import asyncio
import gzip
from contextlib import suppress

import pytest

from tests.contract.raw_site import (
    LIMITS,
    ask,
    fetch_from,
    limits,
    measured,
    passing,
    reply,
    site,
    timed,
)
from tests.kit.fetching import AiohttpFetcher
from tests.kit.kernel import FetchError, FetchTimeoutError, ServerFaultError, TooLargeError
from tests.kit.requests import Page

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
# ---- framing -----------------------------------------------------------------------------------

FRAMING = {
    "length with a sign": OK + b"Content-Length: +5\r\n\r\nhello",
    "length in hex": OK + b"Content-Length: 0x5\r\n\r\nhello",
    "length with an underscore": OK + b"Content-Length: 1_0\r\n\r\nhellohello",
    "two lengths in one header": OK + b"Content-Length: 5, 6\r\n\r\nhello",
    "length of forty digits": OK + b"Content-Length: " + b"9" * 40 + b"\r\n\r\nhello",
    "length of nothing": OK + b"Content-Length: \r\n\r\nhello",
    "length beyond ASCII": OK + "Content-Length: \u0665\r\n\r\nhello".encode(),
    "length in chunks": OK
    + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "chunked twice": OK + b"Transfer-Encoding: chunked, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "chunked not at the end": OK
    + b"Transfer-Encoding: chunked, gzip\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "chunked with a NUL": OK + b"Transfer-Encoding: \x00chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "chunk size with a sign": CHUNKED + b"+5\r\nhello\r\n0\r\n\r\n",
    "negative chunk size": CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n",
    "chunk size in hex, marked": CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n",
    "chunk size with spaces": CHUNKED + b"5   \r\nhello\r\n0\r\n\r\n",
    "chunk without its line end": CHUNKED + b"5\r\nhelloX0\r\n\r\n",
    "chunk longer than it says": CHUNKED + b"2\r\nhello\r\n0\r\n\r\n",
    "chunk ended by a bare line feed": CHUNKED + b"5\nhello\n0\n\n",
    "chunk of 2^63 bytes": CHUNKED + b"7fffffffffffffff\r\nhello\r\n0\r\n\r\n",
    "chunk of 2^64 bytes and five": CHUNKED + b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "chunk extension with a NUL": CHUNKED + b"5;\x00\r\nhello\r\n0\r\n\r\n",
    "trailers that redirect": CHUNKED + b"5\r\nhello\r\n0\r\nLocation: http://127.0.0.1/\r\n\r\n",
    "NUL in the status line": b"HTTP/1.1 200 O\x00K\r\nContent-Length: 0\r\n\r\n",
    "NUL in a header's name": OK + b"X\x00A: 1\r\nContent-Length: 0\r\n\r\n",
    "carriage return in a header": OK + b"X-A: 1\rX-B: 2\r\nContent-Length: 0\r\n\r\n",
    "folded header": OK + b"X-A: 1\r\n 2\r\nContent-Length: 0\r\n\r\n",
    "space before the colon": OK + b"Content-Length : 5\r\n\r\nhello",
    "header without a name": OK + b": 1\r\nContent-Length: 0\r\n\r\n",
    "bare line feeds": b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
    "status of two digits": b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
    "status of four digits": b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
    "negative status": b"HTTP/1.1 -200 OK\r\nContent-Length: 0\r\n\r\n",
    "status 000": b"HTTP/1.1 000 OK\r\nContent-Length: 0\r\n\r\n",
    "no version": b"200 OK\r\nContent-Length: 0\r\n\r\n",
    "the oldest HTTP": b"<html><body>hello</body></html>",
    "the second HTTP": b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64",
    "a TLS alert": b"\x15\x03\x01\x00\x02\x02\x28",
    "a request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "204 with a body": b"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\nhello",
    "304 with a body": b"HTTP/1.1 304 No\r\nContent-Length: 5\r\n\r\nhello",
    "102 and then nothing": b"HTTP/1.1 102 Wait\r\n\r\n",
    "a hundred hints, then nothing": b"HTTP/1.1 103 Hints\r\nLink: </a>\r\n\r\n" * 100,
}


@pytest.mark.parametrize("answer", list(FRAMING.values()), ids=list(FRAMING))
def test_framing_that_lies_ends_as_a_page_or_one_of_our_errors(answer):
    end = measured(answer, limits(total_seconds=3.0))

    assert isinstance(end, Page | FetchError)
    if isinstance(end, Page):
        assert len(end.body) <= 100
        assert end.redirects == ()


def test_what_follows_an_answer_is_not_taken_for_the_next_one():
    """A length that is too short must not let a site answer for a request that is yet to come."""
    poison = reply(b"poison")

    async def answer(head, writer):
        if head.split()[1] == b"/first":
            writer.write(OK + b"Content-Length: 2\r\n\r\nab" + poison)
        else:
            writer.write(reply(b"honest"))

    async def run():
        async with site(answer) as stands, AiohttpFetcher(allow_private=True) as fetcher:
            first = await fetcher.fetch(ask(stands.url("/first")), LIMITS)
            second = await fetcher.fetch(ask(stands.url("/second")), LIMITS)
            return first.body, second.body

    first, second = asyncio.run(run())

    assert (first, second) == (b"ab", b"honest")


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("HEAD", OK + b"Content-Length: 5\r\n\r\n" + reply(b"poison")),
        ("GET", b"HTTP/1.1 204 No\r\n\r\n" + reply(b"poison")),
    ],
)
def test_nor_is_the_body_of_an_answer_that_has_none(method, said):
    async def answer(head, writer):
        writer.write(said if head.split()[1] == b"/first" else reply(b"honest"))

    async def run():
        async with site(answer) as stands, AiohttpFetcher(allow_private=True) as fetcher:
            with suppress(FetchError):  # what follows may also be seen for what it is
                await fetcher.fetch(ask(stands.url("/first"), method=method), LIMITS)
            return (await fetcher.fetch(ask(stands.url("/second")), LIMITS)).body

    assert asyncio.run(run()) == b"honest"


# ---- floods ------------------------------------------------------------------------------------


def _endless(start, again):
    async def answer(_, writer):
        writer.write(start)
        while True:
            writer.write(again)
            await writer.drain()

    return answer


FLOODS = {
    "status line": _endless(b"HTTP/1.1 200 ", b"O" * 1_000),
    "digits of the status": _endless(b"HTTP/1.1 2", b"0" * 1_000),
    "one header's name": _endless(OK, b"X" * 1_000),
    "one header's value": _endless(OK + b"X-A: ", b"a" * 1_000),
    "distinct headers": _endless(OK, b"".join(b"X-%d: 1\r\n" % n for n in range(200))),
    "empty headers": _endless(OK, b"X:\r\n" * 300),
    "cookies": _endless(OK, b"Set-Cookie: a=b\r\n" * 100),
    "locations": _endless(b"HTTP/1.1 302 x\r\n", b"Location: /x\r\n" * 100),
    "folds": _endless(OK + b"X-A: 1", b"\r\n 2" * 300),
    "hints": _endless(b"", b"HTTP/1.1 103 Hints\r\nLink: </a>\r\n\r\n" * 50),
    "hints of many headers": _endless(b"", b"HTTP/1.1 103 Hints\r\n" + b"X-A: 1\r\n" * 200),
    "line ends before the answer": _endless(b"", b"\r\n" * 500),
    "NULs": _endless(b"", b"\x00" * 1_000),
    "garbage": _endless(b"", bytes(range(256)) * 4),
    "chunks of nothing but extensions": _endless(CHUNKED, b"1;" + b"a" * 500 + b"\r\nx\r\n"),
    "zeros before a chunk's size": _endless(CHUNKED, b"0" * 1_000),
    "trailers": _endless(CHUNKED + b"1\r\nx\r\n0\r\n", b"X-A: 1\r\n" * 100),
    "a body without a length": _endless(OK + b"\r\n", b"x" * 10_000),
    "an error page": _endless(b"HTTP/1.1 500 x\r\n\r\n", b"x" * 10_000),
    "a body of a redirect": _endless(b"HTTP/1.1 302 x\r\nLocation: /\r\n\r\n", b"x" * 10_000),
    "a body of a gzip that never begins": _endless(
        OK + b"Content-Encoding: gzip\r\n\r\n" + b"\x1f\x8b\x08\x08" + b"\x00" * 6, b"n" * 10_000
    ),
}


@pytest.mark.parametrize("answer", list(FLOODS.values()), ids=list(FLOODS))
def test_a_flood_ends(answer):
    end = measured(answer, limits(total_seconds=1.0, max_redirects=3))

    assert isinstance(end, ServerFaultError | FetchTimeoutError | TooLargeError)


# ---- drips -------------------------------------------------------------------------------------


def _drip(start, drops):
    async def answer(_, writer):
        writer.write(start)
        for drop in drops:
            writer.write(drop)
            await writer.drain()
            await passing(0.01)
        await asyncio.Event().wait()

    return answer


def _each(text):
    return [text[at : at + 1] for at in range(len(text))]


DRIPS = {
    "status line": _drip(b"", _each(b"HTTP/1.1 200 " + b"O" * 400)),
    "header's name": _drip(OK, _each(b"X" * 400)),
    "header's value": _drip(OK + b"X-A: ", _each(b"a" * 400)),
    "headers": _drip(OK, [b"X-A: 1\r\n"] * 400),
    "hints": _drip(b"", [b"HTTP/1.1 103 Hints\r\n\r\n"] * 400),
    "body": _drip(OK + b"Content-Length: 400\r\n\r\n", _each(b"x" * 399)),
    "chunks": _drip(CHUNKED, [b"1\r\nx\r\n"] * 400),
    "chunk's size": _drip(CHUNKED, _each(b"0" * 400)),
    "gzip": _drip(
        OK + b"Content-Encoding: gzip\r\nContent-Length: 9999\r\n\r\n",
        _each(gzip.compress(bytes(range(256)) * 4)),
    ),
    "an error page": _drip(b"HTTP/1.1 404 x\r\nContent-Length: 999\r\n\r\n", _each(b"x" * 400)),
}


@pytest.mark.parametrize("answer", list(DRIPS.values()), ids=list(DRIPS))
def test_a_slow_loris_is_given_up_on(answer):
    end, seconds = timed(answer, limits(total_seconds=0.4))

    assert isinstance(end, FetchTimeoutError | ServerFaultError) or end.status == 404
    assert seconds < 3


# ---- tricks ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        reply(b"x", Refresh="0; url=http://169.254.169.254/"),
        reply(b"x", Refresh="0;file:///etc/passwd"),
        reply(b'<meta http-equiv=refresh content="0;url=http://127.0.0.1/">'),
        reply(b"x", Location="http://127.0.0.1/"),
        reply(b"x", status=201, Location="http://127.0.0.1/"),
        reply(b"x", Content_Location="http://127.0.0.1/"),
        reply(b"x", Link="<http://127.0.0.1/>; rel=preload", Alt_Svc='h2="127.0.0.1:9"'),
        reply(b"<base href=file:///><a href=etc/passwd>"),
    ],
)
def test_only_a_redirect_leads_elsewhere(said):
    end = fetch_from(said, allow_private=False, may_connect=lambda address: address == "127.0.0.1")

    assert isinstance(end, Page)
    assert end.redirects == ()


@pytest.mark.parametrize("status", [300, 304, 305, 306, 310, 399])
def test_not_every_3xx_is_a_redirect(status):
    end = fetch_from(reply(status=status, Location="http://127.0.0.1:9/"))

    assert (end.status, end.answer.status) == (status, status)


def test_several_places_are_not_all_gone_to():
    said = b"HTTP/1.1 302 x\r\nLocation: /a\r\nLocation: http://127.0.0.1:9/\r\n\r\n"

    async def answer(head, writer):
        writer.write(said if head.split()[1] == b"/" else reply(b"end"))
        writer.close()

    end = fetch_from(answer)

    assert end.url.endswith("/a")
