"""Tests of hostile proxies: a fetch ends, and no error or log shows the proxy's password."""

import asyncio
import base64
import logging
import traceback

import msgspec
import pytest

from tests.contract.hostile_names import Names
from tests.contract.raw_site import LIMITS, ask, limits, reply, site
from tests.kit.config import ProxyPool
from tests.kit.fetching import AiohttpFetcher, FetchContext
from tests.kit.kernel import ConnectFailedError, FetchError, FetchTimeoutError, QueueKey

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


async def error_of(fetcher, url, asked_limits=LIMITS, **options):
    with pytest.raises(FetchError) as caught:
        await fetcher.fetch(ask(url), asked_limits, None, fetch_context(**options))
    return caught.value


# ---- proxies that lie --------------------------------------------------------------------------


def _echo(status):
    async def answer(head, writer):
        reported = head.split(b"Proxy-Authorization: ")[1].split(b"\r\n")[0]
        writer.write(b"HTTP/1.1 %d said %s\r\nServer: %s\r\n" % (status, reported, reported))
        writer.write(b"Content-Length: %d\r\n\r\n" % len(reported) + reported)

    return answer


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


LIARS = {
    "garbage": b"\x00\x01\x02 I am no proxy\r\n\r\n",
    "nothing": b"",
    "silence": _silent(b""),
    "endless head": _endless(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n" * 100),
    "a status that is the password": b"HTTP/1.1 " + PASSWORD.encode() + b" x\r\n\r\n",
    "who we are, echoed in an error": _echo(500),
    "who we are, echoed as a refusal": _echo(407),
    "a redirect inside": reply(status=302, Location="http://169.254.169.254/"),
    "a tunnel to nowhere": b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" + b"\xff" * 100,
    "a tunnel that says nothing": _silent(b"HTTP/1.1 200 OK\r\n\r\n"),
    "a gateway's error": reply(b"x", status=502),
    "an upgrade": b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
}


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("answer", list(LIARS.values()), ids=list(LIARS))
def test_a_proxy_that_lies_ends_the_download_and_nobody_learns_the_password(answer, scheme, caplog):
    caplog.set_level(logging.DEBUG)

    async def run():
        async with (
            site(answer) as liar,
            fetcher_over(
                f"http://{USER}:{PASSWORD}@127.0.0.1:{liar.port}",
                allow_private=False,
                resolver=Names(PUBLIC),
            ) as fetcher,
        ):
            short = limits(connect_seconds=0.5, first_byte_seconds=0.5, total_seconds=1.0)
            return await error_of(fetcher, f"{scheme}://a.example/", short)

    error = asyncio.run(run())

    if scheme == "https":
        assert isinstance(error, ConnectFailedError | FetchTimeoutError)
        assert error.retryable
    reported = "".join(traceback.format_exception(error)) + repr(error) + caplog.text
    reported += repr(msgspec.json.encode(error.answer)) + repr(error.answer)
    for secret in (PASSWORD, REPORTED.decode().split()[1]):
        assert secret not in reported
