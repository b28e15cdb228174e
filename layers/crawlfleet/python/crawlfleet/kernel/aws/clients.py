"""Clients of AWS: explicit time-outs, few tries, the environment's addresses.

botocore's own defaults wait 60 s and try five times, which is longer than most functions live.

A Lambda endpoint answers for the functions of its own region alone. Where another region's is meant
it is named by its ARN, and its client is one of the region in there.

Secrets of Secrets Manager are read once, kept in memory, never logged or quoted.
"""

import re
import threading
from functools import cache
from typing import Any, Final

from crawlfleet.kernel.errors import ConfigError, Problem, StoreUnavailableError

#: A caller is waiting; AWS answers within tens of milliseconds or is in trouble.
TIMEOUT_SECONDS: Final = 2.0
ATTEMPTS: Final = 2
_FUNCTION_ARN: Final = re.compile(r"arn:[a-z0-9-]+:lambda:(?P<region>[a-z0-9-]+):")


def region_of(function: str) -> str | None:
    """Return the region in a function's ARN; None for a name, which is of the own region.

    >>> region_of("arn:aws:lambda:eu-west-1:123456789012:function:far")
    'eu-west-1'
    >>> region_of("crawlfleet-aws-large-consumer")
    """
    found = _FUNCTION_ARN.match(function)
    return found["region"] if found else None


def lambda_client(
    function: str, *, timeout_seconds: float = TIMEOUT_SECONDS, attempts: int = ATTEMPTS
) -> Any:
    """Make a client of ``lambda`` that reaches a function, wherever its ARN says that it is."""
    return client(
        "lambda",
        region=region_of(function),
        timeout_seconds=timeout_seconds,
        attempts=attempts,
    )


def client(
    service: str,
    *,
    region: str | None = None,
    endpoint_url: str | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
    attempts: int = ATTEMPTS,
    **credentials: str,
) -> Any:
    """Make a thread-safe client of botocore.

    ``region``, ``endpoint_url`` and ``credentials`` are left to the environment by default.
    ``timeout_seconds`` is for connecting, and for each wait for an answer.
    """
    from botocore.config import Config
    from botocore.session import get_session

    config = Config(
        connect_timeout=timeout_seconds,
        read_timeout=timeout_seconds,
        retries={"total_max_attempts": attempts, "mode": "standard"},
    )
    # A session is not safe to make clients from in several threads; what it has read is.
    session = get_session()
    session.register_component("data_loader", _loader(session.get_config_variable("data_path")))
    options: dict[str, Any] = dict(credentials)
    if region is not None:
        options["region_name"] = region
    return session.create_client(service, endpoint_url=endpoint_url, config=config, **options)


@cache
def _loader(data_path: str | None) -> Any:
    """Make what reads AWS's description of itself: once, as that takes a tenth of a second."""
    from botocore.loaders import create_loader

    return create_loader(data_path)


#: Answers that another try will not change: the stage is set up wrongly.
WRONG_SETUP: Final = {
    "ResourceNotFoundException": "there is no such secret",
    "AccessDeniedException": "this function may not read it",
    "InvalidRequestException": "it is marked for deletion or has no value",
    "DecryptionFailure": "its key does not open it",
}


class Secrets:
    """Reads secrets by id, by a client that :func:`client` makes; threads may share it."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._values: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Secrets(cached={len(self._values)})"

    def read(self, secret_id: str) -> str:
        """Return the secret's value: asked for once, then from memory until :meth:`forget`.

        Raises:
            ConfigError: there is no such secret, or this function may not read it.
            StoreUnavailableError: Secrets Manager does not answer.
        """
        with self._lock:
            if secret_id not in self._values:
                self._values[secret_id] = self._fetch(secret_id)
            return self._values[secret_id]

    def forget(self, secret_id: str) -> None:
        """Ask again next time: the part behind the secret refused it, so it was rotated."""
        with self._lock:
            self._values.pop(secret_id, None)

    def _fetch(self, secret_id: str) -> str:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            value = self._client.get_secret_value(SecretId=secret_id)["SecretString"]
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", "")).rpartition("#")[2]
            if code in WRONG_SETUP:
                problem = Problem(f"secret {secret_id}", WRONG_SETUP[code])
                raise ConfigError((problem,)) from error
            raise StoreUnavailableError("secretsmanager", f"{secret_id}: {code}") from error
        except BotoCoreError as error:
            # The kind alone: a parser's error quotes the answer, and the answer is the secret.
            kind = type(error).__name__
            raise StoreUnavailableError("secretsmanager", f"{secret_id}: {kind}") from None
        except KeyError:
            problem = Problem(f"secret {secret_id}", "holds bytes, not text")
            raise ConfigError((problem,)) from None
        except (TypeError, ValueError, AttributeError):
            message = f"{secret_id}: answered with nonsense"
            raise StoreUnavailableError("secretsmanager", message) from None
        if not isinstance(value, str) or not value:
            raise StoreUnavailableError("secretsmanager", f"{secret_id}: answered with nonsense")
        return value
