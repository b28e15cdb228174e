"""The site: count what it is asked for, and answer after a pause if one is set.

``python -m benchmarks.chaos.site_server`` prints its port and serves until its input closes. Beside
the pages there are ``/hits/RUN``, how often each page of a run was asked for, and
``/pause/MILLISECONDS``.
A request counts when it arrives: the work is done then, whoever is still there for the answer.
"""

import asyncio
import json
import sys
from collections import Counter, defaultdict
from typing import Final

from benchmarks.chaos.pages import page
from infra.local.parts import LOOPBACK

_END: Final = b"\r\n\r\n"


class Pages:
    """The state of the site: its pause, and the hits of each run by the number of the page."""

    def __init__(self) -> None:
        self.pause_seconds = 0.0
        self.hits: defaultdict[str, Counter[int]] = defaultdict(Counter)

    def answer(self, target: str) -> tuple[bytes, float]:
        """The answer to a target, and how long it waits."""
        first, _, second = target.lstrip("/").partition("/")
        if target == "/robots.txt":
            return _answer(b"", "text/plain"), 0.0  # nothing is forbidden
        if first == "hits":
            return _answer(json.dumps(self.hits[second]).encode(), "application/json"), 0.0
        if first == "pause":
            self.pause_seconds = int(second) / 1000
            return _answer(b"{}", "application/json"), 0.0
        self.hits[first][int(second)] += 1
        return _answer(page(int(second)), "text/html; charset=utf-8"), self.pause_seconds


def _answer(body: bytes, content_type: str) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Connection(asyncio.Protocol):
    """A connection of a client; requests have no body here."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._pending = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each whole request."""
        *heads, self._pending = (self._pending + data).split(_END)
        for head in heads:
            answer, pause = self._pages.answer(head.split(b" ", 2)[1].decode())
            if pause:
                asyncio.get_running_loop().call_later(pause, self._write, answer)
            else:
                self._write(answer)

    def _write(self, answer: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(answer)


async def serve() -> None:
    """Serve until standard input closes."""
    pages = Pages()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(pages), LOOPBACK, 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.buffer.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())
