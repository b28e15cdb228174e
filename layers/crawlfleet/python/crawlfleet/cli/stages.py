"""Where a stage's configuration is kept: in AWS, or in a local cloud on this machine."""

import ipaddress
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from crawlfleet.adapters import aws
from crawlfleet.adapters.ssm_tree import SsmApi
from crawlfleet.errors import ConfigError, Problem
from crawlfleet.names import ENV_STATE
from crawlfleet.sdk.address import LOCAL_FILE, local_file

#: The stage on one's own machine.
LOCAL_STAGE: Final = "local"
#: Variables with which one says oneself where AWS is.
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SSM")


class UnknownPlaceError(ConfigError):
    """Where the stage is cannot be told; nothing is wrong with what was to be put there."""


def stage_client(
    stage: str,
    state: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    start: Path | None = None,
) -> SsmApi:
    """A client of the stage's Parameter Store, patient enough for its ration of writes.

    The address comes from the usual ``AWS_*`` variables; that of the local stage, unless they name
    one, from the file that `crawlfleet up` writes: in ``state``, the folder it was told to use, or
    else below the working directory or one above it.

    Raises:
        UnknownPlaceError: the local stage was never up, or its file leads away from this machine;
            or the environment does not say where AWS is.
    """
    environ = os.environ if environ is None else environ
    options: dict[str, Any] = {"timeout_seconds": 10.0, "attempts": 10}
    if stage == LOCAL_STAGE and not any(environ.get(name) for name in _ENDPOINTS):
        options |= {
            "endpoint_url": _local_endpoint(local_file(start or Path.cwd(), state) or LOCAL_FILE),
            "region_name": "us-east-1",
            "aws_access_key_id": "local",
            "aws_secret_access_key": "local",
        }
    from botocore.exceptions import BotoCoreError

    try:
        client: SsmApi = aws.client("ssm", **options)
    except BotoCoreError as error:
        remedy = "set AWS_PROFILE, or AWS_DEFAULT_REGION and credentials"
        said = f"{str(error).rstrip('.')} to reach the stage {stage[:64]!r}: {remedy}"
        if stage != LOCAL_STAGE:
            said += f"; the stage on this machine is called {LOCAL_STAGE!r}"
        raise UnknownPlaceError((Problem("AWS", said),)) from error
    return client


def _local_endpoint(file: Path) -> str:
    try:
        endpoint = json.loads(file.read_text(encoding="utf-8"))["aws_endpoint_url"]
        host = urlsplit(endpoint).hostname
        sound = host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except FileNotFoundError:
        message = (
            "is not here; run `crawlfleet up`, or name the folder that it was started with, "
            f"with --state FOLDER or {ENV_STATE}"
        )
        raise UnknownPlaceError((Problem(str(file), message),)) from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        sound = False
    if not sound:
        message = "has no aws_endpoint_url on this machine; run `crawlfleet up`"
        raise UnknownPlaceError((Problem(str(file), message),))
    return str(endpoint)
