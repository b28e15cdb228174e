"""An alarm on its way through the scheduler, on real servers: who is started, what is allowed."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from infra.local.parts import free_port
from tests.functions.http import ask
from tests.functions.requests.test_twice import batch
from tests.kit.kernel import StoreUnavailableError, names
from tests.kit.worlds.functions import CEILING, Context, World, default_bizs

EVENTS = Path(__file__).parents[3] / "events" / "scheduler"
ALARM = json.loads((EVENTS / "alarm.json").read_text())["event"]
TICK = json.loads((EVENTS / "tick.json").read_text())["event"]
MANY = {
    "fleet": {"requests_per_consumer": 10, "max_consumers": 4, "concurrency": 8, "batch": 10},
    # Nobody of these hosts is to be asked: only how many workers there are is looked at.
    "hosts": {"per_second": 100_000, "concurrency": 10_000},
}


@pytest.fixture
def busy(world: World) -> World:
    """Forty requests, for which four workers are wanted; one was woken by the submission."""
    world.fresh(default_bizs(), stage=MANY)
    answer = ask(world, "POST", "/v1/docs/requests", batch(40))
    assert answer.status == 202, answer.text
    assert world.lambdas.woken == [names.CONSUMER]
    world.lambdas.woken.clear()
    return world


def alarm(world: World) -> Any:
    return world.call(names.SCHEDULER, ALARM)


def test_an_alarm_starts_what_is_missing_at_once_and_allows_that_many(busy):
    done = alarm(busy)

    assert (done["wanted"], done["live"], done["started"]) == (4, 1, 3)
    assert busy.lambdas.woken == [names.CONSUMER] * 3
    assert busy.lambdas.reserved == done["limit"] == CEILING


def test_the_tick_does_the_same_beside_its_other_work(busy):
    done = busy.call(names.SCHEDULER, TICK)

    assert (done["wanted"], done["started"]) == (4, 3)
    assert {"fires", "requeued", "buried"} <= done.keys()
    assert busy.lambdas.reserved == CEILING


def test_when_all_is_done_the_concurrency_goes_back_and_nobody_is_started(world):
    world.fresh(default_bizs(), stage=MANY)
    world.lambdas.reserved = CEILING

    done = alarm(world)

    assert (done["wanted"], done["started"], done["limit"]) == (0, 0, 2)
    assert world.lambdas.reserved == 2


def test_while_redis_is_away_an_alarm_is_a_failure_and_nobody_is_started(busy, monkeypatch):
    busy.end_environments()
    monkeypatch.setenv(names.ENV_REDIS_URL, f"redis://127.0.0.1:{free_port()}")

    with pytest.raises(StoreUnavailableError):
        alarm(busy)

    assert busy.lambdas.woken == []
    assert busy.lambdas.reserved is None


class Passing(Context):
    """A Lambda context whose remaining time decreases."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self._end = time.monotonic() + seconds

    def get_remaining_time_in_millis(self) -> int:
        return int((self._end - time.monotonic()) * 1000)


def test_a_worker_with_nothing_to_do_stays_until_its_time_is_up_if_it_is_to_be_kept(world):
    """And has the next one started in its place; without a minimum it ends at once."""
    world.end_environments()
    idle = {"max_consumers": 2, "idle_seconds": 0.5}
    world.fresh(default_bizs(), stage={"fleet": idle})
    assert world.work()["stopped_because"] == "idle"

    world.fresh(default_bizs(), stage={"fleet": {**idle, "min_consumers": 1}})
    world.call(names.SCHEDULER, ALARM)
    world.lambdas.woken.clear()
    began = time.monotonic()
    # A worker ends when 25 seconds of it are left, or a little more.
    ended = world.call(names.CONSUMER, {}, Passing(32.0))

    assert ended["stopped_because"] == "time"
    assert time.monotonic() - began > 2 * idle["idle_seconds"]
    assert world.lambdas.woken == [names.CONSUMER]
