"""Tests of incidents, from the monitor's findings to notifications and the API.

The book of incidents is the stage's: a MongoDB of its own keeps the monitors of other modules, who
have no topics and so only log their notifications, from acquiring its lock.
"""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from infra.local.mongo_server import MongoServer
from tests.functions.http import ask, submit
from tests.kit.jobs import MongoJobs
from tests.kit.kernel import names
from tests.kit.topics import Refusing, Topic
from tests.kit.worlds.functions import PAGE_RULE, STAGE, World, a_world, biz, default_bizs
from tests.waiting import eventually

TICK = {"source": "aws.events", "detail-type": "Scheduled Event"}
QUICK = {"bad_looks": 1, "good_looks": 1}
PATIENT = {"oldest_waiting_seconds": 9_999.0}


class Stage:
    """The world with both topics; the oldest request of acme's docs may wait for a minute."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.people = Topic(names.topic_name(STAGE, "people"))
        self.machines = Topic(names.topic_name(STAGE, "machines"))
        self.tenant = world.tenants["acme"]
        self._heard: list[str] = []

    def push(self, seconds: float, **stage: Any) -> None:
        bizs = default_bizs()
        bizs["acme"]["docs"] = biz(thresholds={"oldest_waiting_seconds": seconds})
        self.world.push(bizs, stage={"alarms": QUICK, **stage})

    def look(self) -> Any:
        return self.world.call(names.MONITOR, TICK)

    def subjects(self) -> list[str]:
        """Evaluate once more; return the subjects of all notifications about this tenant so far."""
        self.look()
        self._heard += [one["Subject"] for one in self.people.heard()]
        return [subject for subject in self._heard if self.tenant in subject]


@pytest.fixture(scope="module")
def standing_world(own_redis: str) -> Iterator[World]:
    with (
        MongoServer(cache_gb=0.25, own=True, volatile=True) as server,
        a_world(own_redis, server.uri, own_mongo=True) as world,
    ):
        yield world


@pytest.fixture
def stage(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    world.end_environments()
    made = Stage(world)
    monkeypatch.setenv(names.ENV_PEOPLE_TOPIC, made.people.arn)
    monkeypatch.setenv(names.ENV_MACHINES_TOPIC, made.machines.arn)
    made.push(60.0)
    submit(world, "https://example.org/")
    old = datetime.now(UTC) - timedelta(minutes=5)
    for key in world.redis.scan_iter(f"cf:{{{made.tenant}:docs}}:queue:main"):
        [entry] = world.redis.lrange(key, 0, -1)
        document = json.loads(entry)
        document["ts"] = int(old.timestamp() * 1000)
        world.redis.lset(key, 0, json.dumps(document))
    yield made
    world.end_environments()


def told(stage: Stage, *endings: str) -> Callable[[], bool]:
    return lambda: [subject.split()[2] for subject in stage.subjects()] == list(endings)


def test_what_waits_too_long_is_reported_once_and_so_is_its_end(stage: Stage):
    eventually(told(stage, "warning:"), what="a message about the oldest request")
    stage.world.end_environments()
    for _ in range(3):
        assert told(stage, "warning:")()

    stage.push(9_999.0)

    eventually(told(stage, "warning:", "over:"), what="a message about its end")


def test_a_job_that_no_worker_suits_is_reported_with_what_it_wanted_and_what_was_on_offer(
    stage: Stage,
):
    stage.push(9_999.0, bidding={})
    order = {"rule": "page", "urls": ["https://example.org/"], "name": "june"}
    assert ask(stage.world, "POST", "/v1/docs/jobs", order).json["state"] == "placing"
    jobs = MongoJobs(stage.world.parts[-1].nodes)
    job = jobs.get(stage.tenant, "docs", "june")
    assert job is not None
    why = "no worker suits it: it wants memory 9.0 GB; on offer were main: memory: 1.0 GB left"
    assert jobs.unplace(job, why, datetime.now(UTC))
    said: list[str] = []

    def is_reported() -> bool:
        stage.look()
        said.extend(one["Message"] for one in stage.people.heard())
        return any(stage.tenant in one and "june" in one for one in said)

    eventually(is_reported, what="a message about the job")

    [message] = [one for one in said if "june" in one]
    assert "it wants memory 9.0 GB; on offer were main: memory: 1.0 GB left" in message


def test_a_job_at_which_no_worker_looks_is_reported_of_when_the_stage_has_no_patience_any_more(
    stage: Stage,
):
    stage.push(9_999.0, bidding={"patience_seconds": 0.1})
    order = {"rule": "page", "urls": ["https://example.org/"], "name": "july"}
    assert ask(stage.world, "POST", "/v1/docs/jobs", order).json["state"] == "placing"
    said: list[str] = []

    def is_reported() -> bool:
        stage.look()
        said.extend(one["Message"] for one in stage.people.heard())
        return any(stage.tenant in one and "july" in one for one in said)

    eventually(is_reported, what="a message about the job")

    [message] = [one for one in said if "july" in one]
    assert "july waits since " in message
    assert ask(stage.world, "GET", "/v1/docs/jobs/july").json["state"] == "placing"


def test_a_schedule_whose_rule_is_gone_is_reported_until_a_later_fire_works(stage: Stage):
    world, clock = stage.world, stage.world.clocks
    timed = {"cron": "* * * * *", "rule": "page", "urls": ["https://example.org/timed"]}
    stage.push(9_999.0)
    assert ask(world, "PUT", "/v1/docs/schedules/nightly", timed).status == 200
    without = default_bizs()
    without["acme"]["docs"] = biz({"other": PAGE_RULE}, thresholds=PATIENT)
    world.push(without, stage={"alarms": QUICK})
    soon = datetime.now(UTC) + timedelta(minutes=1)
    clock[names.SCHEDULER] = lambda: soon

    world.call(names.SCHEDULER, {})

    heard: list[str] = []

    def is_heard(*words: str) -> Callable[[], bool]:
        def look() -> bool:
            stage.look()
            heard.extend(f"{one['Subject']}\n{one['Message']}" for one in stage.people.heard())
            return any(all(word in each for word in (stage.tenant, *words)) for each in heard)

        return look

    eventually(is_heard("nightly, the fire of "), what="a message about the schedule")
    [message] = [each for each in heard if "nightly" in each]
    assert "warning: " in message.splitlines()[0]
    assert "its schedules start no jobs" in message
    assert "rule" in message.partition("nightly, the fire of ")[2]
    stage.push(9_999.0)
    clock[names.SCHEDULER] = lambda: soon + timedelta(minutes=15)
    world.call(names.SCHEDULER, {})
    found = ask(world, "GET", "/v1/docs/schedules/nightly").json
    assert found["last_outcome"]["outcome"] == "started"
    assert found["last_failure"]["outcome"] == "failed"
    eventually(is_heard("over: ", "its schedules start no jobs"), what="a message about its end")


def test_operations_that_were_slow_between_two_evaluations_are_reported(stage: Stage):
    stage.push(9_999.0, thresholds={"slow_operations": 3})
    things = stage.world.mongo[f"cf_{stage.tenant}_db"]["slow_things"]
    things.insert_many([{"n": n} for n in range(11)])
    said: list[str] = []

    def is_reported() -> bool:
        stage.world.clocks[names.MONITOR] = lambda: datetime.now(UTC) - timedelta(minutes=1)
        stage.look()
        del stage.world.clocks[names.MONITOR]
        with ThreadPoolExecutor(6) as executor:
            slow = {"$where": "sleep(100); return false"}
            list(executor.map(lambda _: list(things.find(slow)), range(6)))
        stage.look()
        said.extend(one["Message"] for one in stage.people.heard())
        return any("operations a minute are slow, more than 3" in one for one in said)

    stage.world.end_environments()
    eventually(is_reported, what="a message about slow operations")


def test_a_disk_that_fills_is_reported_by_its_share(stage: Stage):
    stage.push(9_999.0, thresholds={"storage_ratio": 0.0001})
    said: list[str] = []

    def is_reported() -> bool:
        stage.look()
        said.extend(one["Message"] for one in stage.people.heard())
        return any("of its disk is used, more than 0%" in one for one in said)

    stage.world.end_environments()
    eventually(is_reported, what="a message about the disk")


def test_machines_hear_the_same_as_json(stage: Stage):
    eventually(told(stage, "warning:"), what="a message about the oldest request")

    found: list[dict[str, Any]] = []

    def is_heard() -> bool:
        heard = [json.loads(one["Message"]) for one in stage.machines.heard()]
        found.extend(one for one in heard if one["tenant"] == stage.tenant)
        return bool(found)

    eventually(is_heard, what="the same for machines")
    [incident] = found[0]["incidents"]
    assert (incident["kind"], incident["event"]) == ("oldest_waiting", "opened")
    assert incident["value"] > incident["threshold"] == 60.0


def test_a_tenant_reads_its_own_incidents_and_an_operator_everybodys(stage: Stage):
    eventually(told(stage, "warning:"), what="a message about the oldest request")
    [mine] = ask(stage.world, "GET", "/v1/incidents").json["incidents"]
    assert (mine["tenant"], mine["biz"], mine["state"]) == (stage.tenant, "docs", "open")
    assert (mine["told"], mine["owed"]) == ("opened", None)
    assert mine["do"].startswith("`crawlfleet stats docs`")

    theirs = ask(stage.world, "GET", "/v1/incidents", key="rival", query={"state": "all"})
    assert theirs.json == {"incidents": [], "cursor": None, "more": False}

    stage.push(60.0, operators=[stage.world.tenants["rival"]])
    every = ask(stage.world, "GET", "/v1/incidents", key="rival", query={"limit": "500"})
    assert mine["id"] in {one["id"] for one in every.json["incidents"]}


def test_an_incident_is_acknowledged_and_silenced_by_whose_it_is(stage: Stage):
    eventually(told(stage, "warning:"), what="a message about the oldest request")
    [mine] = ask(stage.world, "GET", "/v1/incidents").json["incidents"]
    place = f"/v1/incidents/{mine['id']}"

    known = ask(stage.world, "POST", f"{place}/acknowledge", {"why": "Ann is at it"}).json
    assert (known["acknowledged"]["by"], known["acknowledged"]["why"]) == (
        stage.tenant,
        "Ann is at it",
    )
    assert ask(stage.world, "POST", f"{place}/acknowledge", key="rival").status == 404
    ask(stage.world, "POST", f"{place}/silence", {"seconds": 3_600})
    [found] = ask(stage.world, "GET", "/v1/incidents").json["incidents"]
    assert found["silenced"]["until"] > found["silenced"]["at"]
    assert found["acknowledged"] == known["acknowledged"]

    stage.push(9_999.0)
    eventually(lambda: stage.look() and not _open_ones(stage), what="its end")
    assert told(stage, "warning:")()
    assert ask(stage.world, "POST", f"{place}/unsilence").status == 409


@pytest.mark.parametrize("seconds", [None, 59, 30 * 86_400 + 1, "an hour"])
def test_a_silence_that_is_too_short_or_too_long_names_its_field(world: World, seconds: object):
    body = {} if seconds is None else {"seconds": seconds}

    answer = ask(world, "POST", f"/v1/incidents/{'0' * 24}/silence", body)

    assert answer.status == 400
    assert "seconds" in answer.json["detail"]


def _open_ones(stage: Stage) -> list[str]:
    found = ask(stage.world, "GET", "/v1/incidents").json["incidents"]
    return [one["id"] for one in found]


def test_sns_that_refuses_costs_no_evaluation_and_no_message(stage: Stage):
    stage.world.stand_ins["sns"] = Refusing("Throttling")
    for _ in range(3):
        assert stage.look()["unread"] == []
    eventually(
        lambda: stage.look() and _owed(stage) == ["opened"], what="an incident that nobody knows"
    )
    assert stage.subjects() == []

    stage.world.stand_ins.clear()
    stage.world.end_environments()

    eventually(told(stage, "warning:"), what="the message that was owed")


def _owed(stage: Stage) -> list[str]:
    found = ask(stage.world, "GET", "/v1/incidents").json["incidents"]
    return [one["owed"] for one in found]


@pytest.mark.parametrize(
    ("query", "field"),
    [({"state": "closed"}, "state"), ({"cursor": "x"}, "cursor"), ({"limit": "0"}, "limit")],
)
def test_a_wrong_question_names_what_is_wrong(world: World, query: dict[str, str], field: str):
    answer = ask(world, "GET", "/v1/incidents", query=query)

    assert (answer.status, answer.fields) == (400, [field])
