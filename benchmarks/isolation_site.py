"""The site of a hostile tenant: pages that are dear to read, to store or to follow.

``python -m benchmarks.isolation_site`` prints its port, answers at every address of this machine's
own (127.0.0.0/8) and serves until its input closes.
"""

import asyncio
import sys
from functools import cache
from typing import Final

from benchmarks.site_server import answer_of, path_of

#: Rows of a page of giant records, and the characters of each.
ROWS: Final = 500
ROW_CHARACTERS: Final = 1_000
#: Links of a page.
LINKS: Final = 1_000
#: Elements of a page that a hostile rule looks through again for each of them.
NODES: Final = 1_500
#: The robots.txt of the hosts of this network is long, mostly of what concerns others, and comes so
#: late; all others have none.
ROBOTS_NETWORK: Final = "127.100"
ROBOTS_SECONDS: Final = 0.5
ROBOTS_LINES: Final = 10_000
_END: Final = b"\r\n\r\n"


@cache
def page_of(kind: bytes) -> bytes:
    """Make the answer for a kind of page, the first part of its path."""
    if kind == b"records":
        rows = "".join(f"<li>{n}{'x' * ROW_CHARACTERS}</li>" for n in range(ROWS))
        return answer_of(f"<html><ul>{rows}</ul></html>".encode())
    if kind == b"rules":
        return answer_of(f"<html>{'<p>a</p>' * NODES}</html>".encode())
    if kind == b"robots.txt":
        others = "".join(f"Disallow: /{n}/*x*y*z\n" for n in range(ROBOTS_LINES))
        ours = "".join(f"Disallow: /{n}/*x*y*z\n" for n in range(500))
        return answer_of(f"User-agent: other\n{others}\nUser-agent: *\n{ours}".encode())
    status = {b"gone": "404 Not Found", b"busy": "503 Service Unavailable"}.get(kind)
    if status is not None:
        return f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode()
    return answer_of(b"<html><title>a page</title><p>text</p></html>")


def links_of(path: bytes) -> bytes:
    """Make a page with links that no other page has."""
    of = path.rpartition(b"/")[2].decode()
    links = "".join(f'<a href="/plain/{of}-{n}">a</a>' for n in range(LINKS))
    return answer_of(f"<html>{links}</html>".encode())


class Connection(asyncio.Protocol):
    """A connection of a client; requests have no body here."""

    def __init__(self) -> None:
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
            kind = path.split(b"/")[1]
            if kind != b"robots.txt":
                self._transport.write(links_of(path) if kind == b"links" else page_of(kind))
            elif f"\r\nHost: {ROBOTS_NETWORK}.".encode() in head:
                later = asyncio.get_running_loop().call_later
                later(ROBOTS_SECONDS, self._transport.write, page_of(kind))
            else:
                self._transport.write(page_of(b"gone"))


async def serve() -> None:
    """Serve until standard input closes."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "0.0.0.0", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.buffer.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())
