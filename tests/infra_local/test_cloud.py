"""A whole local cloud: it starts, keeps its data over any end, and leaves nothing running."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import boto3
import pymongo
import pytest
import redis
import requests

from infra.local.aws_server import REGION
from infra.local.cloud import LocalCloud, down, up
from infra.local.parts import LOOPBACK, PartError
from infra.local.state import StateFolder
from tests.kit.kernel import names
from tests.waiting import eventually


@pytest.fixture(autouse=True)
def _own_servers(monkeypatch):
    monkeypatch.delenv("REDIS_URL", raising=False)
    monkeypatch.delenv("MONGODB_URI", raising=False)


def quiet(folder, **options):
    """A cloud that does nothing by itself."""
    return LocalCloud(folder, ticking=False, seed=False, **options)


def client(service, cloud):
    return boto3.client(
        service,
        endpoint_url=cloud.aws_endpoint_url,
        region_name=REGION,
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )


def addresses_of(cloud):
    return [
        (LOOPBACK, int(re.search(r":(\d+)", url.partition("://")[2]).group(1)))
        for url in (
            cloud.api_url,
            cloud.lambda_endpoint_url,
            cloud.aws_endpoint_url,
            cloud.redis_url,
            cloud.mongo_uri,
        )
    ]


def listens(address):
    with socket.socket() as probe:
        return probe.connect_ex(address) == 0


def wait_until_silent(addresses):
    for address in addresses:
        eventually(lambda: not listens(address), what=f"something still listens on {address}")  # noqa: B023


def put_everywhere(cloud):
    with redis.Redis.from_url(cloud.redis_url) as store:
        store.lpush("{t:b}:queue", "entry")
    with pymongo.MongoClient(cloud.mongo_uri) as mongo:
        mongo.shop.things.insert_one({"_id": 1})
    client("ssm", cloud).put_parameter(
        Name="/crawlfleet/local/big", Value="x" * 5_000, Type="String", Tier="Advanced"
    )
    client("secretsmanager", cloud).create_secret(
        Name="crawlfleet/local/nodes/second", SecretString="mongodb://elsewhere"
    )


def found_everywhere(cloud):
    with redis.Redis.from_url(cloud.redis_url) as store:
        queue = store.lrange("{t:b}:queue", 0, -1)
    with pymongo.MongoClient(cloud.mongo_uri) as mongo:
        things = mongo.shop.things.count_documents({})
    parameter = client("ssm", cloud).get_parameter(Name="/crawlfleet/local/big")
    secret = client("secretsmanager", cloud).get_secret_value(
        SecretId="crawlfleet/local/nodes/second"
    )
    return queue, things, len(parameter["Parameter"]["Value"]), secret["SecretString"]


def functions_get_exactly_what_the_fleet_grants_them(cloud):
    answer = requests.get(f"{cloud.api_url}/openapi.json", timeout=60)
    status = cloud.status()["functions"]

    assert answer.status_code == 200, (cloud.folder.log_dir / "cloud.log").read_text()
    (router,) = status[names.function_name("local", names.ROUTER)]["environments"]
    given = dict(
        pair.split("=", 1)
        for pair in Path(f"/proc/{router}/environ").read_text().split("\0")
        if "=" in pair
    )
    assert given["EXTRA"] == "1"
    assert given[names.ENV_STAGE] == "local"
    assert given[names.ENV_CONSUMER_FUNCTION] == "crawlfleet-local-consumer"
    assert given[names.ENV_NODE_SECRET] == "crawlfleet/local/nodes/{node}"
    assert given["AWS_ENDPOINT_URL_LAMBDA"] == cloud.lambda_endpoint_url
    assert names.ENV_REDIS_SECRET not in given


EVERYTHING = ([b"entry"], 1, 5_000, "mongodb://elsewhere")


def test_a_restart_keeps_data_keys_and_addresses_and_functions_get_what_the_fleet_grants(tmp_path):
    with quiet(tmp_path) as cloud:
        put_everywhere(cloud)
        before, key = cloud.addresses, cloud.add_api_key("acme")
    wait_until_silent(addresses_of(cloud))

    with quiet(tmp_path, variables={"EXTRA": "1"}) as cloud:
        assert found_everywhere(cloud) == EVERYTHING
        assert cloud.api_key == before.api_key
        assert cloud.api_url == before.api_url
        assert key in cloud.folder.keys_path.read_text()
        node = client("secretsmanager", cloud).get_secret_value(
            SecretId=names.node_secret("local", "main")
        )
        assert node["SecretString"] == cloud.mongo_uri
        functions_get_exactly_what_the_fleet_grants_them(cloud)


@pytest.mark.long
def test_a_cloud_that_is_killed_takes_its_parts_along_and_comes_back_with_its_data(tmp_path):
    with quiet(tmp_path) as cloud:
        put_everywhere(cloud)
        kept = cloud.folder.config_path
        eventually(lambda: kept.exists() and "nodes/second" in kept.read_text())

        os.kill(cloud.addresses.pid, signal.SIGKILL)

        wait_until_silent(addresses_of(cloud))

    with quiet(tmp_path) as cloud:
        assert found_everywhere(cloud) == EVERYTHING


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "infra.local", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_down_without_a_state_folder_says_so_and_makes_none(tmp_path):
    folder = tmp_path / "none"

    said = run("down", "--state", folder)

    assert (said.returncode, said.stdout) == (4, "")
    assert f"nothing to stop: there is no folder {folder}" in said.stderr
    assert f"`crawlfleet up --state {folder}` starts one" in said.stderr
    assert not folder.exists()


@pytest.mark.long
def test_up_outlives_its_caller_and_down_stops_it(tmp_path):
    nothing = run("status", "--state", tmp_path)
    started = run("up", "--state", tmp_path)
    try:
        addresses = StateFolder(tmp_path).read()
        shown = run("status", "--state", tmp_path)
        again = run("up", "--state", tmp_path)

        assert requests.get(f"{addresses.api_url}/health", timeout=60).status_code == 200
    finally:
        stopped = run("down", "--state", tmp_path)
    twice = run("down", "--state", tmp_path)

    assert nothing.returncode == 3
    assert f"`crawlfleet up --state {tmp_path}`" in nothing.stdout
    assert started.returncode == 0, started.stderr
    for address in (addresses.api_url, addresses.api_key, addresses.mongo_uri):
        assert address in started.stdout
        assert address in shown.stdout
    assert (shown.returncode, shown.stderr) == (0, "")
    for part in ("Redis", "MongoDB", "AWS", "API"):
        assert re.search(rf"^  {part} +answers$", shown.stdout, re.MULTILINE)
    assert again.returncode == 1
    assert "it runs already" in again.stderr
    for said in (started.stdout, again.stderr):
        assert f"`crawlfleet down --state {tmp_path}`" in said
    assert str(tmp_path) in stopped.stdout
    assert f"`export CRAWLFLEET_STATE={tmp_path}`" in started.stdout
    assert (twice.returncode, twice.stdout) == (0, f"nothing was running in {tmp_path}\n")
    assert not StateFolder(tmp_path).is_served()


@pytest.mark.long
def test_a_part_that_was_killed_is_named_with_what_to_do(tmp_path):
    with LocalCloud(tmp_path, ticking=False) as cloud:
        with redis.Redis.from_url(cloud.redis_url) as store:
            os.kill(store.info("server")["process_id"], signal.SIGKILL)
        (_, _, _, where, _) = addresses_of(cloud)
        eventually(lambda: not listens(where), what="Redis lives on")

        shown, again = run("status", "--state", tmp_path), run("up", "--state", tmp_path)
        with pymongo.MongoClient(cloud.mongo_uri) as mongo:
            os.kill(mongo.admin.command("serverStatus")["pid"], signal.SIGKILL)
        both = run("status", "--state", tmp_path)

    remedy = f"`crawlfleet down --state {tmp_path} && crawlfleet up --state {tmp_path}`"
    assert shown.returncode == 1
    assert re.search(r"^  Redis +DOES NOT ANSWER: .*refused", shown.stdout, re.MULTILINE)
    assert re.search(r"^  MongoDB +answers$", shown.stdout, re.MULTILINE)
    assert re.search(r"^  API +answers: degraded, redis ", shown.stdout, re.MULTILINE)
    assert shown.stderr.startswith("\nerror: Redis ")
    assert remedy in shown.stderr
    assert again.returncode == 1
    assert "Redis" in again.stderr
    assert remedy in again.stderr
    assert both.returncode == 1
    assert re.search(r"^  MongoDB +DOES NOT ANSWER: .*refused", both.stdout, re.MULTILINE)
    assert both.stderr.startswith("\nerror: Redis and MongoDB ")


@pytest.mark.long
def test_ctrl_c_during_the_start_leaves_nothing_running(tmp_path):
    # Where the tests run in a shell's background they are deaf to it, and so were what they start.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        [sys.executable, "-m", "infra.local", "up", "--state", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as starting:
        signal.signal(signal.SIGINT, before)
        eventually((tmp_path / "logs/redis.log").exists, what="Redis was not started")
        starting.send_signal(signal.SIGINT)
        _, said = starting.communicate(timeout=60)

    assert (starting.returncode, said) == (130, "\nstopped\n")
    assert not StateFolder(tmp_path).is_served()


def test_a_port_that_is_taken_or_none_is_refused_in_a_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        taken = run("up", "--state", tmp_path, "--port", port)
    wrong = run("up", "--state", tmp_path, "--port", 65536)

    assert (taken.returncode, wrong.returncode) == (1, 2)
    assert taken.stderr.startswith(f"error: port {port} ")
    assert len(taken.stderr.splitlines()) == 1
    assert "65536 is no port" in wrong.stderr


def test_a_cloud_that_cannot_start_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")
    (tmp_path / "config.json").write_text("{broken")

    with pytest.raises(PartError, match=r"config\.json"):
        up(tmp_path)

    assert down(tmp_path) is False
