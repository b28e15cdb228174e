"""Name servers of the attacker's."""

import asyncio
import socket

from aiohttp.abc import AbstractResolver


class Names(AbstractResolver):
    """A name server of the attacker's: every name leads to ``addresses``."""

    def __init__(self, *addresses):
        self.addresses = addresses

    async def resolve(self, host, port=0, family=socket.AF_UNSPEC):
        return [
            {
                "hostname": host,
                "host": address,
                "port": port,
                "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
                "proto": socket.IPPROTO_TCP,
                "flags": socket.AI_NUMERICHOST,
            }
            for address in self.addresses
        ]

    async def close(self):
        return None


class SilentNames(Names):
    async def resolve(self, host, port=0, family=socket.AF_UNSPEC):
        await asyncio.Event().wait()


class RebindingNames(Names):
    """Every name leads to the next one of ``addresses`` each time it is asked for."""

    def __init__(self, *addresses):
        super().__init__(*addresses)
        self.asked = 0

    async def resolve(self, host, port=0, family=socket.AF_UNSPEC):
        found = await super().resolve(host, port, family)
        self.asked += 1
        return [found[(self.asked - 1) % len(found)]]
