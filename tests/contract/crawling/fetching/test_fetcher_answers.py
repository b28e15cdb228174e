"""Tests of the bounded response facts kept for a failed fetch, and the start of its body."""

import asyncio
import gzip
import tracemalloc

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.contract.raw_site import LIMITS, ask, fetch_from, limits, outcome, reply, site, timed
from tests.contract.store_cases import NOW, Fleet, a_request, uuids
from tests.fakes.fetching import MemoryFetcher
from tests.kit.examples import examples
from tests.kit.fetching import AiohttpFetcher, http_trail
from tests.kit.kernel import (
    AddressRefusedError,
    ConnectFailedError,
    FetchError,
    FetchTimeoutError,
    PageGoneError,
    ServerFaultError,
    ThrottledError,
    TooLargeError,
)
from tests.kit.requests import SAMPLE_BYTES, Answer, Dead, reason_of

GONE = b"HTTP/1.1 404 Gone\r\n"
CHUNKED = GONE + b"Transfer-Encoding: chunked\r\n\r\n"


def _then_silent(start):
    async def answer(_, writer):
        writer.write(start)
        await writer.drain()
        await asyncio.Event().wait()

    return answer


def _endless(start, again):
    async def answer(_, writer):
        writer.write(start)
        while True:
            writer.write(again)
            await writer.drain()

    return answer


# ---- the facts ---------------------------------------------------------------------------------


def test_answer_has_the_facts_that_matter_and_no_others():
    async def run():
        said = reply(
            b"<h1>no</h1>",
            status=404,
            Content_Type="text/html",
            Server="nginx",
            CF_Ray="7-FRA",
            Set_Cookie="session=secret",
            Authorization="Bearer secret",
            X_Other="other",
        )
        async with site(said) as stands:
            return await outcome(stands.url("/a?b")), stands.url("/a?b")

    error, url = asyncio.run(run())

    assert error.answer.url == url
    assert error.answer.status == 404
    assert error.answer.headers == {
        "content-type": "text/html",
        "server": "nginx",
        "cf-ray": "7-FRA",
        "content-length": "11",
    }
    assert error.answer.sample == b"<h1>no</h1>"
    assert 0 < error.answer.seconds < 5


def test_throttling_keeps_what_the_site_asked_for():
    error = fetch_from(reply(b"slow down", status=429, Retry_After="17"))

    assert (type(error), error.retry_after_seconds) == (ThrottledError, 17.0)
    assert (error.answer.status, error.answer.sample) == (429, b"slow down")
    assert error.answer.headers["retry-after"] == "17"


def test_compressed_error_page_is_kept_as_people_read_it():
    page = b"<h1>try later</h1>" * 1_000

    error = fetch_from(reply(gzip.compress(page), status=500, Content_Encoding="gzip"))

    assert type(error) is ServerFaultError
    assert error.answer.sample == page[:SAMPLE_BYTES]


@pytest.mark.parametrize(
    ("said", "sample"),
    [
        (reply(b"plainly text", status=404, Content_Encoding="gzip"), b"plainly text"),
        (reply(b"x", status=404, Content_Encoding="gzip, gzip, gzip, gzip, gzip"), b""),
        (GONE + b"Content-Length: 50\r\n\r\ncut off", b"cut off"),
        (reply(status=404), b""),
    ],
    ids=["no gzip", "five codings", "cut off", "empty"],
)
def test_broken_error_page_is_still_the_error_that_its_status_says(said, sample):
    error = fetch_from(said)

    assert (type(error), error.status) == (PageGoneError, 404)
    assert error.answer.sample == sample


def test_huge_headers_are_cut():
    long = "x" * 30_000

    error = fetch_from(reply(b"no", status=404, Server=long))

    assert error.answer.headers["server"] == "x" * 500
    assert len(msgspec.json.encode(error.answer)) < 2_000


def test_answer_to_head_has_no_sample():
    async def run():
        said = GONE + b"Content-Length: 99999999\r\n\r\n"
        async with site(said) as stands, AiohttpFetcher(allow_private=True) as fetcher:
            with pytest.raises(PageGoneError) as caught:
                await fetcher.fetch(ask(stands.url(), method="HEAD"), LIMITS)
            return caught.value.answer

    assert asyncio.run(run()).sample == b""


def test_where_nobody_answered_there_is_no_answer():
    assert asyncio.run(outcome("http://nowhere.invalid/")).answer is None
    assert asyncio.run(outcome("ftp://a.example/")).answer is None
    assert fetch_from(b"").answer is None


# ---- bodies that came in part ------------------------------------------------------------------


def test_page_that_is_too_large_is_kept_by_its_beginning():
    error = fetch_from(reply(b"begin" + b"x" * 99_999, Content_Type="text/plain"), LIMITS)
    endless = fetch_from(_endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 9_999), LIMITS)

    assert (type(error), type(endless)) == (TooLargeError, TooLargeError)
    assert (error.answer.status, error.answer.headers["content-type"]) == (200, "text/plain")
    assert error.answer.sample == b"begin" + b"x" * (SAMPLE_BYTES - 5)
    assert endless.answer.sample == b"x" * SAMPLE_BYTES


def test_page_that_stops_half_way_is_kept_as_far_as_it_came():
    said = _then_silent(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf")

    error = fetch_from(said, limits(total_seconds=0.3))

    assert type(error) is FetchTimeoutError
    assert (error.answer.status, error.answer.sample) == (200, b"half")


# ---- hostile bodies of error pages -------------------------------------------------------------


def test_endless_error_page_is_read_for_its_sample_and_no_further():
    async def run():
        async with site(_endless(CHUNKED, b"3e8\r\n" + b"x" * 1_000 + b"\r\n")) as stands:
            tracemalloc.start()
            try:
                return await outcome(stands.url()), tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    error, memory = asyncio.run(run())

    assert type(error) is PageGoneError
    assert error.answer.sample == b"x" * SAMPLE_BYTES
    assert memory < 12_000_000


def test_compression_bomb_as_an_error_page_is_read_for_its_sample():
    bomb = gzip.compress(gzip.compress(bytes(1 << 26)))

    error = fetch_from(reply(bomb, status=403, Content_Encoding="gzip, gzip"))

    assert (type(error), error.answer.sample) == (PageGoneError, bytes(SAMPLE_BYTES))


def test_error_page_that_stalls_is_waited_for_a_moment_only():
    said = _then_silent(GONE + b"Content-Length: 5000\r\n\r\npart")
    error, seconds = timed(said, sample_seconds=0.2)

    assert (type(error), error.answer.sample) == (PageGoneError, b"part")
    assert seconds < LIMITS.total_seconds / 4


def test_error_page_that_stalls_takes_no_longer_than_the_biz_allows():
    said = _then_silent(GONE + b"Content-Length: 5000\r\n\r\npart")

    error, seconds = timed(said, limits(total_seconds=0.2))

    assert (type(error), error.answer.sample) == (PageGoneError, b"part")
    assert seconds < http_trail.SAMPLE_SECONDS


def test_sample_is_no_larger_than_a_page_may_be():
    error = fetch_from(reply(b"0123456789", status=404), limits(max_body_bytes=4))

    assert error.answer.sample == b"0123"


def test_connection_is_kept_over_small_error_pages():
    async def answer(_, writer):
        writer.write(reply(b"gone", status=404))

    async def run():
        async with site(answer) as stands, AiohttpFetcher(allow_private=True) as fetcher:
            for _ in range(5):
                with pytest.raises(PageGoneError):
                    await fetcher.fetch(ask(stands.url()), LIMITS)
            return stands.connections

    assert asyncio.run(run()) == 1


# ---- redirects that end badly ------------------------------------------------------------------


def test_redirect_to_a_refused_address_shows_where_it_led():
    def only_here(address):
        return address == "127.0.0.1"

    there = "http://169.254.169.254/latest/"
    error = fetch_from(
        reply(status=302, Location=there), allow_private=False, may_connect=only_here
    )

    assert type(error) is AddressRefusedError
    assert (error.status, error.answer.status) == (0, 302)
    assert error.answer.headers["location"] == there


def test_redirects_without_an_end_show_the_last_one():
    async def answer(head, writer):
        number = int(head.split()[1].lstrip(b"/") or 0)
        writer.write(reply(b"on", status=301, Location=f"/{number + 1}"))

    error = fetch_from(answer, limits(max_redirects=3))

    assert type(error) is TooLargeError
    assert (error.answer.status, error.answer.url.rsplit("/")[-1]) == (301, "3")
    assert error.answer.headers["location"] == "/4"


def test_redirect_to_a_dead_end_shows_where_it_led():
    error = fetch_from(reply(status=302, Location="http://nowhere.invalid/"))
    ftp = fetch_from(reply(status=302, Location="ftp://a.example/"))

    assert (type(error), error.answer.status) == (ConnectFailedError, 302)
    assert (type(ftp), ftp.answer.headers["location"]) == (PageGoneError, "ftp://a.example/")


def test_credentials_in_a_place_are_not_kept():
    async def run():
        async with site(reply(b"no", status=404)) as inner:
            there = f"http://user:secret@127.0.0.1:{inner.port}/x"
            async with site(reply(status=302, Location=there)) as outer:
                return await outcome(outer.url()), inner.url("/x")

    at_the_end, url = asyncio.run(run())
    on_the_way = fetch_from(reply(status=302, Location="http://user:secret@nowhere.invalid/"))

    assert at_the_end.answer.url == url
    assert on_the_way.answer.headers["location"] == "http://nowhere.invalid/"
    for error in (at_the_end, on_the_way):
        assert b"secret" not in msgspec.json.encode(error.answer)


# ---- kept --------------------------------------------------------------------------------------


@examples(0.4, suppress_health_check=list(HealthCheck))
@given(
    header=st.binary(max_size=80).map(
        lambda raw: raw.translate(None, bytes([*range(32), 127])).strip()
    ),
    body=st.binary(max_size=3_000),
)
def test_any_bytes_of_a_site_survive_storing_and_reading(fleet: Fleet, header, body):
    head = GONE + b"Server: " + header + b"\r\nContent-Length: %d\r\n\r\n" % len(body)
    error = fetch_from(head + body)
    assert isinstance(error, FetchError)
    assert error.answer.sample == body[:SAMPLE_BYTES]
    request = a_request(fleet.queue_key, uuids(1, NOW)[0])
    fleet.insert([request])
    (claim,) = fleet.claim([request])

    fleet.settle([(claim, Dead(str(error), reason_of(error), error.answer))])

    tracked = fleet.get(claim.request)
    assert (tracked.reason, tracked.answer) == ("PageGone", error.answer)
    assert msgspec.json.decode(msgspec.json.encode(tracked.answer), type=Answer) == error.answer


@given(
    url=st.text(max_size=50),
    headers=st.dictionaries(st.sampled_from(["server", "location", "via", "x"]), st.text()),
)
def test_whatever_text_an_answer_is_made_of_can_be_stored(url, headers):
    awkward = {name: value + "\ud800" for name, value in headers.items()}

    answer = Answer.of(url + "\ud800", 200, awkward, 0.1, b"\xff")

    assert msgspec.msgpack.decode(msgspec.msgpack.encode(answer), type=Answer) == answer
    assert set(answer.headers) <= {"server", "location", "via"}


def test_the_fake_gives_answers_too():
    async def run():
        async with MemoryFetcher({"http://a.example/": b"12345"}) as fetcher:
            found = []
            for url, most in (("http://b.example/", 9), ("http://a.example/", 2)):
                with pytest.raises(FetchError) as caught:
                    await fetcher.fetch(ask(url), limits(max_body_bytes=most))
                found.append(caught.value.answer)
            return found

    gone, large = asyncio.run(run())

    assert (gone.url, gone.status) == ("http://b.example/", 404)
    assert (large.status, large.sample) == (200, b"12345")
