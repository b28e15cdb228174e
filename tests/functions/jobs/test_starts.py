"""Starts by events, end to end: an event is one job, a wrong one is told, what is away raises."""

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ConnectTimeoutError

from tests.functions.http import ask
from tests.kit.jobs import MongoJobs
from tests.kit.kernel import StoreUnavailableError, names
from tests.kit.spiders import url_at
from tests.kit.worlds.functions import Context, World, biz

PLAN = {"rule": "page", "start": {"pattern": "https://example.org/{zone}/{page}"}}


@pytest.fixture
def kept(world: World) -> World:
    plan = {**PLAN, "start": {**PLAN["start"], "values": {"page": {"last": 3}}}}
    assert ask(world, "PUT", "/v1/docs/spiders/shop", plan).status == 201
    return world


def event(world: World, **changes: object) -> dict:
    return {
        "crawlfleet": "start",
        "tenant": world.tenants["acme"],
        "biz": "docs",
        "spider": "shop",
        "values": {"zone": "north"},
        "id": "53dc4d37",
        **changes,
    }


def start(world: World, **changes: object) -> dict:
    return world.call(names.SCHEDULER, event(world, **changes))


def jobs(world: World) -> list[dict]:
    return list(world.control["jobs"].find({"tenant": world.tenants["acme"]}))


def test_an_event_that_is_delivered_twice_is_one_job(kept):
    first = start(kept)
    again = start(kept)
    kept.end_environments()

    assert start(kept) == first == again
    assert len(jobs(kept)) == 1
    assert first["tasks"] == 3
    other = start(kept, id="another")
    assert other["job"] != first["job"]
    assert len(jobs(kept)) == 2


def test_a_job_keeps_its_plan_when_the_spider_is_put_anew(kept):
    first = start(kept)
    changed = {**PLAN, "start": {"urls": ["https://example.org/only"]}}
    assert ask(kept, "PUT", "/v1/docs/spiders/shop", changed).status == 201

    assert start(kept) == first
    assert start(kept, id="later", values={})["tasks"] == 1
    assert start(kept, id="later", version=1)["tasks"] == 3
    assert ask(kept, "DELETE", "/v1/docs/spiders/shop").status == 204
    refused = start(kept, id="after that", values={})
    assert "'shop'" in refused["refused"]
    # The version that a job names is still found, and nothing but that.
    assert ask(kept, "GET", "/v1/docs/spiders/shop", query={"version": "1"}).json["tasks"] == 3


@pytest.mark.parametrize("value", ["..", "."])
def test_a_value_that_leads_elsewhere_starts_nothing(kept, value):
    assert "zone" in start(kept, values={"zone": value})["refused"]
    assert jobs(kept) == []


@pytest.mark.parametrize(
    "value",
    ["../../etc", "@evil.example", "//evil.example/", "a b?c#d", "{page}", "%2e%2e", "\r\nHost: x"],
)
def test_a_value_from_outside_stays_within_its_place(kept, value):
    name = start(kept, values={"zone": value})["job"]

    nodes = next(parts for parts in kept.parts if "nodes" in vars(parts)).nodes
    job = MongoJobs(nodes).get(kept.tenants["acme"], "docs", name)
    url = url_at(job.start, 0)
    assert url.startswith("https://example.org/")
    assert url.endswith("/1")
    assert url.count("/") == 4
    assert not set("?#@{}\r\n ") & set(url)


def test_what_is_wrong_is_reported_once_and_found_by_whoever_looks(kept):
    start(kept, spider="nothing")
    start(kept, spider="nothing")
    kept.call(names.SCHEDULER, {})
    kept.end_environments()

    found = ask(kept, "GET", "/v1/health").json["deep"]
    assert found["tick"]["faults"]["starts"] == 1
    assert jobs(kept) == []


def test_a_stage_without_a_configuration_starts_nothing_and_says_so(kept):
    for parameter in kept.ssm.get_parameters_by_path(Path="/crawlfleet/test", Recursive=True)[
        "Parameters"
    ]:
        kept.ssm.delete_parameter(Name=parameter["Name"])
    kept.end_environments()

    assert "refused" in start(kept)


def test_a_store_that_takes_nothing_is_tried_again(kept):
    with kept.refusing("jobs"), pytest.raises(StoreUnavailableError):
        start(kept)

    assert start(kept)["tasks"] == 3
    assert len(jobs(kept)) == 1


# ---- what could not be started waits in the stage's queue ----------------------------------------


class Queue:
    """The stage's queue, which moto has; it is the SQS client of the scheduler, too."""

    def __init__(self) -> None:
        self._client = boto3.client("sqs")
        self._receipts: list[str] = []
        self.url = self._client.create_queue(QueueName=names.starts_queue("test"))["QueueUrl"]
        self.receives = 0
        self.fault: Exception | None = None

    def receive_message(self, **arguments: Any) -> Any:
        if self.fault is not None:
            raise self.fault
        self.receives += 1
        answer = self._client.receive_message(**{**arguments, "WaitTimeSeconds": 0})
        self._receipts += [one["ReceiptHandle"] for one in answer.get("Messages", ())]
        return answer

    def send_message(self, **arguments: Any) -> Any:
        if self.fault is not None:
            raise self.fault
        return self._client.send_message(**arguments)

    def delete_message_batch(self, **arguments: Any) -> Any:
        answer = self._client.delete_message_batch(**arguments)
        assert not answer.get("Failed")
        self._receipts = [
            one
            for one in self._receipts
            if one not in {entry["ReceiptHandle"] for entry in arguments["Entries"]}
        ]
        return answer

    def put(self, *bodies: object) -> None:
        """Have EventBridge put events in."""
        for body in bodies:
            text = body if isinstance(body, str) else json.dumps(body)
            self._client.send_message(QueueUrl=self.url, MessageBody=text)

    def reappear(self) -> None:
        """Show again what was received and not deleted, as time would."""
        for receipt in self._receipts:
            self._client.change_message_visibility(
                QueueUrl=self.url, ReceiptHandle=receipt, VisibilityTimeout=0
            )
        self._receipts.clear()

    @property
    def left(self) -> int:
        """Messages that are in it, hidden ones among them."""
        kinds = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self._client.get_queue_attributes(QueueUrl=self.url, AttributeNames=kinds)
        return sum(map(int, found["Attributes"].values()))

    def drop(self) -> None:
        self._client.delete_queue(QueueUrl=self.url)


@pytest.fixture
def queue(kept: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    """The queue that the stage's rules give their events to, besides the scheduler."""
    made = Queue()
    monkeypatch.setenv(names.ENV_STARTS_QUEUE, made.url)
    kept.stand_ins["sqs"] = made
    kept.end_environments()
    yield made
    made.drop()
    kept.end_environments()


def tick(world: World) -> dict:
    return world.call(names.SCHEDULER, {})


def waiting(capsys: pytest.CaptureFixture[str]) -> list[float]:
    """Return what the scheduler's metrics have said since the last look of events that wait."""
    lines = capsys.readouterr().out.splitlines()
    found = [json.loads(line) for line in lines if line.startswith('{"_aws"')]
    return [value for one in found for value in one.get("StartsWaiting", [])]


def test_an_event_that_a_store_refuses_is_started_by_a_later_tick(kept, queue):
    queue.put(event(kept))
    with kept.refusing("jobs"):
        answer, first = start(kept), tick(kept)
    assert "waits" in answer
    assert (first["starts"], first["faults"], queue.left) == (0, 1, 2), "a copy changes nothing"
    queue.reappear()

    second = tick(kept)

    assert (second["starts"], second["faults"], queue.left) == (1, 0, 0)
    (job,) = jobs(kept)
    assert job["by"] == "event"


def test_an_event_that_nobody_put_into_the_queue_waits_there_too(kept, queue):
    """A rule that somebody made by hand has the scheduler as its only target."""
    with kept.refusing("jobs"):
        assert "waits" in start(kept)
    assert queue.left == 1

    assert tick(kept)["starts"] == 1

    (job,) = jobs(kept)
    assert (job["by"], queue.left) == ("event", 0)


def test_an_event_that_can_neither_start_nor_wait_is_lambdas_to_try_again(kept, queue):
    queue.fault = ConnectTimeoutError(endpoint_url="https://sqs.test")

    with kept.refusing("jobs"), pytest.raises(StoreUnavailableError, match="sqs"):
        start(kept)

    queue.fault = None
    assert start(kept)["tasks"] == 3


def test_an_event_for_a_biz_with_all_its_open_jobs_waits_until_one_ends(kept, queue, capsys):
    kept.push({"acme": {"docs": biz(open_jobs=1)}})
    standing = start(kept, id="before")["job"]
    queue.put(event(kept), event(kept, id="another"))

    answer, before = start(kept), tick(kept)
    assert "open jobs" in answer["waits"]
    assert (before["starts"], before["faults"], queue.left) == (0, 0, 3)
    assert waiting(capsys) == [2], "two messages of one event are one"
    assert ask(kept, "POST", f"/v1/docs/jobs/{standing}/cancel").status == 200
    tick(kept)
    queue.reappear()

    assert tick(kept)["starts"] == 1
    assert queue.left == 1
    assert waiting(capsys)[-1] == 1


def test_what_was_started_at_once_is_found_and_forgotten(kept, queue, capsys):
    queue.put(event(kept))
    assert start(kept)["tasks"] == 3

    assert tick(kept)["starts"] == 0

    assert queue.left == 0
    assert len(jobs(kept)) == 1
    assert waiting(capsys) == []


@pytest.mark.parametrize("body", ["{", "[]", '"text"', "{}", {"tenant": ["a"], "biz": {}}])
def test_a_message_that_is_no_event_is_refused_and_forgotten(kept, queue, body):
    queue.put(body, event(kept))

    assert tick(kept)["starts"] == 1

    assert queue.left == 0


def test_what_stays_wrong_does_not_wait(kept, queue):
    queue.put(event(kept, spider="nothing"))

    assert "refused" in start(kept, spider="nothing")
    assert tick(kept)["starts"] == 0

    assert queue.left == 0


def test_one_biz_that_waits_holds_up_no_other(kept, queue):
    kept.push({"acme": {"docs": biz(open_jobs=1), "shop": biz(collection="shop")}})
    plan = {"rule": "page", "start": {"urls": ["https://example.org/a"]}}
    assert ask(kept, "PUT", "/v1/shop/spiders/shop", plan).status == 201
    start(kept, id="before")
    queue.put(*(event(kept, id=f"event-{n}") for n in range(25)))
    queue.put(event(kept, biz="shop", values={}))

    assert tick(kept)["starts"] == 1

    assert {job["biz"] for job in jobs(kept)} == {"docs", "shop"}
    assert queue.left == 25


def test_a_stage_without_a_configuration_keeps_its_events(kept, queue):
    answer = kept.ssm.get_parameters_by_path(Path="/crawlfleet/test", Recursive=True)
    for parameter in answer["Parameters"]:
        kept.ssm.delete_parameter(Name=parameter["Name"])
    kept.end_environments()

    assert "waits" in start(kept)
    assert "nothing_to_do" in tick(kept)

    assert queue.left == 1
    kept.push({"acme": {"docs": biz()}})
    kept.end_environments()
    assert tick(kept)["starts"] == 1


def test_a_tick_goes_on_when_the_queue_does_not_answer(kept, queue):
    queue.fault = ConnectTimeoutError(endpoint_url="https://sqs.test")

    answer = tick(kept)

    assert "starts" not in answer
    assert answer["faults"] == 1
    assert answer["tasks"] == 0


def test_a_tick_without_time_leaves_the_queue_to_the_next(kept, queue):
    queue.put(event(kept))

    kept.call(names.SCHEDULER, {}, Context(seconds=40))

    assert (queue.receives, queue.left) == (0, 1)
