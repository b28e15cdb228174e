"""AWS regions of calls: a function is called in the region that its ARN names."""

import io
import zipfile
from datetime import UTC, datetime

import boto3
import pytest

from tests.kit.aws import aws as clients
from tests.kit.config import Field, Rule
from tests.kit.fleet import LambdaConcurrency, LambdaIds, LambdaTrials, LambdaWaker
from tests.kit.kernel import IdKind, QueueKey, StoreUnavailableError
from tests.kit.requests import Page
from tests.kit.trials import Question, Terms

HERE = "us-east-1"
FAR = "ap-southeast-1"
QUEUE_KEY = QueueKey("acme", "docs", "main")
QUESTION = Question(
    tenant="acme",
    biz="docs",
    terms=Terms(robots_agent="Crawlfleet"),
    rule=Rule(fields={"title": Field(css="title")}),
    page=Page(url="https://example.org/", status=200, headers={}, body=b"<title>"),
)
ARN = f"arn:aws:lambda:{FAR}:123456789012:function:far"


def now() -> datetime:
    return datetime(2026, 3, 1, tzinfo=UTC)


def made(region: str, name: str) -> str:
    """A function that stands there; its ARN."""
    role = boto3.client("iam").create_role(RoleName=region, AssumeRolePolicyDocument="{}")
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("handler.py", "")
    answer = boto3.client("lambda", region_name=region).create_function(
        FunctionName=name,
        Runtime="python3.13",
        Role=role["Role"]["Arn"],
        Handler="handler.handler",
        Code={"ZipFile": code.getvalue()},
    )
    return str(answer["FunctionArn"])


@pytest.mark.parametrize(
    ("function", "region"),
    [
        ("far", None),
        ("arn", None),
        ("123456789012:function:far", None),
        (ARN, FAR),
        (f"{ARN}:live", FAR),
        ("arn:aws-us-gov:lambda:us-gov-west-1:123456789012:function:far", "us-gov-west-1"),
    ],
)
def test_an_arn_names_its_region_and_a_name_is_of_the_own_one(function, region):
    assert clients.region_of(function) == region


def test_the_concurrency_of_a_function_is_set_in_its_region(aws, monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", HERE)
    made(HERE, "far")
    arn = made(FAR, "far")
    assert clients.region_of(arn) == FAR

    limit = LambdaConcurrency(arn, 10)
    limit.change(7)

    assert limit.current() == 7
    # The one of the same name here is another function.
    assert LambdaConcurrency("far", 10).current() is None


@pytest.mark.parametrize(("function", "region"), [("far", None), (ARN, FAR)])
@pytest.mark.parametrize(
    "call",
    [
        lambda function: LambdaWaker(function).wake(1),
        lambda function: LambdaWaker(function).wake(3),
        lambda function: LambdaIds(function, now).take(QUEUE_KEY, IdKind.SNOWFLAKE, 1),
        lambda function: LambdaTrials(function).ask(QUESTION),
        lambda function: LambdaConcurrency(function, 10).current(),
        lambda function: LambdaConcurrency(function, 10).change(1),
    ],
    ids=["wake", "wake some", "ids", "trial", "current", "change"],
)
def test_every_call_of_a_function_goes_to_its_region(monkeypatch, call, function, region):
    asked = []

    def client(service, **options):
        asked.append((service, options["region"], options["timeout_seconds"] > 0))
        raise ConnectionError

    monkeypatch.setattr(clients, "client", client)

    with pytest.raises(StoreUnavailableError):
        call(function)
    assert asked == [("lambda", region, True)]
