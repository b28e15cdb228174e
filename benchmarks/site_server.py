"""The site: answers from memory over bare sockets, so that it is faster than any crawler.

``python -m benchmarks.site_server FOLDER [SECONDS]`` prints its port and serves until its input
closes; with ``SECONDS`` every answer is so much later, as of a site that is far away.
"""

import asyncio
import resource
import sys
from pathlib import Path
from typing import Final

from infra.local.parts import LOOPBACK

_END: Final = b"\r\n\r\n"
NOT_FOUND: Final = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
#: Asked for this, the server answers with the CPU seconds that it has used.
CPU_PATH: Final = b"/.cpu"


def answer_of(page: bytes) -> bytes:
    """A page as it goes over the wire."""
    head = (
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(page)}\r\n\r\n"
    )
    return head.encode() + page


def answers_in(folder: Path) -> dict[bytes, bytes]:
    """Every page of a folder by the path it is asked for with."""
    return {
        f"/{page.name}".encode(): answer_of(page.read_bytes())
        for page in sorted(folder.glob("*.html"))
    }


def path_of(head: bytes) -> bytes:
    """The path in a request's head, its query left out.

    >>> path_of(b"GET /a.html?v=1 HTTP/1.1")
    b'/a.html'
    """
    parts = head.split(b" ", 2)
    return parts[1].partition(b"?")[0] if len(parts) == 3 else b""


def used() -> bytes:
    """The CPU seconds of this process, as a page."""
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return answer_of(f"{spent.ru_utime + spent.ru_stime:.6f}".encode())


class Connection(asyncio.Protocol):
    """A connection of a client; requests have no body here."""

    def __init__(self, answers: dict[bytes, bytes], delay: float = 0.0) -> None:
        self._answers = answers
        self._delay = delay
        self._pending = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            return
        *heads, self._pending = (self._pending + data).split(_END)
        for head in heads:
            path = path_of(head)
            answer = used() if path == CPU_PATH else self._answers.get(path, NOT_FOUND)
            if self._delay:
                # Nobody asks here before the last answer came, so answers keep their order.
                asyncio.get_running_loop().call_later(self._delay, self._transport.write, answer)
            else:
                self._transport.write(answer)


async def serve(folder: Path, delay: float) -> None:
    """Serve until standard input closes, each answer ``delay`` seconds after its request."""
    answers = answers_in(folder)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(answers, delay), LOOPBACK, 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.buffer.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.0))
