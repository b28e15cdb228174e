"""What a Redis user must be allowed, as docs/operating.md says it."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from crawlfleet.adapters.redis_queue.clock import ServerClock
from crawlfleet.adapters.redis_queue.connection import RedisConnection
from crawlfleet.errors import StoreUnavailableError
from infra.local.redis_server import RedisServer
from tests.contract.test_redis_faults import CALLS, NOW


@pytest.fixture(scope="module")
def restricted() -> Iterator[RedisConnection]:
    page = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()
    found = re.search(r"`(~cf:\* [^`]+)`", page)
    assert found is not None
    with RedisServer(own=True) as server, RedisConnection(server.url) as administrator:
        rules = ["reset", "on", ">secret", *found[1].split()]
        administrator.client.execute_command("ACL", "SETUSER", "crawlfleet", *rules)
        url = server.url.replace("redis://", "redis://crawlfleet:secret@")
        with RedisConnection(url) as connection:
            yield connection


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_restricted_user_may_do_all_that_is_called(restricted, call):
    call(restricted)


def test_a_restricted_user_may_read_the_clock_and_the_figures(restricted):
    told = ServerClock(restricted, wall=lambda: NOW)()

    assert told - NOW > timedelta(days=1)
    assert restricted.client.info()["run_id"]


def test_a_restricted_user_may_do_nothing_else(restricted):
    with pytest.raises(StoreUnavailableError, match="NoPermissionError"):
        restricted.together(("FLUSHALL",))
