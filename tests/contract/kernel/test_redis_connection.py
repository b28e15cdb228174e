"""The connection to Redis: replaced when it is lost, each process its own, its password kept."""

import subprocess
import sys
import threading

import pytest
import redis

from tests.contract.redis_calls import ANY_CALL, CALLS, ENTRIES, NOW, QUEUE_KEY, refused
from tests.kit.kernel import ConfigError
from tests.kit.queue import RedisQueue
from tests.kit.redis import RedisConnection


def close_all_others(url: str) -> None:
    """Let the server close every connection but this one, and return when it has."""
    with redis.Redis.from_url(url) as client:
        client.client_kill_filter(_type="normal", skipme=True)


@ANY_CALL
def test_connections_that_the_server_closed_are_replaced_unnoticed(own, own_server, call):
    CALLS["depth"](own)
    close_all_others(own_server)

    call(own)


def test_a_connection_idle_for_long_is_tried_before_it_carries_a_call(own, own_server):
    with RedisConnection(own_server, idle_seconds=0) as idle:
        CALLS["depth"](idle)
        close_all_others(own_server)
        pings = own.client.info("commandstats").get("cmdstat_ping", {"calls": 0})["calls"]

        CALLS["enqueue"](idle)

    assert own.client.info("commandstats")["cmdstat_ping"]["calls"] == pings + 1


def test_scripts_that_redis_forgot_are_sent_again(own):
    for call in CALLS.values():
        own.client.script_flush()
        call(own)


def test_a_forked_child_uses_connections_of_its_own(own_server):
    program = f"""
import os
from crawlfleet.kernel.redis.connection import RedisConnection
it = RedisConnection({own_server!r})
it.client.ping()
child = os.fork()
mine = [it.client.client_id() for _ in range(200)]
if child == 0:
    os._exit(0 if len(set(mine)) == 1 and it.client.ping() else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert len(set(mine)) == 1 and it.client.ping()
"""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("url", ["", "localhost:6379", "http://localhost", "redis://h:port/0"])
def test_an_address_that_is_none_is_a_error_in_the_configuration(url):
    with pytest.raises(ConfigError, match="redis_url"):
        RedisConnection(url)


def test_no_error_shows_the_password(own):
    own.client.config_set("requirepass", "s3cret")
    url = own.client.connection_pool.connection_kwargs
    address = f"redis://{url['host']}:{url['port']}/0"
    try:
        with RedisConnection(address, password="s3cret") as right:
            CALLS["depth"](right)
        with RedisConnection(address, password="wr0ng") as wrong:
            error = refused(lambda: CALLS["depth"](wrong))
    finally:
        with RedisConnection(address, password="s3cret") as right:
            right.client.config_set("requirepass", "")

    assert "wr0ng" not in f"{error} {error.__cause__}"
    with pytest.raises(ConfigError) as caught:
        RedisConnection("redis://:s3cret@host:port/0")
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_threads_share_a_connection_pool(own):
    queue = RedisQueue(own)
    threads = [
        threading.Thread(target=lambda: [queue.enqueue(QUEUE_KEY, ENTRIES, NOW) for _ in range(50)])
        for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert queue.depth(QUEUE_KEY).queued == 1000
