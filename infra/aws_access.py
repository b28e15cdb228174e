"""AWS's clients for whoever looks at a deployment: of the environment, or of a LocalStack."""

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from crawlfleet.kernel.aws import clients as aws
from infra.places import ENV_ENDPOINT
from infra.steps import StepError

#: A person is waiting, and a LocalStack answers its first call to a service in seconds.
SECONDS: Final = 20.0
ATTEMPTS: Final = 5
CREDENTIALS: Final = "Set AWS_PROFILE, or AWS_DEFAULT_REGION and credentials."


class Access:
    """Clients by the name of their service and its region, each made once.

    Args:
        environment: Whose ``AWS_*`` variables say where AWS is and who asks; the process's own
            where none is given, with all that boto3 finds besides.
        region: Where to look, if a stage says so; else the environment does.
    """

    def __init__(self, environment: Mapping[str, str] | None = None, region: str = "") -> None:
        self._options: dict[str, Any] = {}
        self._region = region
        self.endpoint_url = (os.environ if environment is None else environment).get(ENV_ENDPOINT)
        if environment is not None:
            self._options = {
                "endpoint_url": self.endpoint_url,
                "region_name": environment["AWS_DEFAULT_REGION"],
                "aws_access_key_id": environment["AWS_ACCESS_KEY_ID"],
                "aws_secret_access_key": environment["AWS_SECRET_ACCESS_KEY"],
            }
        self._clients: dict[tuple[str, str], Any] = {}

    def client(self, service: str, region: str = "") -> Any:
        """The client of a service, in that region or where one looks otherwise."""
        region = region or self._region
        if (service, region) not in self._clients:
            options = self._options | ({"region_name": region} if region else {})
            self._clients[service, region] = aws.client(
                service, timeout_seconds=SECONDS, attempts=ATTEMPTS, **options
            )
        return self._clients[service, region]

    def all(
        self, service: str, operation: str, key: str, /, region: str = "", **arguments: Any
    ) -> list[Any]:
        """Collect what all pages of a list hold below ``key``."""
        pages = self.client(service, region).get_paginator(operation).paginate(**arguments)
        return [one for page in pages for one in page.get(key, ())]


def asked(doing: str, call: Callable[..., Any], /, *args: Any, **arguments: Any) -> Any:
    """The answer of a call to AWS; ``doing`` says in a sentence's beginning what it is for.

    Raises:
        StepError: AWS refused or did not answer.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return call(*args, **arguments)
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "unknown")
        raise StepError(
            f"{doing}: AWS answers {code}",
            "Look whether the stage is deployed in this account and region, and whether these"
            " credentials may read it.",
        ) from error
    except BotoCoreError as error:
        raise StepError(
            f"{doing}: {str(error).rstrip('.')}",
            CREDENTIALS,
        ) from error
