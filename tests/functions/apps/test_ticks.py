"""A scheduler that is silent or half fails is told of: by metrics, deep health and the monitor."""

import json
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from infra.local.mongo_server import MongoServer
from infra.local.parts import free_port
from tests.functions.apps.test_clock import LOOK, put, tick
from tests.functions.http import ask
from tests.kit.apps import SCALING_SECONDS, Scheduler, Verbs
from tests.kit.incidents import Kind
from tests.kit.kernel import Need, Settings, names
from tests.kit.queue import fleet_keys
from tests.kit.worlds.functions import World, a_world, default_bizs, throttled

EVENTS = Path(__file__).parents[3] / "events"
ALARM = json.loads((EVENTS / "scheduler" / "alarm.json").read_text())["event"]


@pytest.fixture(scope="module")
def standing_world(own_redis: str) -> Iterator[World]:
    """Yield a world with its own MongoDB: schedules that other tests leave due fail a tick."""
    with (
        MongoServer(cache_gb=0.25, own=True, volatile=True) as server,
        a_world(own_redis, server.uri, own_mongo=True) as world,
    ):
        yield world


@pytest.fixture(autouse=True)
def _cold(world):
    """End the environments before and after each test, with all that they opened or kept."""
    world.end_environments()
    yield
    world.end_environments()


def emitted(capsys) -> list[dict[str, Any]]:
    """Lines of metrics since the last look at them, of the stage alone."""
    lines = capsys.readouterr().out.splitlines()
    found = [json.loads(line) for line in lines if line.startswith('{"_aws"')]
    return [one for one in found if not {"part", "biz", "host"} & one.keys()]


def values(lines: list[dict[str, Any]], name: str) -> list[float]:
    return [value for line in lines for value in line.get(name, [])]


def reported(world) -> Any:
    """Return the last tick as deep health reports it."""
    world.end_environments()
    answer = ask(world, "GET", "/v1/health")
    return answer.json["deep"]["tick"]


def finding(world, capsys) -> list[float]:
    """Return the monitor's findings on the scheduler."""
    capsys.readouterr()
    world.call(names.MONITOR, LOOK)
    lines = emitted(capsys)
    assert values(lines, "Looks") == [1]
    # While nothing is at work a 0 is said once, where it ends a 1.
    return values(lines, "FindingSchedulerFaults") or [0]


def test_a_tick_is_a_metric_and_deep_health_says_when_it_was(world, capsys):
    tick(world)

    lines = emitted(capsys)
    assert (values(lines, "Ticks"), values(lines, "TickFaults")) == ([1], [])
    found = reported(world)
    assert found["faults"] == {}
    assert found["seconds_ago"] < 30
    assert 0 < found["took_seconds"] < 120
    assert finding(world, capsys) == [0]


def test_schedules_that_all_fail_are_faults_of_the_tick(world, capsys):
    due = put(world)
    world.clocks[names.SCHEDULER] = lambda: due
    world.end_environments()
    with world.refusing("jobs"):
        assert tick(world)["faults"] == 1

    lines = emitted(capsys)
    assert (values(lines, "Ticks"), values(lines, "TickFaults")) == ([1], [1])
    assert reported(world)["faults"] == {"schedules": 1}
    assert finding(world, capsys) == [1]

    soon = due + timedelta(minutes=1)
    world.clocks[names.SCHEDULER] = lambda: soon
    world.end_environments()
    assert tick(world)["faults"] == 0
    assert reported(world)["faults"] == {}
    assert finding(world, capsys) == [0]


#: By the verb that fails: the part that it is told by, and what the tick then does not answer.
BROKEN = {
    "run_due": ("schedules", {"fires"}),
    "resubmit_due": ("pages", {"recrawled"}),
    "tend_seeds": ("seeds", {"seeded"}),
    "announce_bizs": ("bizs", {"strays"}),
    "reap_until_sure": ("watch", {"buried"}),
    "recover": ("recovery", {"requeued", "expired", "orphans", "corrected"}),
    "scale_all": ("scaling", {"wanted", "started"}),
}


def a_scheduler(world, **verbs: Any) -> Scheduler:
    needs = (Need.REDIS, Need.NODES, Need.CONSUMER, Need.ID_ISSUER, Need.CEILING)
    return Scheduler(
        world.open(Settings.from_environment(needs=needs), names.SCHEDULER), Verbs(**verbs)
    )


@pytest.mark.parametrize(("broken", "part", "left_out"), [(k, *v) for k, v in BROKEN.items()])
def test_what_fails_is_reported_by_its_part_and_keeps_no_other_from_running(
    world, capsys, broken, part, left_out
):
    def fail(*_, **__):
        raise ZeroDivisionError("odd")

    done = a_scheduler(world, **{broken: fail}).tick("a-tick", lambda: 120.0)

    assert done["faults"] == 1
    every = set().union(*(missing for _, missing in BROKEN.values()))
    assert every - done.keys() == left_out
    assert values(emitted(capsys), "TickFaults") == [1]
    assert reported(world)["faults"] == {part: 1}


def test_workers_that_cannot_be_started_are_faults_of_scaling(world, capsys):
    answer = ask(world, "POST", "/v1/docs/requests", {"url": "https://a.example/", "rule": "page"})
    assert answer.status in {200, 202}, answer.text
    world.redis.delete(fleet_keys().wakes)
    world.end_environments()
    world.lambdas.faults[names.CONSUMER] = throttled()

    tick(world)

    assert reported(world)["faults"] == {"scaling": 1}


def test_what_is_slow_in_a_tick_does_not_keep_a_fleet_from_its_workers(world):
    """Workers are looked after first, and once more where the tick has made work for them."""
    order = []

    def noted(part, answer):
        def do(*_, **__):
            order.append(part)
            return answer

        return do

    def ticked(recrawled: int, seconds: float = 120.0) -> dict[str, int]:
        order.clear()
        one = a_scheduler(
            world,
            scale_all=lambda *a: order.append("scale") or Verbs().scale_all(*a),
            resubmit_due=noted("pages", recrawled),
        )
        return one.tick("slow", lambda: seconds)

    ticked(0)
    assert order == ["scale", "pages"]

    ticked(3)
    assert order == ["scale", "pages", "scale"]

    answered = ticked(3, SCALING_SECONDS - 1)
    assert order == ["scale", "pages"]
    assert {"wanted", "started", "recrawled"} <= answered.keys()


def test_a_fleet_that_was_never_ticked_for_is_found_in_time_and_long_after_the_last_one(
    world, capsys
):
    assert reported(world) == {"seconds_ago": None, "took_seconds": 0.0, "faults": {}}
    assert finding(world, capsys) == [0]

    long_ago = int((time.time() - 3_600) * 1000)
    world.redis.set(fleet_keys().tick, str(long_ago))
    assert reported(world)["seconds_ago"] is None
    assert finding(world, capsys) == [1]

    world.redis.set(fleet_keys().tick, f"{long_ago} 1.5 seeds 2")

    found = reported(world)
    assert 3_500 < found["seconds_ago"] < 3_700
    assert (found["took_seconds"], found["faults"]) == (1.5, {"seeds": 2})
    assert finding(world, capsys) == [1]


def test_a_stage_without_configuration_has_a_scheduler_that_ticks(world, capsys):
    listed = world.ssm.describe_parameters()["Parameters"]
    world.ssm.delete_parameters(Names=[one["Name"] for one in listed])
    world.end_environments()

    assert "nothing_to_do" in tick(world)

    lines = emitted(capsys)
    assert (values(lines, "Ticks"), values(lines, "TickFaults")) == ([1], [])
    world.push(default_bizs())


def test_an_alarm_that_calls_the_scheduler_is_no_tick(world, capsys):
    world.call(names.SCHEDULER, ALARM)

    assert values(emitted(capsys), "Ticks") == []
    assert reported(world)["seconds_ago"] is None


def test_a_tick_without_redis_is_a_metric_with_its_faults_and_nobody_knows_of_it(
    world, capsys, monkeypatch
):
    monkeypatch.setenv(names.ENV_REDIS_URL, f"redis://127.0.0.1:{free_port()}/0")
    world.end_environments()

    tick(world)

    [faults] = values(emitted(capsys), "TickFaults")
    assert faults >= 2
    assert reported(world) is None
    world.end_environments()


def test_the_finding_is_one_that_people_can_act_on():
    from tests.kit.incidents import ADVICE

    assert "scheduler-tick" in ADVICE[Kind.SCHEDULER_FAULTS].do
