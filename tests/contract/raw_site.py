"""A web site that says exactly what a test wants it to, byte for byte, on loopback."""

import asyncio
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import msgspec

from tests.kit.config import FetchLimits
from tests.kit.fetching import AiohttpFetcher
from tests.kit.kernel import FetchError
from tests.kit.requests import Body, Page

#: What a handler gets: the request's head, and the stream to answer on.
Handler = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]

LIMITS = FetchLimits(connect_seconds=5.0, total_seconds=20.0, max_body_bytes=100_000)


class Site:
    """A site's address, and the heads of the requests that reached it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.heads: list[bytes] = []
        self.connections = 0
        self.seconds = 0.0  # that it was asked for, by the loop's clock
        self.asked = asyncio.Event()

    def url(self, path: str = "/", *, host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


@asynccontextmanager
async def site(
    answer: bytes | Handler, host: str = "127.0.0.1", port: int = 0, **options: object
) -> AsyncIterator[Site]:
    """Serve; bytes are the whole answer to any request, after which the site hangs up."""
    tasks: set[asyncio.Task[None]] = set()
    stands = Site(0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stands.connections += 1
        task = asyncio.current_task()
        tasks.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                if isinstance(answer, bytes):
                    stands.heads.append(await reader.readuntil(b"\r\n\r\n"))
                    writer.write(answer)
                    await writer.drain()
                else:
                    while True:
                        head = await reader.readuntil(b"\r\n\r\n")
                        stands.heads.append(head)
                        stands.asked.set()
                        await answer(head, writer)
        except asyncio.CancelledError:
            pass
        finally:
            tasks.discard(task)
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    server = await asyncio.start_server(serve, host, port, **options)
    stands.port = server.sockets[0].getsockname()[1]
    try:
        yield stands
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def passing(seconds: float) -> None:
    """Wait as a slow site does."""
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), seconds)


def reply(body: bytes = b"", *, status: int = 200, **headers: str) -> bytes:
    """A proper answer; ``Content_Type`` writes ``Content-Type``."""
    lines = [f"HTTP/1.1 {status} Said"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


def ask(url: str, **fields: object) -> Body:
    return Body(url=url, rule="r", rule_version="1", **fields)


def limits(**changes: object) -> FetchLimits:
    return msgspec.structs.replace(LIMITS, **changes)


async def outcome(
    url: str, asked_limits: FetchLimits = LIMITS, **options: object
) -> Page | FetchError:
    """Fetch ``url`` and return the page or the fetch error; any other exception is raised."""
    async with AiohttpFetcher(options.pop("allow_private", True), **options) as fetcher:
        try:
            return await fetcher.fetch(ask(url), asked_limits)
        except FetchError as error:
            return error


def fetch_from(
    answer: bytes | Handler, asked_limits: FetchLimits = LIMITS, path: str = "/", **options: object
) -> Page | FetchError:
    """Fetch once from a site that answers so and return the page or the fetch error."""
    return timed(answer, asked_limits, path, **options)[0]


def timed(
    answer: bytes | Handler, asked_limits: FetchLimits = LIMITS, path: str = "/", **options: object
) -> tuple[Page | FetchError, float]:
    """:func:`fetch_from`, and how many seconds it takes by the loop's clock."""

    async def run() -> tuple[Page | FetchError, float]:
        async with site(answer) as stands:
            started = asyncio.get_running_loop().time()
            end = await outcome(stands.url(path), asked_limits, **options)
            return end, asyncio.get_running_loop().time() - started

    return asyncio.run(run())


#: What one download of at most 100 KB may take of a processor at its worst, and be waited for.
SECONDS = 10.0
MEMORY_BYTES = 12_000_000


def measured(
    answer: bytes | Handler, asked_limits: FetchLimits = LIMITS, **options: object
) -> Page | FetchError:
    """Fetch once and return the outcome; assert that time and memory are bounded."""
    tracemalloc.start()
    started = time.process_time()
    try:
        end, seconds = timed(answer, asked_limits, **options)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.process_time() - started < SECONDS
    assert seconds < SECONDS
    assert most < MEMORY_BYTES
    return end
