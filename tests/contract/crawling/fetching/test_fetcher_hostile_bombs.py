"""Decompression bombs of every kind, and TLS that leads nowhere."""

import asyncio
import gzip
import itertools
import ssl
import zlib

import brotli
import pytest
from backports import zstd

from tests.contract.hostile_names import Names
from tests.contract.raw_site import (
    LIMITS,
    ask,
    limits,
    measured,
    outcome,
    passing,
    reply,
    site,
)
from tests.kit.fetching import AiohttpFetcher
from tests.kit.kernel import ConnectFailedError, FetchTimeoutError, ServerFaultError, TooLargeError
from tests.kit.requests import Page
from tests.kit.tls import write_certificate

OK = b"HTTP/1.1 200 OK\r\n"

# ---- bombs -------------------------------------------------------------------------------------


def _zlib_of(data):
    return zlib.compress(data, 9)


def _zstd_of(data):
    return zstd.compress(data, level=19)


PACKERS = {
    "gzip": lambda data: gzip.compress(data, 9),
    "deflate": _zlib_of,
    "br": lambda data: brotli.compress(data, quality=5),
    "zstd": _zstd_of,
}
STACKS = [*itertools.permutations(PACKERS, 2), *((name, name) for name in PACKERS)]
ZEROS = bytes(1 << 26)
BOMBS = {name: pack(ZEROS) for name, pack in PACKERS.items()}


@pytest.mark.parametrize("outer_and_inner", STACKS, ids=" of ".join)
def test_a_bomb_in_a_bomb_is_defused(outer_and_inner):
    outer, inner = outer_and_inner
    bomb = PACKERS[outer](BOMBS[inner])

    end = measured(reply(bomb, Content_Encoding=f"{inner}, {outer}"))

    assert type(end) is TooLargeError


@pytest.mark.parametrize("coding", sorted(PACKERS))
def test_a_bomb_in_drops_is_defused(coding):
    """Send a bomb in chunks that are small each and expand to too large a body."""
    bomb = BOMBS[coding]

    async def answer(_, writer):
        writer.write(OK + f"Content-Encoding: {coding}\r\n".encode())
        writer.write(b"Content-Length: %d\r\n\r\n" % len(bomb))
        for at in range(0, len(bomb), 700):
            writer.write(bomb[at : at + 700])
            await writer.drain()

    assert type(measured(answer)) is TooLargeError


@pytest.mark.parametrize("status", [404, 503])
@pytest.mark.parametrize("coding", sorted(PACKERS))
def test_a_bomb_as_an_error_page_is_its_status(coding, status):
    end = measured(reply(BOMBS[coding], status=status, Content_Encoding=coding))

    assert end.status == status
    assert len(end.answer.sample) <= 2_000


def test_a_zstd_window_of_gigabytes_is_refused():
    frame = b"\x28\xb5\x2f\xfd\x00" + bytes([(31 - 10) << 3]) + b"\x01\x00\x00" + b"x" * 50

    assert type(measured(reply(frame, Content_Encoding="zstd"))) is ServerFaultError


@pytest.mark.parametrize("codings", ["gzip, " * 50 + "gzip", "br," * 5, "x-gzip\t,deflate" * 9])
def test_a_tower_of_codings_is_refused(codings):
    end = measured(reply(b"x", Content_Encoding=codings))

    assert isinstance(end, ServerFaultError | Page)


# ---- TLS ---------------------------------------------------------------------------------------


async def _tls_end(talk, seconds=0.4):
    """Return the outcome of a fetch over TLS from a site that runs ``talk`` on each connection.

    And how many seconds it takes by the loop's clock.
    """
    tasks = set()

    async def serve(reader, writer):
        tasks.add(asyncio.current_task())
        try:
            await talk(reader, writer)
        except (asyncio.CancelledError, OSError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        started = asyncio.get_running_loop().time()
        end = await outcome(url, limits(connect_seconds=seconds, total_seconds=6.0))
        return end, asyncio.get_running_loop().time() - started
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _says_nothing(reader, writer):
    await asyncio.Event().wait()


async def _hangs_up(reader, writer):
    await reader.read(1)


async def _garbage(reader, writer):
    writer.write(b"\xff" * 1_000)
    await asyncio.Event().wait()


async def _plain_http(reader, writer):
    writer.write(reply(b"x"))
    await asyncio.Event().wait()


async def _half_a_record(reader, writer):
    writer.write(b"\x16\x03\x03\x40\x00" + b"\x02\x00\x00")
    await asyncio.Event().wait()


async def _records_of_nothing(reader, writer):
    while True:
        writer.write(b"\x16\x03\x03\x00\x00" * 100)
        await writer.drain()


async def _dripping_records(reader, writer):
    for byte in b"\x16\x03\x03\x40\x00" + b"\x02" * 1_000:
        writer.write(bytes([byte]))
        await writer.drain()
        await passing(0.01)


@pytest.mark.parametrize(
    "talk",
    [
        _says_nothing,
        _hangs_up,
        _garbage,
        _plain_http,
        _half_a_record,
        _records_of_nothing,
        _dripping_records,
    ],
    ids=lambda talk: talk.__name__.strip("_"),
)
def test_a_handshake_that_leads_nowhere_ends_in_the_time_for_connecting(talk):
    end, seconds = asyncio.run(_tls_end(talk))

    assert isinstance(end, ConnectFailedError | FetchTimeoutError | ServerFaultError)
    assert end.retryable
    assert seconds < 3


def test_a_redirect_from_https_to_http_takes_no_credentials(tmp_path):
    certificate = write_certificate(tmp_path / "site.pem", "a.example")

    async def run():
        served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        served.load_cert_chain(certificate)
        async with site(reply(b"plain")) as plain:
            place = plain.url(host="a.example")
            async with (
                site(reply(status=302, Location=place), ssl=served) as secure,
                AiohttpFetcher(
                    allow_private=True,
                    resolver=Names("127.0.0.1"),
                    ssl_context=ssl.create_default_context(cafile=certificate),
                ) as fetcher,
            ):
                body = ask(
                    secure.url(host="a.example", scheme="https"),
                    headers={"Authorization": "Bearer t", "Cookie": "a=b"},
                )
                await fetcher.fetch(body, LIMITS)
                return secure.heads[0], plain.heads[0]

    secure, plain = asyncio.run(run())

    assert b"Bearer t" in secure
    assert b"a=b" in secure
    assert b"Bearer" not in plain
    assert b"Cookie" not in plain
