"""A doorway forwards connections to the same port of loopback, both ways, while it is open.

All of 127.0.0.0/8 is this machine's on Linux, so another address than 127.0.0.1 is at hand.
"""

import socket
import threading

import pytest
import redis

from infra.localstack.doorway import Doorway
from tests.waiting import eventually

ELSEWHERE = "127.0.0.2"


def port_of(url):
    return int(url.rpartition(":")[2].partition("/")[0])


def test_a_server_on_loopback_answers_at_the_other_address(redis_url):
    port = port_of(redis_url)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((ELSEWHERE, port), 5).close()

    with Doorway(ELSEWHERE, port), redis.Redis(host=ELSEWHERE, port=port) as client:
        assert client.ping()
        # More than one piece in either direction.
        assert client.echo(b"x" * 3_000_000) == b"x" * 3_000_000

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((ELSEWHERE, port), 5).close()


def test_who_is_inside_when_it_ends_is_cut_off(redis_url):
    port = port_of(redis_url)
    with Doorway(ELSEWHERE, port):
        caller = socket.create_connection((ELSEWHERE, port), 5)
        caller.sendall(b"PING\r\n")
        assert caller.recv(100) == b"+PONG\r\n"
    with caller:
        caller.settimeout(60)
        assert caller.recv(100) == b""


def test_where_nobody_listens_the_caller_is_let_go():
    with socket.create_server((ELSEWHERE, 0)) as taken:
        port = taken.getsockname()[1]
    with Doorway(ELSEWHERE, port), socket.create_connection((ELSEWHERE, port), 5) as caller:
        caller.settimeout(60)
        assert caller.recv(100) == b""


def test_no_thread_stays_behind(redis_url):
    port = port_of(redis_url)
    with Doorway(ELSEWHERE, port), redis.Redis(host=ELSEWHERE, port=port) as client:
        client.ping()

    eventually(lambda: not any(f"doorway {port}" in one.name for one in threading.enumerate()))
