import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from infra.local.redis_server import RedisServer
from tests.kit.broken_servers import Proxy, broken_server, closed_port
from tests.kit.patience import patient
from tests.kit.redis import RedisConnection, ServerClock

NEARLY = timedelta(seconds=30)  # a machine may stand still between two looks


class Steady:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def redis(redis_url):
    with RedisConnection(redis_url) as connection:
        yield connection


def test_it_reports_the_servers_time_however_wrong_the_machines_clock_is(redis):
    wrong = datetime(2001, 1, 1, tzinfo=UTC)

    clock = ServerClock(redis, wall=lambda: wrong)

    assert abs(clock() - datetime.now(UTC)) < NEARLY


def test_a_step_of_the_machines_clock_does_not_move_it(redis):
    wall = [datetime.now(UTC)]
    clock = ServerClock(redis, wall=lambda: wall[0])
    before = clock()

    wall[0] += timedelta(hours=1)

    assert timedelta(0) <= clock() - before < NEARLY


def test_between_two_looks_it_goes_by_the_steady_clock(redis):
    steady = Steady()
    clock = ServerClock(redis, steady=steady)
    before = clock()

    steady.seconds += 3

    assert clock() - before == timedelta(seconds=3)


def test_after_a_pause_in_which_the_steady_clock_stood_it_is_looked_up_anew(redis):
    steady = Steady()
    clock = ServerClock(redis, steady=steady)
    clock()
    steady.seconds += 3600  # wrong by an hour, as after a pause, only the other way round
    clock.sync()

    assert abs(clock() - datetime.now(UTC)) < NEARLY


def test_it_goes_on_from_the_last_answer_when_redis_is_away():
    steady = Steady()
    with RedisServer(own=True) as server, RedisConnection(patient(server.url)) as connection:
        clock = ServerClock(connection, steady=steady)
        before = clock()
        server.stop()
        steady.seconds += 60

        assert clock() - before == timedelta(seconds=60)


def test_an_event_loop_does_not_wait_for_a_redis_that_hangs(redis):
    """A blocked event loop stops all downloads, and pages time out one after the other."""
    steady = Steady()
    where = redis.client.connection_pool.connection_kwargs
    proxy = Proxy(where["host"], where["port"])
    questions = []

    class Asking(ServerClock):
        def sync(self):
            if proxy.silent:
                questions.append("the server is asked")
            else:
                super().sync()

    with RedisConnection(f"redis://{proxy.address}") as connection:
        clock = Asking(connection, steady=steady)
        before = clock()
        proxy.silent = True
        steady.seconds += 60

        async def asked() -> datetime:
            return clock()

        reported = asyncio.run(asked())
        assert questions == [], "the loop would wait for the answer"
        clock()
        assert questions != [], "another thread asks"
    proxy.close()

    assert reported - before == timedelta(seconds=60)


def test_where_redis_never_answered_it_is_the_machines_own():
    wall = datetime(2026, 1, 1, tzinfo=UTC)
    with closed_port() as address, RedisConnection(f"redis://{address}") as connection:
        assert ServerClock(connection, wall=lambda: wall)() == wall


@pytest.mark.parametrize("answer", [b"+QUEUED\r\n:7\r\n", b"+QUEUED\r\n", b"*2\r\n:1\r\n:2\r\n"])
def test_a_server_that_talks_nonsense_is_not_believed(answer):
    """The driver reads the first two characters of a text as seconds and microseconds."""
    wall = datetime(2026, 1, 1, tzinfo=UTC)
    with broken_server(answer) as address, RedisConnection(f"redis://{address}") as connection:
        assert ServerClock(connection, wall=lambda: wall)() == wall
