"""Notifications of a local cloud: moto's SNS delivers to one file for each topic."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
import requests
from aiohttp import web

from infra.local.aws_server import CREDENTIALS, REGION, AwsServer
from infra.local.notifications import Inbox, Notification, latest, make_topics
from infra.local.parts import LOOPBACK, free_port
from tests.kit.kernel import names


@contextmanager
def listening(folder: Path, **options: Any) -> Iterator[str]:
    """Serve an inbox that keeps what it gets in ``notifications`` of that folder; its address."""
    loop, port = asyncio.new_event_loop(), free_port()
    runner: list[web.AppRunner] = []

    async def listen() -> None:
        application = web.Application()
        Inbox(folder / "notifications", **options).join(application)
        runner.append(web.AppRunner(application, access_log=None))
        await runner[0].setup()
        await web.TCPSite(runner[0], LOOPBACK, port).start()

    loop.run_until_complete(listen())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"http://{LOOPBACK}:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(runner[0].cleanup(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


@pytest.fixture
def inbox(tmp_path: Path) -> Iterator[str]:
    with listening(tmp_path) as address:
        yield address


def lines(folder: Path, listeners: str) -> list[dict[str, Any]]:
    path = folder / "notifications" / f"{listeners}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_what_is_published_ends_in_the_file_of_its_topic(
    inbox: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with AwsServer(log_path=tmp_path / "moto.log") as aws:
        arns = make_topics(aws.endpoint_url, REGION, inbox)
        sns = boto3.client("sns", endpoint_url=aws.endpoint_url)
        sns.publish(
            TopicArn=arns[names.ENV_PEOPLE_TOPIC],
            Subject="crawlfleet local over",
            Message=json.dumps({"default": "whole \N{SNOWMAN}", "sms": "short"}),
            MessageStructure="json",
        )
        sns.publish(TopicArn=arns[names.ENV_PHONES_TOPIC], Message="redis")
        sns.publish(TopicArn=arns[names.ENV_MACHINES_TOPIC], Message='{"version": 1}')

    [notification] = lines(tmp_path, "people")
    assert (notification["subject"], notification["message"]) == (
        "crawlfleet local over",
        "whole \N{SNOWMAN}",
    )
    [short] = lines(tmp_path, "phones")
    assert short["message"] == "redis"
    [bulletin] = lines(tmp_path, "machines")
    assert json.loads(bulletin["message"]) == {"version": 1}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("people", b"no json", 400),
        ("people", b"[]", 400),
        ("people", b'{"Timestamp": "now"}', 400),
        ("others", b'{"Timestamp": "now", "Message": "x"}', 404),
        ("..%2Fpeople", b'{"Timestamp": "now", "Message": "x"}', 404),
        ("people", b'{"Timestamp": "now", "Message": "x"}', 200),
    ],
)
def test_only_messages_are_kept_and_only_of_topics(
    inbox: str, tmp_path: Path, path: str, body: bytes, status: int
):
    answer = requests.post(f"{inbox}/_local/notifications/{path}", data=body, timeout=60)

    assert answer.status_code == status
    kept = sorted(tmp_path.rglob("*.jsonl"))
    assert [each.name for each in kept] == (["people.jsonl"] if status == 200 else [])


def test_a_file_that_has_grown_long_is_set_aside(tmp_path: Path):
    with listening(tmp_path, limit_bytes=10) as inbox:
        for number in range(2):
            requests.post(
                f"{inbox}/_local/notifications/people",
                json={"Timestamp": str(number), "Message": "x" * 20},
                timeout=60,
            )

    assert [line["at"] for line in lines(tmp_path, "people")] == ["1"]
    assert (tmp_path / "notifications/people.jsonl.1").exists()


def test_the_latest_are_read_from_the_end_and_what_is_cut_off_is_left_out(tmp_path: Path):
    assert latest(tmp_path, 5) == []
    written = [{"at": str(n), "subject": f"s{n}", "message": "m"} for n in range(9)]
    text = "\n".join(json.dumps(line) for line in written)
    (tmp_path / "people.jsonl").write_text(f"{text}\n{{cut")

    assert [each.subject for each in latest(tmp_path, 3)] == ["s7", "s8"]
    assert latest(tmp_path, 5, tail_bytes=60) == [Notification("8", "s8", "m")]
