"""Check the parts of a running local cloud: all at once, each with a short time-out.

The serving process lives on when a part of it has ended, so its lock alone says little.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pymongo
from pymongo.errors import PyMongoError

from crawlfleet.kernel.errors import CrawlfleetError
from crawlfleet.kernel.redis.connection import RedisConnection
from infra.local.aws_server import READY_PATH
from infra.local.state import Addresses, hint

#: For a part that has nothing to do but to answer.
PART_SECONDS: Final = 2.0
#: The API's first answer starts a process, and without Redis it waits for that one first.
API_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The result of asking one part; ``problem`` is empty where all is well."""

    part: str
    answers: bool = True
    problem: str = ""

    def __str__(self) -> str:
        said = "answers" if self.answers else "DOES NOT ANSWER"
        return f"{self.part:<9} {said}{self.problem and f': {self.problem}'}"


class _UnwellError(Exception):
    """The part answered, and says itself that something is wrong."""


def look(addresses: Addresses) -> tuple[Health, ...]:
    """Ask every part, and tell of each what it said; takes as long as the slowest."""
    asked: dict[str, Callable[[], object]] = {
        "Redis": lambda: _ask_redis(addresses.redis_url),
        "MongoDB": lambda: _ask_mongo(addresses.mongo_uri),
        "AWS": lambda: _ask(addresses.aws_endpoint_url + READY_PATH, PART_SECONDS),
        "API": lambda: _ask_api(addresses.api_url),
    }
    with ThreadPoolExecutor(len(asked)) as pool:
        return tuple(pool.map(_health, asked, asked.values()))


def advice(parts: Sequence[Health], log_dir: str) -> str:
    """Say what is wrong and what to do about it, in a line; empty where all is well."""
    mute = [health.part for health in parts if not health.answers]
    if mute:
        verb = "does" if len(mute) == 1 else "do"
        down, up = (hint(verb, Path(log_dir).parent) for verb in ("down", "up"))
        again = f"`{down} && {up}` starts it again; what is stored is kept"
        return f"{' and '.join(mute)} {verb} not answer: {again}"
    if any(health.problem for health in parts):
        return f"all parts answer, but not all is well; the logs in {log_dir} say why"
    return ""


def _health(part: str, ask: Callable[[], object]) -> Health:
    try:
        ask()
    except _UnwellError as error:
        return Health(part=part, problem=str(error))
    except (CrawlfleetError, PyMongoError, OSError, ValueError) as error:
        # MongoDB's driver adds its settings and its whole view of the servers.
        said = str(error).partition(" (configured timeouts")[0].partition(", Timeout:")[0]
        return Health(part=part, answers=False, problem=said[:200] or type(error).__name__)
    return Health(part=part)


def _ask_redis(url: str) -> None:
    with RedisConnection(
        url, connect_seconds=PART_SECONDS, answer_seconds=PART_SECONDS
    ) as connection:
        connection.ping()


def _ask_mongo(uri: str) -> None:
    milliseconds = int(PART_SECONDS * 1000)
    with pymongo.MongoClient[dict[str, Any]](
        uri,
        serverSelectionTimeoutMS=milliseconds,
        connectTimeoutMS=milliseconds,
        socketTimeoutMS=milliseconds,
    ) as client:
        client.admin.command("hello")


def _ask(url: str, seconds: float) -> bytes:
    with urllib.request.urlopen(url, timeout=seconds) as answer:  # noqa: S310  our own loopback address
        said: bytes = answer.read()
        return said


def _ask_api(url: str) -> None:
    try:
        body = _ask(f"{url}/health", API_SECONDS)
    except urllib.error.HTTPError as error:
        body = error.read()
        if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
            raise _UnwellError(f"/health says {error.code}") from error
    found: dict[str, Any] = json.loads(body)
    if found["status"] != "ok":
        parts = (f"{part} {state}" for part, state in found["parts"].items() if state != "ok")
        raise _UnwellError(f"{found['status']}, {', '.join(parts)}")
