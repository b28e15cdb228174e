"""Checks of a stage's pools, in its region and in others."""

import dataclasses
import json
from datetime import UTC, datetime

import pytest

from infra.aws_access import Access
from infra.pools import PoolKind
from infra.smoke import checks
from infra.smoke.deployment import Deployment, find_deployment, log_group, stack_name
from infra.smoke.logs import tail
from infra.stages import STAGES, GivenRedis
from infra.steps import StepError
from tests.infra_smoke.deployed import ENVIRONMENT, REGION, STAGE, client, failure, make_functions
from tests.kit.kernel import names


@pytest.fixture
def with_pools(aws):
    """A stage with a pool, whose functions are all there."""
    make_functions("aws-large")
    return Deployment("aws-large", Access(ENVIRONMENT), {}, {})


def test_the_functions_of_pools_are_looked_at_too(with_pools):
    assert checks.functions(with_pools) == "8 active"

    pool = names.function_name("aws-large", "consumer-large")
    client("lambda").update_function_configuration(FunctionName=pool, MemorySize=1024)
    assert f"{pool}: it has 1024 MB" in failure(checks.functions, with_pools)
    client("lambda").delete_function(FunctionName=pool)
    assert pool in failure(checks.functions, with_pools)


def test_workers_of_each_pool_may_run_as_many_as_are_reserved(with_pools):
    def reserve(function, count):
        client("lambda").put_function_concurrency(
            FunctionName=names.function_name("aws-large", function),
            ReservedConcurrentExecutions=count,
        )

    reserve("consumer", 50)
    assert "consumer-large" in failure(checks.concurrency, with_pools)
    reserve("consumer-large", 2)
    assert checks.concurrency(with_pools) == "50 consumers, 2 consumers of large at once"
    reserve("consumer-large", 11)
    assert "11, of 10" in failure(checks.concurrency, with_pools)


FAR = "ap-southeast-1"
WIDE = dataclasses.replace(
    STAGES[STAGE],
    name="wide",
    vpc=None,
    redis=GivenRedis(url="rediss://cache.example", has_token=True),
    region=REGION,
    pools=(PoolKind(name="far", memory_mb=512, concurrency=3, region=FAR),),
)


@pytest.fixture
def in_two_regions(aws, monkeypatch):
    """A stage with a pool in another region; whoever looks is in a third one by his environment."""
    monkeypatch.setitem(STAGES, WIDE.name, WIDE)
    make_functions(WIDE.name)
    for stack in WIDE.stacks:
        client("cloudformation", WIDE.region_of(stack)).create_stack(
            StackName=stack_name(WIDE.name, stack),
            TemplateBody=json.dumps({"Resources": {"Nothing": {"Type": "AWS::SQS::Queue"}}}),
        )
    elsewhere = ENVIRONMENT | {"AWS_DEFAULT_REGION": "eu-north-1"}
    return find_deployment(WIDE.name, Access(elsewhere, WIDE.region))


def test_stacks_and_functions_are_looked_for_where_they_stand(in_two_regions):
    assert checks.stacks(in_two_regions) == "5 stand"
    assert checks.functions(in_two_regions) == "8 active"

    pool = names.function_name(WIDE.name, "consumer-far")
    client("lambda", FAR).update_function_configuration(FunctionName=pool, MemorySize=1024)
    with pytest.raises(StepError, match="it has 1024 MB") as caught:
        checks.functions(in_two_regions)
    assert (caught.value.log_group, caught.value.region) == (f"/aws/lambda/{pool}", FAR)


def test_the_log_of_a_function_is_read_where_it_is(in_two_regions):
    group = log_group(WIDE.name, "consumer-far")
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    logs = client("logs", FAR)
    logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName="s")
    logs.put_log_events(
        logGroupName=group,
        logStreamName="s",
        logEvents=[{"timestamp": now_ms, "message": "why it failed"}],
    )

    assert "why it failed" in tail(in_two_regions.access, group, now_ms, region=FAR)
    assert "cannot be read" in tail(in_two_regions.access, group, now_ms)


def test_workers_of_another_region_are_counted_there(in_two_regions):
    for function, region in (("consumer", REGION), ("consumer-far", FAR)):
        client("lambda", region).put_function_concurrency(
            FunctionName=names.function_name(WIDE.name, function),
            ReservedConcurrentExecutions=2,
        )

    assert checks.concurrency(in_two_regions) == "2 consumers, 2 consumers of far at once"
