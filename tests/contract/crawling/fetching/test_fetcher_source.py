"""Downloads leave by the address that they are told to leave by."""

import asyncio
import sys

import pytest

from tests.contract.raw_site import LIMITS, ask, reply, site
from tests.kit.fetching import AiohttpFetcher
from tests.kit.kernel import ConnectFailedError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is there on Linux")


async def _peers(source_address: str | None) -> list[str]:
    peers: list[str] = []

    async def answer(head, writer):
        peers.append(writer.get_extra_info("peername")[0])
        writer.write(reply(b"hello"))

    async with (
        site(answer) as stands,
        AiohttpFetcher(allow_private=True, source_address=source_address) as fetcher,
    ):
        await fetcher.fetch(ask(stands.url("/page")), LIMITS)
    return peers


@pytest.mark.parametrize("address", ["127.0.0.2", "127.0.0.3"])
def test_a_download_leaves_by_the_address_of_its_pool(address):
    assert asyncio.run(_peers(address)) == [address]


def test_without_one_the_system_chooses():
    assert asyncio.run(_peers(None)) == ["127.0.0.1"]


def test_an_address_that_is_not_this_machines_is_a_failed_connection():
    with pytest.raises(ConnectFailedError):
        asyncio.run(_peers("192.0.2.1"))
