"""The clocks: scheduler and monitor, called twice, late, at once, and right after known work."""

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from infra.local.parts import free_port
from tests.functions.http import ask, submit
from tests.kit.apps import Scheduler, now
from tests.kit.broken_servers import broken_server
from tests.kit.kernel import QueueKey, names
from tests.kit.mongo import Waits
from tests.kit.records import RedisDataQueue
from tests.kit.recovery import RedisBizs
from tests.kit.worlds.functions import throttled
from tests.waiting import eventually

EVENTS = Path(__file__).parents[3] / "events"
TICK = json.loads((EVENTS / "scheduler" / "tick.json").read_text())["event"]
LOOK = json.loads((EVENTS / "monitor" / "tick.json").read_text())["event"]
SCHEDULE = {
    "cron": "* * * * *",
    "rule": "page",
    "urls": ["https://a.example/", "https://b.example/"],
}


class Clock:
    """The scheduler's time, set by hand."""

    def __init__(self) -> None:
        self.now = now()

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock(world) -> Clock:
    clock = Clock()
    world.clocks[names.SCHEDULER] = clock
    return clock


def put(world, **changes: Any) -> datetime:
    """Make the schedule; its next fire time."""
    answer = ask(world, "PUT", "/v1/docs/schedules/minutely", {**SCHEDULE, **changes})
    assert answer.status == 200, answer.text
    return datetime.fromisoformat(answer.json["next_at"])


def tick(world) -> dict[str, int]:
    answer: dict[str, int] = world.call(names.SCHEDULER, TICK)
    return answer


def urls(world) -> list[str]:
    listed = ask(world, "GET", "/v1/docs/requests", query={"limit": "1000"}).json["requests"]
    return sorted(request["url"] for request in listed)


def test_a_schedule_fires_once_for_each_time_however_often_the_clock_ticks(world, clock):
    clock.now = put(world)

    ticks = [tick(world) for _ in range(3)]

    assert [each["fires"] for each in ticks] == [1, 0, 0]
    assert urls(world) == sorted(SCHEDULE["urls"])
    assert world.queued() == 2
    found = ask(world, "GET", "/v1/docs/schedules/minutely").json
    assert datetime.fromisoformat(found["last_fired_at"]) == clock.now
    assert datetime.fromisoformat(found["next_at"]) == clock.now + timedelta(minutes=1)


def test_a_schedule_that_comes_due_between_two_ticks_starts_its_job_at_its_time(world):
    began, first = now(), put(world, missed="latest", overlap="skip")
    late = first - timedelta(seconds=2) - began
    world.clocks[names.SCHEDULER] = lambda: now() + late
    state = ask(world, "GET", "/v1/docs/schedules/minutely").json["state"]

    done = tick(world)

    assert (state, done["fires"], done["tasks"]) == ("waiting", 1, 2)
    found = ask(world, "GET", "/v1/docs/schedules/minutely").json
    at = datetime.fromisoformat(found["last_outcome"]["at"])
    assert timedelta() <= at - first < timedelta(seconds=1)
    assert found["state"] == "running"
    runs = ask(world, "GET", "/v1/docs/schedules/minutely/next", query={"count": "2"}).json["runs"]
    assert [run["state"] for run in runs] == ["running", "waiting"]
    assert ask(world, "POST", "/v1/docs/schedules/minutely/pause").json["state"] == "paused"
    runs = ask(world, "GET", "/v1/docs/schedules/minutely/next", query={"count": "2"}).json["runs"]
    assert [run["state"] for run in runs] == ["paused", "paused"]


@pytest.mark.parametrize(("missed", "fires"), [("all", 4), ("latest", 1), ("skip", 4)])
def test_a_late_clock_makes_up_for_what_it_missed_as_the_schedule_says(world, clock, missed, fires):
    clock.now = put(world, missed=missed) + timedelta(minutes=3, seconds=30)

    assert tick(world)["fires"] == fires
    assert tick(world)["fires"] == 0
    assert len(urls(world)) == 2 * fires


def test_before_its_time_and_while_disabled_a_schedule_does_not_fire(world, clock):
    clock.now = put(world) - timedelta(seconds=31)
    assert tick(world)["fires"] == 0

    disabled = {**SCHEDULE, "enabled": False}
    assert ask(world, "PUT", "/v1/docs/schedules/minutely", disabled).status == 200
    clock.now += timedelta(hours=1)

    assert tick(world)["fires"] == 0
    assert urls(world) == []


@pytest.mark.parametrize(
    ("overlap", "jobs", "last", "wait"),
    [
        ("allow", ["expanding", "expanding", "expanding"], "started", 0),
        ("skip", ["expanding"], "skipped", 0),
        ("queue", ["expanding"], "waiting", 1),
        ("replace", ["cancelling", "cancelling", "expanding"], "started", 0),
    ],
)
def test_two_schedulers_at_the_same_moment_fire_once(world, clock, overlap, jobs, last, wait):
    first = put(world, overlap=overlap)
    clock.now = first + timedelta(minutes=2)
    schedulers = world.environments(names.SCHEDULER)
    start = Barrier(2)
    done: list[dict[str, int]] = []

    def run(scheduler: Scheduler) -> None:
        start.wait()
        done.append(scheduler.tick(f"s{id(scheduler)}", lambda: 120.0))

    threads = [Thread(target=run, args=(scheduler,)) for scheduler in schedulers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(done) == 2
    listed = ask(world, "GET", "/v1/docs/jobs").json["jobs"]
    begun = {"running": "expanding", "done": "expanding", "cancelled": "cancelling"}
    states = [begun.get(job["state"], job["state"]) for job in listed]
    assert sorted(states) == jobs
    assert len({job["fire_at"] for job in listed}) == len(jobs)
    if overlap != "replace":  # what is cancelled may have been made into tasks before
        assert len(urls(world)) == 2 * len(jobs)
    assert sum(each["fires"] for each in done) >= len(jobs), "one that comes second finds the job"
    found = ask(world, "GET", "/v1/docs/schedules/minutely").json
    assert found["last_outcome"]["outcome"] == last
    minutes = 1 if wait else 3
    assert datetime.fromisoformat(found["fire_at"]) == first + timedelta(minutes=minutes)


def test_an_id_issuer_that_fails_leaves_the_tasks_for_the_next_tick(world, clock):
    clock.now = put(world)
    world.end_environments()
    world.lambdas.faults[names.ID_ISSUER] = b'{"errorType": "X", "errorMessage": "y"}'
    assert (tick(world)["fires"], urls(world)) == (1, []), "the job stands"

    world.lambdas.faults.clear()
    clock.now += timedelta(seconds=25)  # no tick waits until the schedule fires again

    ticks: list[dict[str, int]] = []
    # Whose turn it is to make tasks goes by Redis' clock: the next one comes half a second later.
    eventually(lambda: ticks.append(tick(world)) or ticks[-1]["tasks"])
    assert [each["fires"] for each in ticks] == [0] * len(ticks)
    assert (ticks[-1]["tasks"], len(urls(world))) == (2, 2)


def test_a_tick_starts_as_many_consumers_as_the_backlog_wants(world):
    submit(world, *(f"https://example.org/{n}" for n in range(5)))
    assert world.lambdas.woken == [names.CONSUMER]
    world.redis.delete("cf:{fleet}:wakes")  # that one never came

    assert tick(world)["started"] == 1
    assert tick(world)["started"] == 0, "the started one has not had the time to come"
    assert world.lambdas.woken == [names.CONSUMER] * 2


def test_a_tick_without_mongodb_still_sees_to_the_consumers(world):
    submit(world, "https://example.org/")
    world.redis.delete("cf:{fleet}:wakes")
    world.end_environments()
    world.dead.add("secretsmanager")  # which holds the nodes' addresses

    done = tick(world)

    faults = done["faults"]
    assert faults >= 2, "schedules, and what each biz should have back"
    wanted = {"wanted": 1, "kept": 1, "limit": 3, "started": 1, "faults": faults}
    assert done == dict.fromkeys(done, 0) | wanted
    assert "fires" not in done


def test_a_tick_that_can_start_nobody_has_done_the_rest(world, clock):
    clock.now = put(world)
    world.lambdas.faults[names.CONSUMER] = throttled()
    world.redis.delete("cf:{fleet}:wakes")

    done = tick(world)

    assert done["fires"] == 1
    assert len(urls(world)) == 2


# ---- the monitor ---------------------------------------------------------------------------------


def look(world, capsys) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run one evaluation; return its result and the lines of metrics that it printed."""
    capsys.readouterr()
    answer = world.call(names.MONITOR, LOOK)
    lines = [line for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
    return answer, [json.loads(line) for line in lines]


def value(lines: list[dict[str, Any]], metric: str, **dimensions: str) -> float:
    """The one value of a metric under exactly these dimensions, the stage aside."""
    found = [
        line[metric]
        for line in lines
        if metric in line
        and {*line["_aws"]["CloudWatchMetrics"][0]["Dimensions"][0]} == {"stage", *dimensions}
        and all(line[name] == text for name, text in dimensions.items())
    ]
    assert len(found) == 1, (metric, dimensions, found)
    number = found[0][0] if isinstance(found[0], list) else found[0]
    return float(number)


def test_every_line_is_valid_embedded_metric_format(world, capsys):
    submit(world, "https://example.org/")
    _, lines = look(world, capsys)

    assert lines
    fine = set()
    for line in lines:
        [directive] = line["_aws"]["CloudWatchMetrics"]
        assert abs(line["_aws"]["Timestamp"] / 1000 - datetime.now(UTC).timestamp()) < 120
        assert directive["Namespace"] == names.METRIC_NAMESPACE
        [dimensions] = directive["Dimensions"]
        assert dimensions[0] == "stage"
        assert len(dimensions) <= 30
        assert all(isinstance(line[name], str) and line[name] for name in dimensions)
        assert line["stage"] == "test"
        assert 1 <= len(directive["Metrics"]) <= 100
        for metric in directive["Metrics"]:
            values = line[metric["Name"]]
            assert all(
                isinstance(v, int | float)
                for v in (values if isinstance(values, list) else [values])
            )
            assert metric["Unit"] in {"Count", "Seconds", "Bytes", "Count/Second", "None"}
            assert metric.get("StorageResolution", 60) in {1, 60}
            if metric.get("StorageResolution") == 1:
                fine.add(metric["Name"])
        assert set(line) == {"_aws", *dimensions, *(m["Name"] for m in directive["Metrics"])}
    assert fine <= {"Submitted", "Processed"}


def test_backlog_and_totals_are_those_of_this_moment(world, capsys):
    submit(world, *(f"https://example.org/{n}" for n in range(7)))
    here = {"tenant": world.tenants["acme"], "biz": "docs"}

    answer, lines = look(world, capsys)

    assert (answer["unwell"], answer["unread"]) == ({}, [])
    assert value(lines, "Backlog", **here) == 7
    assert value(lines, "LedgerDifference", **here) == 0
    assert value(lines, "Dead", **here) == 0
    assert value(lines, "Backlog") == 7
    assert value(lines, "ConfigRefused") == 0
    assert value(lines, "Looks") == 1
    assert value(lines, "Unread") == 0
    assert value(lines, "NodeUp", part="redis", node="redis") == 1
    assert value(lines, "NodeUp", part="mongodb", node="main") == 1
    rivals = [line for line in lines if line.get("tenant") == world.tenants["rival"]]
    assert rivals == [], "a biz without work costs nothing"


def seconds(lines: list[dict[str, Any]], metric: str, **dimensions: str) -> dict[int, float]:
    """A metric's value by its second, under exactly these dimensions."""
    return {
        line["_aws"]["Timestamp"] // 1000: line[metric][0]
        for line in lines
        if metric in line
        and {*line["_aws"]["CloudWatchMetrics"][0]["Dimensions"][0]} == {"stage", *dimensions}
        and all(line[name] == text for name, text in dimensions.items())
    }


def test_rates_count_the_seconds_that_are_over(world, capsys):
    world.end_environments()  # a monitor remembers which seconds it has told of
    # Of the five seconds before that the first is over, and the four that come are room enough.
    soon = now() + timedelta(seconds=4)
    submit(world, *(f"https://example.org/{n}" for n in range(30)))
    world.clocks[names.MONITOR] = lambda: soon
    here = {"tenant": world.tenants["acme"], "biz": "docs"}

    _, lines = look(world, capsys)

    assert value(lines, "SubmittedRate60s") == pytest.approx(0.5)
    assert value(lines, "SubmittedRate5s") == pytest.approx(6.0)
    assert value(lines, "ProcessedRate60s") == 0
    assert sum(seconds(lines, "Submitted", **here).values()) == 30
    assert seconds(lines, "Submitted") == seconds(lines, "Submitted", **here)


def test_evaluating_twice_prints_each_second_once(world, capsys):
    world.end_environments()
    submit(world, "https://example.org/")
    soon = now() + timedelta(seconds=4)
    world.clocks[names.MONITOR] = lambda: soon

    first, second = (seconds(look(world, capsys)[1], "Submitted") for _ in range(2))

    assert sum(first.values()) == 1
    assert second == {}


def test_a_dead_redis_is_a_metric_and_no_error(world, capsys, monkeypatch):
    world.end_environments()
    monkeypatch.setenv(names.ENV_REDIS_URL, f"redis://127.0.0.1:{free_port()}/0")

    answer, lines = look(world, capsys)

    assert value(lines, "NodeUp", part="redis", node="redis") == 0
    assert value(lines, "NodeHealthy", part="redis", node="redis") == 0
    assert value(lines, "NodeUp", part="mongodb", node="main") == 1
    assert list(answer["unwell"]) == ["redis:redis"]
    assert answer["unread"] == ["workers", "queues", "strays", "ticks", "quotas"]
    assert value(lines, "LedgerDifference") == 0, "MongoDB is well, so its ledgers are read"
    assert value(lines, "Unread") == 5
    world.end_environments()


def test_a_dead_node_is_a_metric_and_no_error(world, capsys):
    submit(world, "https://example.org/")
    here = {"tenant": world.tenants["acme"], "biz": "docs"}

    with world.node_at(f"mongodb://127.0.0.1:{free_port()}/?directConnection=true"):
        answer, lines = look(world, capsys)

    assert value(lines, "NodeUp", part="mongodb", node="main") == 0
    assert value(lines, "NodeUp", part="redis", node="redis") == 1
    assert value(lines, "Backlog", **here) == 1
    assert not any("LedgerDifference" in line for line in lines)
    assert {what.split(" of ")[0] for what in answer["unread"]} == {"ledger", "fires", "streams"}


def test_without_the_secret_store_the_monitor_says_that_it_is_blind(world, capsys):
    world.end_environments()
    world.dead.add("secretsmanager")

    answer, lines = look(world, capsys)

    assert value(lines, "Looks") == 1
    assert value(lines, "NodeUp", part="mongodb", node="main") == 0
    assert value(lines, "NodeUp", part="redis", node="redis") == 1
    assert "mongodb:main" in answer["unwell"]


def test_a_password_of_redis_that_cannot_be_read_leaves_an_evaluation_that_says_so(
    world, capsys, monkeypatch
):
    world.end_environments()
    monkeypatch.setenv(names.ENV_REDIS_SECRET, "nowhere")
    world.dead.add("secretsmanager")

    answer, lines = look(world, capsys)

    assert (value(lines, "Looks"), value(lines, "Unread")) == (1, 1)
    assert value(lines, "NodeUp", part="redis", node="redis") == 0
    assert answer["unread"] == ["everything"]
    world.end_environments()


def test_servers_that_hang_cost_an_evaluation_no_more_than_its_time(world, capsys, monkeypatch):
    world.end_environments()
    world.node_waits = Waits()
    with broken_server(None) as redis, broken_server(None) as node:
        monkeypatch.setenv(names.ENV_REDIS_URL, f"redis://{redis}/0")
        with world.node_at(f"mongodb://{node}/?directConnection=true"):
            began = time.monotonic()

            answer, lines = look(world, capsys)

            took = time.monotonic() - began
    assert took < 60, "that is what the monitor has"
    assert value(lines, "NodeUp", part="redis", node="redis") == 0
    assert value(lines, "NodeUp", part="mongodb", node="main") == 0
    assert value(lines, "LookSeconds") < 30
    assert {"workers", "queues", "strays", "ticks"} < set(answer["unread"])
    world.end_environments()


def test_without_any_configuration_redis_is_looked_at_all_the_same(world, capsys):
    world.end_environments()
    world.dead.add("ssm")

    answer, lines = look(world, capsys)

    assert value(lines, "ConfigRefused") == 1
    assert value(lines, "NodeUp", part="redis", node="redis") == 1
    assert answer["unwell"] == {}


def test_items_for_a_biz_that_there_is_not_are_reported_of_by_every_tick(world, capsys, caplog):
    tenant = next(iter(world.tenants.values()))
    queue_key = QueueKey(tenant, "nobiz", "main")
    redis = world.own.redis
    assert RedisBizs(redis).ask(queue_key) == (None, [])
    RedisDataQueue(redis).put(queue_key, [b"{}", b"{}"])
    for _ in range(2):
        assert tick(world)["strays"] == 2
        assert '"StrayItems":[2.0]' in capsys.readouterr().out
        assert f"{tenant}/nobiz: 2 " in caplog.text
        caplog.clear()
    assert RedisDataQueue(redis).waiting([queue_key]) == [2]
    there, others = RedisBizs(redis).ask(queue_key)
    assert (there, "docs" in others) == (False, True)
