"""``python -m infra.local.stream_server``: a stream of JSON lines on loopback, with made-up items.

Objects have rising numbers as their ids; who connects with ``since`` gets those behind it. For
tests it misbehaves on demand: each of :attr:`StreamServer.script` answers one connection.
"""

import argparse
import asyncio
import itertools
import json
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Self, TypeAlias

from aiohttp import web

from infra.local.parts import LOOPBACK

#: What answers a connection in place of the stream.
Behaviour: TypeAlias = Callable[["StreamServer", web.Request], Awaitable[web.StreamResponse]]

_WORDS: Final = (
    "climate",
    "storm",
    "green deal",
    "football",
    "election",
    "rain",
    "market",
    "#cop31",
)
_AUTHORS: Final = ("reuters", "ann", "berlin-news", "weather")


@dataclass(eq=False)
class StreamServer:
    """A stream; an asynchronous context manager.

    Attributes:
        token: The bearer token that it asks for.
        keep_alive_seconds: The pause between two empty lines.
        objects: What the stream has had so far.
        script: Behaviours of the next connections, one each.
        asked: Query and headers of each connection that was made.
        open: Connections that are answered now.
        most_open: Connections that were open at once. One whose end has come counts no more, though
            its answer may not have ended.
    """

    token: str | None = None
    keep_alive_seconds: float = 0.2
    objects: list[dict[str, Any]] = field(default_factory=list)
    script: deque[Behaviour] = field(default_factory=deque)
    asked: list[tuple[Mapping[str, str], Mapping[str, str]]] = field(default_factory=list)
    open: int = 0
    most_open: int = 0

    def __post_init__(self) -> None:
        """Have nobody wait yet."""
        self._more = asyncio.Condition()
        self._ending = False
        self._answered: list[web.Request] = []  # a request has no hash

    async def start(self, host: str = LOOPBACK, port: int = 0) -> str:
        """Serve; return the address of the stream."""
        application = web.Application()
        application.router.add_get("/lines", self._answer)
        self._runner = web.AppRunner(
            application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        self.url = f"http://{host}:{self._runner.addresses[0][1]}/lines"
        return self.url

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ending = True
        await self.publish()
        await self._runner.cleanup()

    async def publish(self, *texts: str, **others: Any) -> None:
        """Add an object for each text, with the next id."""
        for text in texts:
            number = len(self.objects) + 1
            at = datetime.now(UTC).isoformat()
            self.objects.append({"id": number, "text": text, "published_at": at, **others})
        async with self._more:
            self._more.notify_all()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((dict(request.query), dict(request.headers)))
        self.open += 1
        self._answered.append(request)
        live = sum(_is_live(one) for one in self._answered)
        self.most_open = max(self.most_open, live)
        try:
            if self.script:
                return await self.script.popleft()(self, request)
            return await self.stream(request)
        finally:
            self.open -= 1
            self._answered = [one for one in self._answered if one is not request]

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Answer as a stream should."""
        if (
            self.token is not None
            and request.headers.get("Authorization") != f"Bearer {self.token}"
        ):
            return web.Response(status=401)
        said = request.query.get("since", "")
        place = int(said) if said.isdecimal() else 0
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        with suppress(ConnectionError):
            while not self._ending:
                for each in self.objects[place : place + 1_000]:
                    await response.write(json.dumps(each).encode() + b"\n")
                    place += 1
                if place < len(self.objects):
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.keep_alive_seconds), self._more:
                        await self._more.wait()
                        continue
                await response.write(b"\r\n")
        return response


def _is_live(request: web.Request) -> bool:
    return request.transport is not None and not request.transport.is_closing()


def status(code: int, **headers: str) -> Behaviour:
    """Answer with a status; ``Retry_After`` writes ``Retry-After``."""

    async def answer(_: StreamServer, __: web.Request) -> web.StreamResponse:
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=code, headers=said)

    return answer


def pieces(*parts: bytes, cut: bool = False, silent: bool = False) -> Behaviour:
    """Answer with these bytes, each written by itself; then end, cut it off, or say no more."""

    async def answer(_: StreamServer, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for part in parts:
            await response.write(part)
            await asyncio.sleep(0)
        if silent:
            await asyncio.Event().wait()  # whoever hangs up ends it
        if cut and request.transport is not None:
            request.transport.abort()
        return response

    return answer


class Item(NamedTuple):
    """A made-up item."""

    text: str
    author: str


def made_up() -> Iterator[Item]:
    """Make up items without end, always the same ones."""
    chance = random.Random(21)  # noqa: S311  made-up data
    for number in itertools.count(1):
        words = ", ".join(chance.sample(_WORDS, 3))
        yield Item(f"News {number}: {words}.", chance.choice(_AUTHORS))


async def serve(port: int, seconds: float) -> None:
    """Publish a made-up item every so many seconds, for ever."""
    server = StreamServer(keep_alive_seconds=5.0)
    print(f"reads made-up items: curl -N {await server.start(port=port)}", flush=True)
    for item in made_up():
        await server.publish(item.text, author=item.author, language="en")
        await asyncio.sleep(seconds)


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m infra.local.stream_server")
    parser.add_argument("--port", type=int, default=8090)
    parser.add_argument("--seconds", type=float, default=0.5)
    options = parser.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(options.port, options.seconds))


if __name__ == "__main__":
    main()
