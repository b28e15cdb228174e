"""Clients of a LocalStack, which `localstack-client` makes."""

import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from botocore.config import Config

from infra.aws_access import ATTEMPTS, SECONDS, Access
from infra.places import ENV_ENDPOINT


class LocalStackAccess(Access):
    """AWS as a LocalStack stands for it, at the address of its environment."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        super().__init__(environment)
        # Here, as only who runs a LocalStack needs it.
        from localstack_client.session import Session

        self._session = Session(
            aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
            region_name=environment["AWS_DEFAULT_REGION"],
            localstack_host=urlsplit(environment[ENV_ENDPOINT]).netloc,
        )
        # Its clients come of one session of boto3, from which threads must not make them at once.
        self._lock = threading.Lock()

    def client(self, service: str, region: str = "") -> Any:  # noqa: ARG002  it has one region
        """The client of a service."""
        with self._lock:
            made = self._clients.get((service, ""))
            if made is None:
                config = Config(
                    connect_timeout=SECONDS,
                    read_timeout=SECONDS,
                    retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
                )
                made = self._clients[service, ""] = self._session.client(service, config=config)
            return made
