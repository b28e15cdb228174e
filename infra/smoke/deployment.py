"""A deployment, found by the outputs of its stacks."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final
from urllib.parse import urlsplit

from crawlfleet.kernel import names
from crawlfleet.sdk import Client
from infra.aws_access import Access, asked
from infra.stages import STAGES, Stage
from infra.steps import StepError

#: What CloudFormation says of a stack that stands as its template says.
STANDING: Final = frozenset({"CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"})


def stack_name(stage: str, stack: str) -> str:
    """Name of a stack.

    >>> stack_name("aws-small", "api")
    'crawlfleet-aws-small-api'
    """
    return f"{names.PRODUCT}-{stage}-{stack}"


def log_group(stage: str, function: str) -> str:
    """Return the name of a function's log group.

    >>> log_group("aws-small", names.ROUTER)
    '/aws/lambda/crawlfleet-aws-small-router'
    """
    return f"/aws/lambda/{names.function_name(stage, function)}"


def reachable(url: str, endpoint_url: str | None) -> str:
    """The API's address as it can be reached: LocalStack's own names are in no resolver.

    >>> reachable("https://abc.execute-api.eu-west-1.amazonaws.com/aws-small/", None)
    'https://abc.execute-api.eu-west-1.amazonaws.com/aws-small'
    >>> reachable("https://abc.execute-api.localhost:4566/localstack/", "http://127.0.0.1:4566")
    'http://127.0.0.1:4566/_aws/execute-api/abc/localstack'
    """
    if endpoint_url is None:
        return url.rstrip("/")
    parts = urlsplit(url)
    api_id = (parts.hostname or "").partition(".")[0]
    return f"{endpoint_url.rstrip('/')}/_aws/execute-api/{api_id}{parts.path.rstrip('/')}"


@dataclass(frozen=True)
class Deployment:
    """A stage that stands.

    Attributes:
        stage: Its name.
        access: AWS.
        outputs: Of each stack, by its short name.
        states: What CloudFormation says of each.
    """

    stage: str
    access: Access
    outputs: Mapping[str, Mapping[str, str]]
    states: Mapping[str, str]

    @property
    def settings(self) -> Stage:
        """Return the settings of the stage, in this version."""
        return STAGES[self.stage]

    @property
    def api_url(self) -> str:
        """The API's address."""
        return reachable(self.output("api", "Url"), self.access.endpoint_url)

    @cached_property
    def api_key(self) -> str:
        """The default tenant's key."""
        key_id = self.output("state", "DefaultApiKeyId")
        answer = asked(
            "reading the default tenant's key",
            self.access.client("apigateway").get_api_key,
            apiKey=key_id,
            includeValue=True,
        )
        return str(answer["value"])

    def client(self) -> Client:
        """The SDK's client, as the default tenant has it."""
        return Client(self.api_url, self.api_key)

    def output(self, stack: str, name: str) -> str:
        """An output.

        Raises:
            StepError: the stack has none of that name.
        """
        try:
            return self.outputs[stack][name]
        except KeyError:
            raise StepError(
                f"the stack {stack_name(self.stage, stack)} has no output {name}",
                f"It is of another version: `make deploy STAGE={self.stage}`.",
            ) from None

    def dead_letters(self) -> dict[str, str]:
        """Addresses of the queues of given up events, by what they are called in the outputs."""
        suffix = "DeadLetters"
        found = self.outputs["compute"].items()
        return {name.removesuffix(suffix): url for name, url in found if name.endswith(suffix)}


def find_deployment(stage: str, access: Access) -> Deployment:
    """The deployment of a stage.

    Raises:
        StepError: it is not there, or AWS does not answer.
    """
    outputs: dict[str, dict[str, str]] = {}
    states: dict[str, str] = {}
    for stack in STAGES[stage].stacks:
        name = stack_name(stage, stack)
        region = STAGES[stage].region_of(stack)
        cloudformation = asked("looking for AWS", access.client, "cloudformation", region)
        answer = asked(
            f"looking for the stack {name}", cloudformation.describe_stacks, StackName=name
        )
        (found,) = answer["Stacks"]
        states[stack] = found["StackStatus"]
        outputs[stack] = {one["OutputKey"]: one["OutputValue"] for one in found.get("Outputs", ())}
    return Deployment(stage=stage, access=access, outputs=outputs, states=states)
