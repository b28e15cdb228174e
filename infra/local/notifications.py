"""The notifications of a local cloud: the topics of SNS, a file for each.

moto delivers what is published to HTTP subscribers as SNS does. This one writes each message as a
line of JSON to ``people.jsonl``, ``phones.jsonl`` or ``machines.jsonl`` in ``notifications`` of the
state folder; ``make status`` shows the latest for people.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import boto3
from aiohttp import web

from crawlfleet.kernel import names
from crawlfleet.monitoring.incidents.models import Listener
from infra.local.state import STAGE

LISTENERS: Final = tuple(each.value for each in Listener)
_PATH: Final = "/_local/notifications"
_LIMIT_BYTES: Final = 4 * 1024 * 1024
#: SNS sends at most 256 KB, and its envelope.
_LARGEST_BYTES: Final = 1024 * 1024
#: How much of a file is read for the latest messages.
_TAIL_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification as it was received."""

    at: str
    subject: str
    message: str


class Inbox:
    """The subscriber of all topics; it keeps messages in ``folder``.

    A file above ``limit_bytes`` is set aside, replacing the one set aside before.
    """

    def __init__(self, folder: Path, limit_bytes: int = _LIMIT_BYTES) -> None:
        self._folder = folder
        self._limit_bytes = limit_bytes

    def join(self, application: web.Application) -> None:
        """Listen at that application's address, too."""
        application.router.add_post(f"{_PATH}/{{listeners}}", self._receive)

    async def _receive(self, request: web.Request) -> web.Response:
        listeners = request.match_info["listeners"]
        if listeners not in LISTENERS:
            return web.Response(status=404)
        body = await request.content.read(_LARGEST_BYTES)
        try:
            envelope: Any = json.loads(body)
            line = {
                "at": str(envelope["Timestamp"]),
                "subject": str(envelope.get("Subject") or ""),
                "message": str(envelope["Message"]),
            }
        except (ValueError, KeyError, TypeError, AttributeError):
            return web.Response(status=400)
        self._write(listeners, line)
        return web.Response()

    def _write(self, listeners: str, line: dict[str, str]) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        path = self._folder / f"{listeners}.jsonl"
        if path.exists() and path.stat().st_size > self._limit_bytes:
            path.replace(path.with_suffix(".jsonl.1"))
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def make_topics(endpoint_url: str, region: str, listener_url: str) -> dict[str, str]:
    """Make the topics, have them delivered to the listener; their ARNs by environment variable."""
    sns: Any = boto3.client(
        "sns",
        endpoint_url=endpoint_url,
        region_name=region,
        aws_access_key_id="local",
        aws_secret_access_key="local",  # noqa: S106  moto asks for no secret
    )
    variables = {
        Listener.PEOPLE: names.ENV_PEOPLE_TOPIC,
        Listener.PHONES: names.ENV_PHONES_TOPIC,
        Listener.MACHINES: names.ENV_MACHINES_TOPIC,
    }
    made = {}
    for listeners, variable in variables.items():
        made[variable] = sns.create_topic(Name=names.topic_name(STAGE, listeners))["TopicArn"]
        endpoint = f"{listener_url}{_PATH}/{listeners}"
        sns.subscribe(TopicArn=made[variable], Protocol="http", Endpoint=endpoint)
    return made


def latest(folder: Path, most: int, tail_bytes: int = _TAIL_BYTES) -> list[Notification]:
    """The latest messages for people, the newest last."""
    path = folder / "people.jsonl"
    if not path.exists():
        return []
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - tail_bytes))
        lines = file.read().decode(errors="replace").splitlines()
    found = []
    for line in lines[-most:]:
        try:
            found.append(Notification(**json.loads(line)))
        except (ValueError, TypeError):
            continue  # cut off, at the beginning of what was read
    return found
