"""Pools in another region than their stage: what stands there, what it may do, and who calls it."""

import dataclasses
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from infra import alarm_names
from infra.pools import PoolKind, partition
from infra.stages import AWS_SMALL, GivenRedis, Stage, StageError
from tests.infra.assembly import Assembly
from tests.kit.aws import region_of
from tests.kit.kernel import Settings, names

if TYPE_CHECKING:
    from aws_cdk.cx_api import CloudAssembly

Compose = Callable[[Stage], Assembly]

HOME = "eu-west-1"
FAR = "ap-southeast-1"
ACCOUNT = "123456789012"
#: A stage as somebody may write it: its stores stand outside, and are reached from anywhere.
WIDE = dataclasses.replace(
    AWS_SMALL,
    name="wide",
    vpc=None,
    redis=GivenRedis(url="rediss://cache.example:6379", has_token=True),
    region=HOME,
    pools=(
        PoolKind(name="far", memory_mb=512, concurrency=3, region=FAR),
        PoolKind(name="big", memory_mb=3_008, concurrency=2),
        PoolKind(name="farther", memory_mb=512, concurrency=1, region=FAR),
    ),
)


def many(count: int, **where: Any) -> list[PoolKind]:
    return [
        PoolKind(name=f"workers-of-a-long-name-{n:02}", memory_mb=512, concurrency=1, **where)
        for n in range(count)
    ]


def arn(function: str, region: str) -> str:
    return f"arn:aws:lambda:{region}:{ACCOUNT}:function:{names.function_name('wide', function)}"


class Synthesised:
    """Templates, read as CloudFormation would in an account."""

    def __init__(self, assembly: "CloudAssembly") -> None:
        stacks = {
            stack.stack_name.removeprefix("crawlfleet-wide-"): stack for stack in assembly.stacks
        }
        self.order = list(stacks)
        self.places = {name: stack.environment for name, stack in stacks.items()}
        self._templates = {name: stack.template for name, stack in stacks.items()}

    def resources(self, stack: str, kind: str) -> dict[str, dict[str, Any]]:
        found = self._templates[stack]["Resources"]
        return {key: one["Properties"] for key, one in found.items() if one["Type"] == kind}

    def exports(self, stack: str) -> set[str]:
        """Return the names of the stack's exports."""
        outputs = self._templates[stack].get("Outputs", {}).values()
        return {self.said(stack, one["Export"]["Name"]) for one in outputs if "Export" in one}

    def text(self, stack: str) -> str:
        return json.dumps(self._templates[stack])

    def functions(self, stack: str) -> dict[str, dict[str, Any]]:
        found = self.resources(stack, "AWS::Lambda::Function").values()
        return {one["FunctionName"].removeprefix("crawlfleet-wide-"): one for one in found}

    def settings(self, stack: str, function: str) -> Settings:
        """Return the settings that the runtime reads from a function's environment."""
        said = self.functions(stack)[function]["Environment"]["Variables"]
        return Settings.from_environment(
            {key: self.said(stack, value) for key, value in said.items()}
        )

    def rights(self, stack: str, function: str) -> set[tuple[str, str]]:
        """Actions and ARNs of a function's role."""
        role = self.functions(stack)[function]["Role"]["Fn::GetAtt"][0]
        found = set()
        for policy in self.resources(stack, "AWS::IAM::Policy").values():
            if {"Ref": role} in policy["Roles"]:
                for one in policy["PolicyDocument"]["Statement"]:
                    for action in _listed(one["Action"]):
                        found |= {
                            (action, self.said(stack, each)) for each in _listed(one["Resource"])
                        }
        return found

    def said(self, stack: str, value: Any) -> str:
        match value:
            case str():
                return value
            case {"Fn::Join": [separator, parts]}:
                return separator.join(self.said(stack, part) for part in parts)
            case {"Ref": "AWS::Partition"}:
                return "aws"
            case {"Ref": "AWS::AccountId"}:
                return ACCOUNT
            case {"Ref": key}:
                return self._called(stack, key)
            case {"Fn::ImportValue": name}:
                return self._imported(str(name))
            case {"Fn::GetAtt": [key, "Arn"]} if key in self.resources(
                stack, "AWS::Lambda::Function"
            ):
                name = self._called(stack, key)
                return f"arn:aws:lambda:{self.places[stack].region}:{ACCOUNT}:function:{name}"
        return f"<{value}>"

    def _imported(self, name: str) -> str:
        return next(
            self.said(stack, one["Value"])
            for stack, template in self._templates.items()
            for one in template.get("Outputs", {}).values()
            if one.get("Export") == {"Name": name}
        )

    def _called(self, stack: str, key: str) -> str:
        if secret := self.resources(stack, "AWS::SecretsManager::Secret").get(key):
            region = self.places[stack].region
            return f"arn:aws:secretsmanager:{region}:{ACCOUNT}:secret:{secret['Name']}-Ab3dEf"
        functions = self.resources(stack, "AWS::Lambda::Function")
        return str(functions[key]["FunctionName"]) if key in functions else f"<{key}>"


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def read(assembly: Assembly) -> Synthesised:
    from aws_cdk.cx_api import CloudAssembly

    return Synthesised(CloudAssembly(str(assembly.folder)))


@pytest.fixture(scope="module")
def wide(composed: Compose) -> Synthesised:
    return read(composed(WIDE))


def test_each_region_has_a_stack_and_none_needs_an_account_to_be_synthesised(wide: Synthesised):
    places = {stack: place.name for stack, place in wide.places.items()}

    assert places == {
        stack: f"aws://unknown-account/{FAR if FAR in stack else HOME}" for stack in WIDE.stacks
    }
    assert {stack: WIDE.region_of(stack) for stack in WIDE.stacks} == {
        stack: place.region for stack, place in wide.places.items()
    }
    # Last of all: a region that is down holds up nothing at home.
    assert wide.order == list(WIDE.stacks)
    assert wide.order == ["state", "compute", "api", "events", f"compute-{FAR}"]


def test_a_region_s_stack_goes_with_its_last_pool_whatever_the_stage_protects():
    guarded = dataclasses.replace(WIDE, keep_state=True, protect_state=True)

    assert {stack: guarded.protects(stack) for stack in guarded.stacks} == {
        stack: FAR not in stack for stack in guarded.stacks
    }


def test_pools_come_move_and_go_while_the_stage_stands(wide: Synthesised, composed: Compose):
    """AWS refuses to remove an export that another stack still imports."""
    for pools in ((), WIDE.pools[:1], WIDE.pools[1:2]):
        other = read(composed(dataclasses.replace(WIDE, pools=pools)))
        for stack in ("state", "compute", "api"):
            assert other.exports(stack) == wide.exports(stack)


def test_the_functions_of_pools_stand_where_their_pools_do(wide: Synthesised):
    away = wide.functions(f"compute-{FAR}")

    assert away.keys() == {"consumer-far", "consumer-farther"}
    assert away.keys().isdisjoint(wide.functions("compute"))
    assert "consumer-big" in wide.functions("compute")
    far = away["consumer-far"]
    assert (far["MemorySize"], far["ReservedConcurrentExecutions"]) == (512, 3)
    logs = wide.resources(f"compute-{FAR}", "AWS::Logs::LogGroup").values()
    assert {one["LogGroupName"] for one in logs} == {
        f"/aws/lambda/crawlfleet-wide-{name}" for name in away
    }
    # Assets and layers are of one region each, and nothing there is taken from another stack.
    assert f"-{FAR}" in far["Code"]["S3Bucket"]["Fn::Sub"]
    layers = wide.resources(f"compute-{FAR}", "AWS::Lambda::LayerVersion")
    assert {layer["Ref"] for layer in far["Layers"]} <= layers.keys()
    assert "Fn::ImportValue" not in wide.text(f"compute-{FAR}")
    assert "AWS::Region" not in wide.text(f"compute-{FAR}")


def test_a_worker_away_knows_its_home_and_where_everybody_is(wide: Synthesised):
    settings = wide.settings(f"compute-{FAR}", "consumer-far")

    assert (settings.pool, settings.home_region) == ("far", HOME)
    assert settings.id_issuer_function == arn("id-issuer", HOME)
    assert settings.consumer_function == arn("consumer", HOME)
    assert {pool.name: (pool.region, pool.function) for pool in settings.pools} == {
        "far": (FAR, "crawlfleet-wide-consumer-far"),
        "big": (HOME, arn("consumer-big", HOME)),
        "farther": (FAR, "crawlfleet-wide-consumer-farther"),
    }
    # By name, as a stack of another region cannot refer to the secret.
    assert settings.redis_secret == "crawlfleet/wide/redis"
    assert settings.redis_url == "rediss://cache.example:6379"


@pytest.mark.parametrize("function", ["consumer", "consumer-big", "router", "scheduler"])
def test_who_starts_workers_at_home_is_reported_where_the_others_are(
    wide: Synthesised, function: str
):
    settings = wide.settings("compute", function)

    assert settings.home_region is None
    assert region_of(settings.consumer_function) is None
    assert settings.redis_secret == (
        f"arn:aws:secretsmanager:{HOME}:{ACCOUNT}:secret:crawlfleet/wide/redis-Ab3dEf"
    )
    assert {pool.name: pool.function for pool in settings.pools} == {
        "far": arn("consumer-far", FAR),
        "big": "crawlfleet-wide-consumer-big",
        "farther": arn("consumer-farther", FAR),
    }


def test_a_worker_away_may_read_at_home_what_it_needs_and_nothing_else(wide: Synthesised):
    stack = f"compute-{FAR}"
    rights = wide.rights(stack, "consumer-far")

    assert {(action, on) for action, on in rights if not action.startswith(("logs:", "xray:"))} == {
        ("ssm:GetParameter", f"arn:aws:ssm:{HOME}:{ACCOUNT}:parameter/crawlfleet/wide/revision"),
        *(
            ("ssm:GetParameters", f"arn:aws:ssm:{HOME}:{ACCOUNT}:parameter/crawlfleet/wide/{name}")
            for name in ("revision", "stage/parts/snapshot/*")
        ),
        ("ssm:GetParametersByPath", f"arn:aws:ssm:{HOME}:{ACCOUNT}:parameter/crawlfleet/wide"),
        ("ssm:GetParametersByPath", f"arn:aws:ssm:{HOME}:{ACCOUNT}:parameter/crawlfleet/wide/*"),
        *(
            (
                "secretsmanager:GetSecretValue",
                f"arn:aws:secretsmanager:{HOME}:{ACCOUNT}:secret:crawlfleet/wide/{secret}",
            )
            for secret in ("redis-??????", "nodes/*", "proxies/*", "tenants/*", "otlp/*")
        ),
        ("kms:Decrypt", f"arn:aws:kms:{HOME}:{ACCOUNT}:key/*"),
        ("lambda:InvokeFunction", arn("id-issuer", HOME)),
        ("lambda:InvokeFunction", arn("consumer", HOME)),
        ("lambda:InvokeFunction", arn("consumer-big", HOME)),
        ("lambda:InvokeFunction", arn("consumer-far", FAR)),
        ("lambda:InvokeFunction", arn("consumer-farther", FAR)),
    }
    # Its log is its own, and only tracing has no resource to name.
    assert {on for action, on in rights if action.startswith("xray:")} == {"*"}


def test_the_scheduler_starts_and_limits_workers_in_their_region(wide: Synthesised):
    rights = wide.rights("compute", "scheduler")

    workers = {
        arn("consumer", HOME),
        arn("consumer-big", HOME),
        arn("consumer-far", FAR),
        arn("consumer-farther", FAR),
    }
    for action in ("lambda:GetFunctionConcurrency", "lambda:PutFunctionConcurrency"):
        assert {on for what, on in rights if what == action} == workers
    invoked = {on for what, on in rights if what == "lambda:InvokeFunction"}
    assert invoked == {*workers, arn("id-issuer", HOME)}


def test_the_dashboard_shows_what_alarms_of_another_region_cannot_watch(wide: Synthesised):
    [board] = wide.resources("events", "AWS::CloudWatch::Dashboard").values()
    shown = wide.said("events", board["DashboardBody"])

    for name in ("Errors", "Throttles"):
        for function in ("consumer-far", "consumer-farther"):
            graph = f'["AWS/Lambda","{name}","FunctionName","crawlfleet-wide-{function}",'
            assert f'{graph}{{"region":"{FAR}"' in shown
    alarms = alarm_names.of_stage(WIDE)
    assert "consumer-big-errors" in alarms
    assert not any("consumer-far" in name for name in alarms)
    assert "consumer-far" not in json.dumps(wide.resources("events", "AWS::CloudWatch::Alarm"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"region": ""}, "the stage does not say its own"),
        ({"region": FAR}, "the stage stands there itself"),
        ({"region": "cn-north-1"}, "no role of aws-cn is let in from aws"),
        ({"region": "Ireland"}, "region 'Ireland' is no region of AWS"),
        ({"redis": GivenRedis(url="redis://cache.example")}, "needs TLS"),
        ({"redis": GivenRedis(url="redis+cluster://cache.example")}, "needs TLS"),
        ({"redis": GivenRedis(url="rediss://127.0.0.1:6379")}, "a public address"),
        ({"redis": GivenRedis(url="rediss://10.0.0.7:6379")}, "a public address"),
        ({"redis": GivenRedis(url="rediss://redis.internal")}, "a public address"),
        ({"redis": GivenRedis(url="rediss://q.abc.euw1.cache.amazonaws.com")}, "a public address"),
        ({"redis": GivenRedis(url="rediss://c.q.memorydb.eu-west-1.amazonaws.com")}, "a public"),
        ({"redis": GivenRedis(url="rediss://redis.internal.")}, "a public address"),
        ({"redis": GivenRedis(url="rediss://redis")}, "a public address"),
        ({"redis": GivenRedis(url="rediss://cache.example")}, "needs a password: say has_token"),
        ({"pools": tuple(many(17))}, "17 of them; the most is 16"),
        ({"pools": tuple(many(16, region=FAR))}, "have fewer of them in other regions"),
        ({"vpc": AWS_SMALL.vpc}, "Redis is reached from nowhere else"),
        ({"vpc": AWS_SMALL.vpc, "redis": AWS_SMALL.redis}, "Redis is reached from nowhere else"),
    ],
)
def test_a_stage_whose_stores_are_not_reached_from_there_is_refused(
    changes: dict[str, Any], said: str
):
    with pytest.raises(StageError) as refused:
        dataclasses.replace(WIDE, **changes)

    assert said in str(refused.value)


def test_a_refusal_shows_no_password_that_stands_in_an_address():
    with pytest.raises(StageError, match="needs TLS") as refused:
        dataclasses.replace(WIDE, redis=GivenRedis(url="redis://:hunter2@cache.example"))

    assert "hunter2" not in str(refused.value)


def test_without_pools_elsewhere_a_stage_may_say_its_region_and_need_not():
    at_home = dataclasses.replace(WIDE, pools=WIDE.pools[1:2])

    assert at_home.stacks == ("state", "compute", "api", "events")
    assert at_home.region_of("compute") == HOME
    assert dataclasses.replace(at_home, region="").region_of("compute") == ""


def test_the_parts_of_aws_are_reported_by_their_regions():
    assert {partition(one) for one in (HOME, FAR, "us-east-1", "me-central-1")} == {"aws"}
    assert partition("us-gov-west-1") == "aws-us-gov"
