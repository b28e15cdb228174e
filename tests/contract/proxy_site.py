"""A forward proxy on loopback: it tunnels, passes on, and notes what it was told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aiohttp.abc import AbstractResolver

from tests.contract.raw_site import Site, reply

#: Where every name leads, for this proxy.
HERE = "127.0.0.1"


class Proxy(Site):
    """A proxy server's address, and the heads of the requests that reached it."""

    def __init__(
        self,
        authorization: bytes | None,
        names: AbstractResolver | None = None,
        *,
        takes_addresses: bool = True,
    ) -> None:
        super().__init__(0)
        self._authorization = authorization
        self._names, self._takes_addresses = names, takes_addresses
        self._tasks: set[asyncio.Task[None]] = set()

    def line(self, credentials: str = "") -> str:
        """The proxy as its line in a list."""
        return f"http://{credentials}{'@' if credentials else ''}{HERE}:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        self.connections += 1
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._one(reader, writer):
                    pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def end(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _leads_to(self, named: str) -> str:
        """Where the proxy connects to: the address that it is told, or what a name leads to."""
        if self._names is None:
            return HERE
        if named.replace(".", "").isdigit():
            return named
        return (await self._names.resolve(named))[0]["host"]

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Do what one request asks for; whether another one may follow."""
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        method, target, _ = head.split(b"\r\n")[0].split()
        reported = self._authorization
        if reported is not None and b"Proxy-Authorization: " + reported not in head:
            writer.write(reply(status=407, Proxy_Authenticate="Basic"))
            await writer.drain()
            return True
        place = target if method == b"CONNECT" else target.split(b"/")[2]
        named, _, port = place.decode().rpartition(":")
        if not self._takes_addresses and named.replace(".", "").isdigit():
            writer.write(reply(status=403))
            await writer.drain()
            return True
        there, onward = await asyncio.open_connection(await self._leads_to(named), int(port))
        try:
            if method == b"CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = asyncio.create_task(_pump(there, writer))
                await _pump(reader, onward)
                back.cancel()
                await asyncio.gather(back, return_exceptions=True)
            else:
                onward.write(_plain(head, target))
                said = await there.readuntil(b"\r\n\r\n")
                length = int(said.lower().partition(b"content-length: ")[2].split()[0])
                writer.write(said + await there.readexactly(length))
                return True
        finally:
            onward.transport.abort()
        return False


def _plain(head: bytes, target: bytes) -> bytes:
    """The request as the site gets it: its path alone, and nothing that was for the proxy."""
    lines = head.replace(target, b"/" + target.split(b"/", 3)[3], 1).split(b"\r\n")
    kept = [line for line in lines if not line.lower().startswith(b"proxy-")]
    return b"\r\n".join(kept)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()


@asynccontextmanager
async def proxy(
    authorization: bytes | None = None,
    port: int = 0,
    names: AbstractResolver | None = None,
    *,
    takes_addresses: bool = True,
    **options: object,
) -> AsyncIterator[Proxy]:
    """A proxy that asks for ``authorization``, if any; all leads to loopback without ``names``."""
    stands = Proxy(authorization, names, takes_addresses=takes_addresses)
    server = await asyncio.start_server(stands.serve, HERE, port, **options)
    stands.port = server.sockets[0].getsockname()[1]
    try:
        yield stands
    finally:
        server.close()
        await stands.end()
