"""SQS as moto has it, and SQS dead, slow, refusing and answering with nonsense."""

import json
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from infra.local.aws_server import REGION
from tests.kit.aws import client
from tests.kit.broken_servers import BROKEN_SERVERS
from tests.kit.jobs import StartsQueue
from tests.kit.kernel import StoreUnavailableError
from tests.waiting import in_time

EVENT = {"crawlfleet": "start", "id": "53dc4d37"}


@pytest.fixture
def url(aws: None) -> str:
    return str(boto3.client("sqs").create_queue(QueueName="starts")["QueueUrl"])


def put(url: str, *bodies: str) -> None:
    for body in bodies:
        boto3.client("sqs").send_message(QueueUrl=url, MessageBody=body)


def test_an_event_is_received_until_it_is_forgotten(url):
    put(url, json.dumps(EVENT))
    queue = StartsQueue(url)

    (received,) = queue.receive()
    assert received.event == EVENT
    # Hidden now; nobody else starts it meanwhile.
    assert StartsQueue(url).receive() == []
    queue.forget([received])

    kinds = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = boto3.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=kinds)
    assert set(found["Attributes"].values()) == {"0"}


def test_what_is_no_event_is_received_without_one(url):
    put(url, "{", "[1]", "\N{SNOWMAN}", '{"id": "1"}')

    assert sorted(map(str, (one.event for one in StartsQueue(url).receive()))) == [
        "{'id': '1'}",
        *["{}"] * 3,
    ]


def test_an_event_that_is_put_in_is_received(url):
    queue = StartsQueue(url)
    queue.keep(EVENT)

    assert [one.event for one in queue.receive()] == [EVENT]


def test_forgetting_nothing_asks_nobody():
    StartsQueue("https://sqs.test/none").forget([])


@pytest.mark.parametrize("server", BROKEN_SERVERS.values(), ids=BROKEN_SERVERS)
def test_a_queue_that_does_not_do_what_it_should_is_reported_within_seconds(aws: None, server):
    with server() as address:

        def connect(service: str, **options: Any) -> Any:
            options |= {"timeout_seconds": 0.5, "region": REGION}
            return client(service, endpoint_url=f"http://{address}", **options)

        queue = StartsQueue(f"http://{address}/123456789012/starts", connect=connect)
        with in_time(5), pytest.raises(StoreUnavailableError):
            queue.receive()
        with in_time(5), pytest.raises(StoreUnavailableError):
            queue.keep(EVENT)


class Answering:
    """A client of SQS that answers as it is told."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def receive_message(self, **_: object) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    delete_message_batch = receive_message


def answered(answer: Any) -> StartsQueue:
    return StartsQueue("https://sqs.test/1/starts", connect=lambda *_, **__: Answering(answer))


@pytest.mark.parametrize("code", ["RequestThrottled", "AccessDenied", "QueueDoesNotExist"])
def test_a_queue_that_refuses_says_why_and_nothing_of_the_answer(code):
    error = {"Error": {"Code": code, "Message": "secret"}}

    with pytest.raises(StoreUnavailableError, match=code) as caught:
        answered(ClientError(error, "ReceiveMessage")).receive()

    assert caught.value.retryable
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("answer", [{"Messages": [{"Body": "{}"}]}, {"Messages": [1]}, []])
def test_an_answer_that_is_nonsense_is_an_answer_of_a_part_that_is_away(answer):
    with pytest.raises(StoreUnavailableError, match="nonsense"):
        answered(answer).receive()


def test_an_answer_without_messages_is_an_empty_queue():
    assert answered({}).receive() == []
