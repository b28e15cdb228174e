"""A node whose ``mongodb+srv`` name is not resolved, or whose certificate has expired.

Callers are to try again, and people are told.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pymongo
import pytest

from tests.contract.certified_node import certified_node
from tests.functions.http import ask
from tests.functions.refusals import refused_for_now
from tests.kit.kernel import ConfigError, names
from tests.kit.mongo import Waits
from tests.kit.name_server import CLUSTER, Mood, NameServer, name_server, srv_uri
from tests.kit.topics import Topic
from tests.kit.worlds.functions import STAGE, World
from tests.waiting import eventually

PAGE = {"url": "https://example.org/"}
SOON = Waits(connect=0.3, away=0.1)


@pytest.fixture
def resolver(mongo_uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    monkeypatch.setenv(names.ENV_PLAIN_STORES, CLUSTER)
    with name_server() as server:
        server.ports = [int(pymongo.uri_parser.parse_uri(mongo_uri)["nodelist"][0][1])]
        yield server


@pytest.mark.parametrize("mood", [Mood.SILENT, Mood.FAILING, Mood.LYING])
def test_every_call_is_to_be_tried_again_and_succeeds_once_the_name_is_resolved(
    world: World, resolver: NameServer, mood: Mood
):
    world.node_waits, resolver.mood = SOON, mood
    with world.node_at(srv_uri()):
        refused_for_now(ask(world, "POST", "/v1/docs/requests", PAGE))
        refused_for_now(ask(world, "GET", "/v1/docs/requests/1"))
        health = ask(world, "GET", "/health", key=None)
        assert (health.status, health.json["status"]) == (503, "down")
        assert health.json["parts"]["mongodb:main"] == "does not answer"
        assert world.call(names.SCHEDULER, {})["faults"] > 0

        resolver.mood = Mood.WELL

        eventually(lambda: ask(world, "POST", "/v1/docs/requests", PAGE).status == 202)
        assert ask(world, "GET", "/health", key=None).json["status"] == "ok"


@pytest.mark.parametrize(
    ("uri", "host"),
    [
        ("mongodb://me:hunter2@127.0.0.1:1,10.0.0.7:1/?directConnection=false", "10.0.0.7"),
        ("mongodb+srv://me:hunter2@db.example/?tls=false", "db.example"),
    ],
)
def test_a_node_on_another_machine_is_not_asked_without_tls(world: World, uri: str, host: str):
    with world.node_at(uri):
        answer = ask(world, "POST", "/v1/docs/requests", PAGE)
        with pytest.raises(ConfigError) as refused:
            world.own.nodes.client("main")

    assert answer.status >= 500
    assert f"is the URI of {host}, another machine, without TLS" in str(refused.value)
    assert "hunter2" not in answer.text + str(refused.value)


def test_people_hear_that_a_node_is_away_whose_name_is_not_resolved(
    world: World, resolver: NameServer, monkeypatch: pytest.MonkeyPatch
):
    people = Topic(names.topic_name(STAGE, "people"))
    monkeypatch.setenv(names.ENV_PEOPLE_TOPIC, people.arn)
    world.node_waits, resolver.mood = SOON, Mood.FAILING
    world.push({}, stage={"nodes": ["main", "east"], "alarms": {"bad_looks": 1}})
    world.secrets.create_secret(Name=names.node_secret(STAGE, "east"), SecretString=srv_uri())
    world.end_environments()
    said: list[str] = []

    def is_told() -> bool:
        world.call(names.MONITOR, {"source": "aws.events", "detail-type": "Scheduled Event"})
        said.extend(one["Subject"] for one in people.heard())
        return any("east" in one and "does not answer" in one for one in said)

    eventually(is_told, what="nobody is told")
    world.end_environments()


def test_a_node_whose_certificate_expires_is_to_be_tried_again_until_it_is_renewed(
    world: World, tmp_path: Path
):
    world.node_waits = SOON
    with certified_node(tmp_path) as node, world.node_at(node.uri):
        assert ask(world, "POST", "/v1/docs/requests", PAGE).status == 202

        expires_at = node.has_certificate(timedelta(seconds=1))
        eventually(lambda: datetime.now(UTC) > expires_at, what="the certificate has not expired")
        world.end_environments()
        refused_for_now(ask(world, "POST", "/v1/docs/requests", PAGE))
        health = ask(world, "GET", "/health", key=None)
        assert (health.status, health.json["parts"]["mongodb:main"]) == (503, "does not answer")

        node.has_certificate(timedelta(hours=1))

        eventually(lambda: ask(world, "POST", "/v1/docs/requests", PAGE).status == 202)
