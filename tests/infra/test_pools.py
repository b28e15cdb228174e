"""Pools: what a stage with them has more, and that one without them has nothing of it."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from infra import pools
from infra.fleet import FLEET
from infra.pools import Egress, Home, PoolKind, fleet_of
from infra.stages import AWS_LARGE, LOCALSTACK, STAGES, Stage, StageError
from tests.infra.assembly import Assembly
from tests.kit.kernel import MAIN_POOL, TAKEN_NAMES, Settings, names, pool

FAR = PoolKind(name="far", memory_mb=512, concurrency=3, network=Egress.NAT)


def test_a_stage_without_pools_has_the_fleet_of_five():
    assert fleet_of(()) is FLEET
    assert [stage.name for stage in STAGES.values() if not stage.pools] == [
        "aws-small",
        "localstack",
    ]


def test_at_least_one_stage_has_two_kinds_of_worker():
    fleet = fleet_of(AWS_LARGE.pools)

    workers = {spec.name: spec.memory_mb for spec in fleet.functions if spec.is_worker}
    assert workers == {"consumer": 1024, "consumer-large": 3008}


def test_no_template_of_a_stage_without_pools_knows_of_any(each_stage: Assembly):
    text = "".join(json.dumps(each_stage.template(stack)) for stack in each_stage.stacks())

    has_pools = bool(STAGES[each_stage.stage].pools)
    assert (names.ENV_POOLS in text) == (f'"{names.ENV_POOL}"' in text) == has_pools
    assert any("-consumer-" in one for one in each_stage.functions()) == has_pools


def test_a_pool_adds_to_a_stage_and_changes_only_who_starts_workers(
    composed: Callable[[Stage], Assembly],
):
    without = composed(dataclasses.replace(AWS_LARGE, pools=()))
    having = composed(dataclasses.replace(AWS_LARGE, pools=(FAR,)))

    changed = set()
    for stack, key, resource in without.every():
        if having.template(stack)["Resources"][key] != resource:
            changed.add((resource["Type"], key.split("Function")[0].split("Role")[0]))
    assert changed == {
        ("AWS::Lambda::Function", "consumer"),
        ("AWS::Lambda::Function", "router"),
        ("AWS::Lambda::Function", "scheduler"),
        ("AWS::Lambda::Function", "monitor"),
        ("AWS::Lambda::Function", "operators"),  # the router's code knows which pools there are
        ("AWS::IAM::Policy", "consumer"),
        ("AWS::IAM::Policy", "scheduler"),
        ("AWS::CloudWatch::Dashboard", next(k for t, k in changed if t.endswith("Dashboard"))),
    }


def test_a_pool_leaves_as_it_is_reported_and_knows_what_it_is(
    composed: Callable[[Stage], Assembly],
):
    functions = composed(dataclasses.replace(AWS_LARGE, pools=(FAR,))).functions()

    far = functions["crawlfleet-aws-large-consumer-far"]
    assert (far["MemorySize"], far["ReservedConcurrentExecutions"]) == (512, 3)
    assert far["VpcConfig"]["Ipv6AllowedForDualStack"] is False
    assert "AWS_USE_DUALSTACK_ENDPOINT" not in far["Environment"]["Variables"]
    assert far["Environment"]["Variables"][names.ENV_POOL] == "far"
    assert far["Handler"] == functions["crawlfleet-aws-large-consumer"]["Handler"]
    assert far["Code"] == functions["crawlfleet-aws-large-consumer"]["Code"]
    # The runtime reads what the infrastructure says, once CloudFormation has put in the region.
    said = far["Environment"]["Variables"][names.ENV_POOLS]
    said = "".join(part if isinstance(part, str) else "eu-west-1" for part in said["Fn::Join"][1])
    environment = {names.ENV_STAGE: "aws-large", names.ENV_POOLS: said, names.ENV_POOL: "far"}
    settings = Settings.from_environment(environment)
    (pool,) = settings.pools
    assert (pool.name, pool.memory_mb, pool.region) == ("far", 512, "eu-west-1")
    assert (pool.network, pool.ceiling) == ("nat", 3)
    assert pool.function == "crawlfleet-aws-large-consumer-far"
    assert settings.pool == "far"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "main"}, "no name of a pool"),
        ({"name": "fleet"}, "no name of a pool"),
        ({"name": "Far"}, "no name of a pool"),
        ({"name": "f" * 32}, "longer than 64 characters"),
        ({"memory_mb": 64}, "not within 128 to 10,240"),
        ({"concurrency": 0}, "below 1"),
        ({"region": "eu-west-1"}, "stands in its stage's vpc, and so in its region"),
        ({"region": "Ireland"}, "no region of AWS"),
    ],
)
def test_a_pool_that_cannot_be_is_refused_with_the_reason(changes: dict[str, Any], said: str):
    stage = dataclasses.replace(AWS_LARGE, name="a-stage-of-a-long-name", pools=())
    with pytest.raises(StageError, match=said):
        dataclasses.replace(stage, pools=(dataclasses.replace(FAR, **changes),))


def test_a_network_needs_a_vpc_and_a_name_is_one_pools_alone():
    with pytest.raises(StageError, match=r"network nat .*vpc"):
        dataclasses.replace(LOCALSTACK, pools=(FAR,))
    with pytest.raises(StageError, match="named twice"):
        dataclasses.replace(AWS_LARGE, pools=(FAR, FAR))


def test_the_names_that_are_taken_are_those_that_the_runtime_refuses():
    for name in TAKEN_NAMES:
        home = Home(stage="local", has_vpc=True)
        assert list(dataclasses.replace(FAR, name=name).errors(home))
    assert MAIN_POOL in TAKEN_NAMES


def test_a_stage_may_have_as_many_pools_as_its_functions_take():
    assert pools.MOST_POOLS == pool.MOST_POOLS
