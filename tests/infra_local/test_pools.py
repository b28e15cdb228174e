"""Kinds of worker on one machine: how they are said, what they are told, that they run."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import boto3
import pytest
import requests

from infra.local.__main__ import main
from infra.local.aws_server import REGION, AwsServer
from infra.local.cloud import LocalCloud
from infra.local.parts import PartError
from infra.local.pools import local_fleet, parse_pools, pools_json
from infra.local.seeding import seed_config
from infra.local.server import Options, local_function
from infra.local.state import STAGE
from tests.functions.crawling.test_follow import a_web
from tests.infra_local.sample_functions import function, holding
from tests.infra_local.test_lambda_service import run
from tests.kit.config import read_documents, write_tree
from tests.kit.kernel import Settings, names
from tests.kit.sdk import Client
from tests.local_clouds import a_cloud, push
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
KEYS = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc and 127.0.0.2 are Linux's")

BIZ_DOCUMENT = {
    "generations": [{"starts_at": "2026-01-01T00:00:00Z", "nodes": ["main"], "databases": ["far"]}],
    "rules": {"page": {"fields": {"title": {"css": "title"}}}},
}
#: What the usual worker's 1,024 MB do not have.
STATED_BYTES = 1.6e9
#: For so long without work what is stated is kept; and how long leases are.
IDLE_SECONDS, LEASE_SECONDS = 12, 300


def test_a_pool_is_said_in_one_word():
    far, big = parse_pools(
        ["far:memory=512,consumers=3,address=127.0.0.2,network=slow,region=eu-west-1", "big"]
    )

    assert (far.kind.name, far.kind.memory_mb, far.kind.concurrency) == ("far", 512, 3)
    assert str(far) == "far (512 MB, slow, eu-west-1, leaves by 127.0.0.2)"
    assert (big.kind.memory_mb, big.kind.concurrency, big.address) == (1024, 2, "")


def test_make_up_hands_each_of_its_pools_on():
    """By what make would run; under `make test` it is not to take its flags from there."""
    own = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    pools = ["far:memory=512", "near:memory=256,consumers=3"]
    asked = ["make", "-n", "up", f"POOLS={' '.join(pools)}"]
    made = subprocess.run(
        asked, cwd=ROOT, env=own, capture_output=True, text=True, timeout=60, check=True
    )

    recipe = shlex.split(made.stdout.partition("infra.local up")[2].replace("\\\n", " "))
    said = [value for option, value in pairwise(recipe) if option == "--pool"]
    assert said == pools
    assert [pool.kind.name for pool in parse_pools(said)] == ["far", "near"]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("main", "no name of a pool"),
        ("Far", "no name of a pool"),
        ("far:memory=lots", "memory is no number: 'lots'"),
        ("far:memory=64", "not within 128"),
        ("far:consumers=0", "concurrency is below 1"),
        ("far:address=here", "'here' is no IP address"),
        ("far:colour=blue", "which is none of memory"),
        ("far:memory=512,memory=1024", "said once"),
        ("far:network=" + "x" * 41, "longer than 40"),
    ],
)
def test_a_pool_that_is_said_wrongly_is_refused_with_the_reason(said, why):
    with pytest.raises(PartError, match=why):
        parse_pools([said])


def test_two_pools_of_one_name_are_refused_before_anything_starts(tmp_path, capsys):
    assert main(["up", "--state", str(tmp_path), "--pool", "far", "--pool", "far"]) == 1

    assert "named twice" in capsys.readouterr().err
    assert not (tmp_path / "logs").exists()


def test_workers_of_a_pool_know_what_they_are_and_by_which_address_they_leave(tmp_path):
    pools = parse_pools(["far:memory=512,consumers=3,address=127.0.0.2"])
    fleet = local_fleet(pools)
    known = dict.fromkeys([v for spec in fleet.functions for v in spec.environment], "x")
    known |= {"aws": "a", "lambda": "l", "spiders": "", names.ENV_SCRAPY_PACKAGES: ""}
    made = {
        spec.name: local_function(spec, Options(state=tmp_path), known, pools)
        for spec in fleet.functions
    }

    far, usual = made["consumer-far"], made["consumer"]
    assert (far.memory_mb, far.limit, far.ceiling, far.holds_memory) == (512, 3, 3, True)
    assert far.variables["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] == "512"
    assert far.variables[names.ENV_POOL] == "far"
    assert far.variables[names.ENV_SOURCE_ADDRESS] == "127.0.0.2"
    assert far.handler == usual.handler
    assert not usual.holds_memory
    assert not {names.ENV_POOL, names.ENV_SOURCE_ADDRESS} & usual.variables.keys()
    said = usual.variables[names.ENV_POOLS]
    assert said == pools_json(pools, REGION)
    [pool] = Settings.from_environment({names.ENV_STAGE: "local", names.ENV_POOLS: said}).pools
    assert (pool.name, pool.function, pool.ceiling) == ("far", far.name, 3)
    assert names.ENV_POOLS not in made["id-issuer"].variables


@LINUX
def test_a_worker_that_takes_more_memory_than_its_pool_has_is_ended_and_the_next_runs(tmp_path):
    async def scenario(service):
        event = {"mb": 200, "pipe": holding(tmp_path, "never")["pipe"]}
        ended = await service.invoke("local-swell", json.dumps(event))
        return ended, await service.invoke("local-swell", '{"mb": 1}')

    swell = function("swell", memory_mb=128, holds_memory=True)
    ended, after = run(tmp_path, scenario, swell)

    assert ended.failed
    assert json.loads(ended.payload)["errorType"] == "Runtime.ExitError"
    assert "signal: 9" in json.loads(ended.payload)["errorMessage"]
    assert (after.failed, json.loads(after.payload)) == (False, 1024 * 1024)


def stage_of(ssm: Any) -> dict[str, Any]:
    """The stage document as it is stored."""
    found: dict[str, Any] = json.loads(read_documents(ssm, STAGE)["stage"])
    return found


def test_pools_come_with_bidding_where_the_stage_document_says_nothing_of_it():
    far, big = parse_pools(["far:memory=512,consumers=3", "big:memory=2048"])
    with AwsServer() as server:
        ssm = boto3.client("ssm", endpoint_url=server.endpoint_url, region_name=REGION, **KEYS)
        assert seed_config(server.endpoint_url, REGION)
        assert "bidding" not in stage_of(ssm)

        assert not seed_config(server.endpoint_url, REGION, pools=[far])

        found = stage_of(ssm)
        assert (found["bidding"], found["pools"]) == ({}, {"far": {"max_consumers": 3}})
        assert found["fleet"]["batch"] == 100, "the rest of it is as it was"

        # What somebody has said stands.
        own = {**found, "bidding": None, "pools": {"far": {"max_consumers": 1}}}
        write_tree(ssm, STAGE, {"stage": json.dumps(own)})
        seed_config(server.endpoint_url, REGION, pools=[far, big])
        found = stage_of(ssm)
        assert found["bidding"] is None
        assert found["pools"] == {"far": {"max_consumers": 1}, "big": {"max_consumers": 2}}


@pytest.mark.long
@LINUX
def test_a_cloud_with_pools_gives_a_job_to_a_worker_that_has_what_it_states(tmp_path):
    with (
        a_web() as web,
        a_cloud(tmp_path / "state", pools=["big:memory=2048"]) as cloud,
        Client(cloud.api_url, cloud.api_key) as client,
    ):
        demand = {"memory": {"average": STATED_BYTES}}
        job = client.start_job("site", rule="page", urls=[f"{web.url}/0"], demand=demand)
        assert job.state == "placing"

        def is_done() -> bool:
            assert not cloud.fire("scheduler-tick")["failed"]
            return client.job("site", job.name).ended

        eventually(is_done, 120, "no worker has won it, or it is not done")
        won = client.job("site", job.name)
        assert (won.state, won.counts["done"], won.lowered) == ("done", 1, 0)
        assert won.pool == "big", "the usual worker has less than it states"
        assert won.demand.memory.average == STATED_BYTES


def pools_of(cloud: LocalCloud) -> dict[str, dict[str, object]]:
    """The pools, as operators see them."""
    answer = requests.get(
        f"{cloud.api_url}/v1/fleet", headers={"x-api-key": cloud.api_key}, timeout=60
    )
    return {pool["name"]: pool for pool in answer.json()["pools"]}


def workers(cloud: LocalCloud, name: str) -> dict[str, int]:
    """The workers that are running in a function, by their ids: the process of each."""
    found: dict[str, int] = cloud.status()["functions"][name]["running"]
    return found


def reports(cloud: LocalCloud, name: str) -> dict[str, dict[str, object]]:
    """Return the final reports of a function's ended workers, by worker id."""
    lines = (cloud.folder.log_dir / f"{name}.log").read_text().splitlines()
    worked = [json.loads(line) for line in lines if '"message":"worked"' in line]
    return {line["report"]["worker"]: line["report"] for line in worked}


@pytest.mark.long
@LINUX
def test_capacity_that_is_stated_is_there_is_replaced_when_it_dies_and_released_when_idle(tmp_path):
    fleet = {"max_consumers": 2, "idle_seconds": 1, "lease_seconds": LEASE_SECONDS}
    stage = {"fleet": fleet, "pools": {"far": {"min_consumers": 0, "max_consumers": 2}}}
    needs = {"workers": 2, "pool": "far", "idle_seconds": IDLE_SECONDS}
    name = names.function_name(STAGE, names.consumer("far"))
    with a_cloud(tmp_path / "state", pools=["far:memory=512,network=slow"]) as cloud:
        push(cloud, tmp_path / "config", stage, {"afar": {**BIZ_DOCUMENT, "needs": needs}})
        assert cloud.addresses.pools == ("far (512 MB, slow)",)
        assert workers(cloud, name) == {}

        idle_since = time.monotonic()
        assert not cloud.fire("scheduler-tick")["failed"]
        eventually(lambda: pools_of(cloud)["far"]["idle"] == 2, what="not all that is stated came")
        far = pools_of(cloud)["far"]
        assert (far["memory_mb"], far["network"]) == (512, "slow")
        assert (far["stated"], far["kept"], far["wanted"]) == (2, 2, 2)
        assert pools_of(cloud)["main"]["alive"] == 0

        # One that is killed is found dead by the one that is left, and its place is filled. That is
        # the detector's: no lease ends in this time, and nothing ticks and counts who has beaten.
        before = workers(cloud, name)
        assert len(before) == 2
        victim, survivor = sorted(before)
        os.kill(before[victim], signal.SIGKILL)

        def is_replaced() -> bool:
            running = workers(cloud, name).keys()
            return len(running) == 2 and victim not in running and running != before.keys()

        eventually(is_replaced, LEASE_SECONDS / 5, "nobody came in its place")
        assert survivor in workers(cloud, name), "the other one was not to be replaced"
        eventually(lambda: pools_of(cloud)["far"]["alive"] == 2, what="the new one does not live")

        # Once there was nothing to do for as long as is stated, nobody is kept.
        def is_released() -> bool:
            assert not cloud.fire("scheduler-tick")["failed"]
            return pools_of(cloud)["far"]["kept"] == 0

        eventually(is_released, what="it is kept though there is nothing to do")
        assert time.monotonic() - idle_since > IDLE_SECONDS
        eventually(lambda: workers(cloud, name) == {}, what="they stay")
        assert pools_of(cloud)["far"]["alive"] == 0
        ended = reports(cloud, name)
        assert ended[survivor]["buried"] == 1
        assert {report["stopped_because"] for report in ended.values()} == {"idle"}
