"""Services that messages are pushed to: AWS as moto has it, a real Redis, and those that fail."""

import json

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.contract.streams.delivery_cases import BEGIN, QUEUE, STREAM, a_subscriber, an_item
from tests.kit.broken_servers import closed_port
from tests.kit.kernel import MessageRefusedError, StoreUnavailableError
from tests.kit.redis import RedisConnection
from tests.kit.streams import (
    AwsPusher,
    Delivery,
    Fault,
    RedisPusher,
    Target,
    TargetKind,
    delivery_key,
    item_key,
    messages,
    stream_key,
)

REGION = "eu-west-1"
FIFO = Target(TargetKind.SQS, f"{QUEUE.address}.fifo")
TOPIC = Target(TargetKind.SNS, "arn:aws:sns:eu-west-1:123456789012:items")
BUS = Target(TargetKind.EVENTBRIDGE, "arn:aws:events:eu-west-1:123456789012:event-bus/items")


def some(count, text="rain"):
    return [
        messages.message_of(
            Delivery(
                key=delivery_key(item_key("news", str(number)), a_subscriber()),
                tenant="acme",
                biz="news",
                subscription="press",
                accepted_at=BEGIN,
                item=an_item(str(number), text),
            )
        )
        for number in range(count)
    ]


class Answering:
    """A client of AWS that answers every call alike."""

    def __init__(self, answer):
        self.answer = answer

    def __getattr__(self, _name):
        return self

    def __call__(self, *_arguments, **_options):
        if isinstance(self.answer, Exception):
            raise self.answer
        return {"QueueUrl": "http://q", **self.answer}

    def pusher(self):
        return AwsPusher(lambda *_, **__: self)


def error(code):
    return ClientError({"Error": {"Code": code, "Message": "secret"}}, "Push")


def heard_by(url, count):
    sqs = boto3.client("sqs", region_name=REGION)
    found = sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=count, MessageAttributeNames=["All"]
    )
    return found.get("Messages", [])


def test_a_queue_gets_a_batch(aws):
    url = boto3.client("sqs", region_name=REGION).create_queue(QueueName="items")["QueueUrl"]
    batch = some(10)

    assert AwsPusher().push(QUEUE, batch) == [None] * 10

    heard = heard_by(url, 10)
    ids = {one.delivery.id for one in batch}
    assert {json.loads(one["Body"])["id"] for one in heard} == ids
    assert {one["MessageAttributes"]["id"]["StringValue"] for one in heard} == ids


def test_a_fifo_queue_drops_repeats_by_the_id(aws):
    sqs = boto3.client("sqs", region_name=REGION)
    url = sqs.create_queue(QueueName="items.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    batch, pusher = some(2), AwsPusher()

    pusher.push(FIFO, batch)
    assert pusher.push(FIFO, batch) == [None, None]

    assert len(heard_by(url, 10)) == 2


def test_a_queue_takes_whatever_signs_a_stranger_writes(aws):
    url = boto3.client("sqs", region_name=REGION).create_queue(QueueName="items")["QueueUrl"]
    text = "\x00\x0b\x7f\ufffe\uffff\U0001f327"

    assert AwsPusher().push(QUEUE, some(1, text)) == [None]

    (heard,) = heard_by(url, 1)
    assert json.loads(heard["Body"])["item"]["text"] == text


def test_a_topic_gets_a_batch(aws):
    sns = boto3.client("sns", region_name=REGION)
    sqs = boto3.client("sqs", region_name=REGION)
    url = sqs.create_queue(QueueName="heard")["QueueUrl"]
    sns.create_topic(Name="items")
    sns.subscribe(
        TopicArn=TOPIC.address,
        Protocol="sqs",
        Endpoint="arn:aws:sqs:eu-west-1:123456789012:heard",
        Attributes={"RawMessageDelivery": "true"},
    )
    batch = some(10)

    assert AwsPusher().push(TOPIC, batch) == [None] * 10

    heard = [json.loads(one["Body"])["id"] for one in heard_by(url, 10)]
    assert sorted(heard) == sorted(one.delivery.id for one in batch)


def test_a_bus_gets_events(aws):
    events = boto3.client("events", region_name=REGION)
    sqs = boto3.client("sqs", region_name=REGION)
    url = sqs.create_queue(QueueName="heard")["QueueUrl"]
    events.create_event_bus(Name="items")
    events.put_rule(
        Name="all",
        EventBusName="items",
        EventPattern='{"source": ["crawlfleet.streams"], "detail-type": ["item"]}',
    )
    arn = "arn:aws:sqs:eu-west-1:123456789012:heard"
    events.put_targets(Rule="all", EventBusName="items", Targets=[{"Id": "1", "Arn": arn}])
    (message,) = some(1)

    assert AwsPusher().push(BUS, [message]) == [None]

    (heard,) = heard_by(url, 1)
    assert json.loads(heard["Body"])["detail"]["id"] == message.delivery.id


@pytest.mark.parametrize("target", [QUEUE, TOPIC])
def test_messages_that_were_not_taken_are_named(target):
    answer = {
        "Successful": [{"Id": "1"}],
        "Failed": [
            {"Id": "0", "Code": "InternalError", "SenderFault": False},
            {"Id": "2", "Code": "InvalidMessageContents", "SenderFault": True},
        ],
    }

    faults = Answering(answer).pusher().push(target, some(4))

    assert faults == [
        Fault(text="InternalError"),
        None,
        Fault(text="InvalidMessageContents", is_final=True),
        Fault(text="not answered"),
    ]


def test_events_that_were_not_taken_are_named():
    answer = {
        "Entries": [{"EventId": "1"}, {"ErrorCode": "Throttling"}, {"ErrorCode": "MalformedDetail"}]
    }

    faults = Answering(answer).pusher().push(BUS, some(3))

    assert faults == [
        None,
        Fault(text="Throttling"),
        Fault(text="MalformedDetail", is_final=True),
    ]


def test_an_answer_about_other_messages_is_nonsense():
    with pytest.raises(StoreUnavailableError):
        Answering({"Entries": []}).pusher().push(BUS, some(1))


@pytest.mark.parametrize("target", [QUEUE, TOPIC, BUS])
def test_a_receiver_that_is_not_there_is_away(aws, target):
    with pytest.raises(StoreUnavailableError):
        AwsPusher().push(target, some(1))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("ValidationException", MessageRefusedError),
        ("AccessDenied", StoreUnavailableError),
        ("ThrottlingException", StoreUnavailableError),
    ],
)
def test_a_call_that_is_refused_says_so_by_its_code_alone(code, expected):
    with pytest.raises(expected) as refused:
        Answering(error(code)).pusher().push(QUEUE, some(1))

    assert code in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_redis_stream_gets_a_batch_under_a_key_of_its_tenant(any_redis, tenant):
    batch = [
        messages.Message(type(one.delivery)(**{**fields_of(one.delivery), "tenant": tenant}), b"{}")
        for one in some(3)
    ]

    assert RedisPusher(any_redis, lambda: 10_000).push(STREAM, batch) == [None] * 3

    key = stream_key(tenant, STREAM)
    assert key == f"{tenant}:streams:items"
    entries = any_redis.client.xrange(key)
    assert [fields[b"id"].decode() for _, fields in entries] == [one.delivery.id for one in batch]
    assert any_redis.client.ttl(key) > 0


def fields_of(delivery):
    return {name: getattr(delivery, name) for name in delivery.__struct_fields__}


def test_a_redis_stream_that_nobody_reads_is_cut(own):
    RedisPusher(own, lambda: 100).push(STREAM, some(2_000))

    assert own.client.xlen(stream_key("acme", STREAM)) < 1_000


def test_what_is_no_stream_is_away(own):
    own.client.set(stream_key("acme", STREAM), "x")

    with pytest.raises(StoreUnavailableError):
        RedisPusher(own, lambda: 100).push(STREAM, some(1))


def test_a_redis_that_does_not_answer_is_away():
    with (
        closed_port() as address,
        RedisConnection(f"redis://{address}") as nowhere,
        pytest.raises(StoreUnavailableError),
    ):
        RedisPusher(nowhere, lambda: 100).push(STREAM, some(1))
