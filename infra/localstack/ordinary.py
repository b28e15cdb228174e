"""The ordinary LocalStack: one that runs already, or one in Docker.

Its functions are containers of their own, so they see this machine by another address, and its free
edition ignores layers: see ``folding.py``.
"""

import ipaddress
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import requests

from infra.local.parts import LOOPBACK, free_port
from infra.localstack.commands import run
from infra.places import ENV_ENDPOINT
from infra.steps import StepError, wait_for

IMAGE: Final = "localstack/localstack:4.14.0"
#: Where functions find this machine, for who knows better than we can guess.
ENV_ADDRESS: Final = "LOCALSTACK_SEES_ME_AT"

_REGION: Final = "us-east-1"
_PULL_SECONDS: Final = 900.0
_START_SECONDS: Final = 120.0
_CALL_SECONDS: Final = 30.0
#: Docker's own name for the machine, where Docker is in a machine of its own.
_DESKTOP: Final = "host.docker.internal"
_GATEWAY: Final = "{{(index .IPAM.Config 0).Gateway}}"


def docker_answers(environ: Mapping[str, str]) -> bool:
    """Return whether Docker answers."""
    docker = shutil.which("docker", path=environ.get("PATH", os.defpath))
    if docker is None:
        return False
    try:
        asked = [docker, "info", "--format", "{{.ServerVersion}}"]
        done = subprocess.run(  # noqa: S603  a look whether it runs
            asked, env=dict(environ), capture_output=True, check=False, timeout=_CALL_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


class Ordinary:
    """The LocalStack at ``AWS_ENDPOINT_URL``, which is kept, or else a container, which is removed.

    Args:
        logs: Where Docker's output goes.
        environ: The process's own.
        port: Of this machine, where the container's is; any free one by default.

    Attributes:
        address: Where its functions find what listens on this machine.
        folded: Whether functions are to carry their layers: always, here.
    """

    folded = True

    def __init__(self, logs: Path, environ: Mapping[str, str], port: int | None = None) -> None:
        self._logs = logs
        self._environ = dict(environ)
        self._given = environ.get(ENV_ENDPOINT)
        if self._given and not is_local(self._given):
            raise StepError(
                f"{ENV_ENDPOINT} is {self._given}, which is not on this machine",
                "This deploys and deletes: it is for a LocalStack of your own. `make deploy` and"
                " `make smoke` are for AWS.",
            )
        self._port = port or free_port()
        self._container = ""
        self.address = environ.get(ENV_ADDRESS) or self._bridge()

    def prepare(self) -> None:
        """Pull the image, unless one runs already.

        Raises:
            StepError: it cannot be had.
        """
        if not self._given:
            self._docker("pull", "--quiet", IMAGE, seconds=_PULL_SECONDS)

    def start(self) -> None:
        """Start it, and wait until it answers.

        Raises:
            StepError: it does not.
        """
        if not self._given:
            self._container = f"crawlfleet-localstack-{os.getpid()}"
            self._docker(
                *("run", "--detach", "--rm", "--name", self._container),
                *("--publish", f"{LOOPBACK}:{self._port}:4566"),
                *("--volume", "/var/run/docker.sock:/var/run/docker.sock"),
                *("--env", f"MAIN_CONTAINER_NAME={self._container}"),
                IMAGE,
                seconds=_CALL_SECONDS,
            )
        wait_for(
            self._answers,
            _START_SECONDS,
            f"LocalStack answers at {self._endpoint}",
            f"`docker logs {self._container}` says why not."
            if self._container
            else f"Start it, or unset {ENV_ENDPOINT}.",
        )

    def stop(self) -> None:
        """Stop the container; what somebody else has started stays."""
        if self._container:
            self._docker("stop", self._container, seconds=_CALL_SECONDS)
            self._container = ""

    def environment(self) -> dict[str, str]:
        """The environment in which AWS's SDKs and CDK find it."""
        return {
            **{key: value for key, value in self._environ.items() if key != "AWS_PROFILE"},
            ENV_ENDPOINT: self._endpoint,
            f"{ENV_ENDPOINT}_S3": self._endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": _REGION,
            "AWS_DEFAULT_REGION": _REGION,
        }

    @property
    def _endpoint(self) -> str:
        return self._given or f"http://{LOOPBACK}:{self._port}"

    def _answers(self) -> bool:
        try:
            return requests.get(f"{self._endpoint}/_localstack/health", timeout=5).ok
        except requests.RequestException:
            return False

    def _bridge(self) -> str:
        """The machine as seen from a container."""
        if sys.platform != "linux":
            return _DESKTOP
        try:
            found = subprocess.run(  # noqa: S603  the user's own Docker
                ["docker", "network", "inspect", "bridge", "--format", _GATEWAY],  # noqa: S607  the same
                env=self._environ,
                capture_output=True,
                text=True,
                check=True,
                timeout=_CALL_SECONDS,
            ).stdout.strip()
            return str(ipaddress.ip_address(found))
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            raise StepError(
                "Docker does not say at which address containers see this machine",
                f"Name it in {ENV_ADDRESS}; {LOOPBACK} for functions that share its network.",
            ) from error

    def _docker(self, *arguments: str, seconds: float) -> None:
        began = time.monotonic_ns()
        run(
            f"docker {arguments[0]}",
            ["docker", *arguments],
            self._logs / f"docker-{arguments[0]}-{began}.log",
            self._environ,
            self._logs,
            seconds=seconds,
            do="See whether Docker runs: `docker info`.",
        )


def is_local(url: str) -> bool:
    """Return whether an address is this machine's.

    >>> is_local("http://127.0.0.1:4566"), is_local("http://localhost.localstack.cloud:4566")
    (True, True)
    >>> is_local("https://ssm.eu-west-1.amazonaws.com"), is_local("http://10.0.0.1:4566")
    (False, False)
    """
    host = urlsplit(url).hostname or ""
    if host in {"localhost", "localhost.localstack.cloud"}:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
