"""Clients of AWS: explicit time-outs, few tries, the environment's addresses.

botocore's own defaults wait 60 s and try five times, which is longer than most functions live.

A Lambda endpoint answers for the functions of its own region alone. Where another region's is meant
it is named by its ARN, and its client is one of the region in there.

Where the environment says ``AWS_USE_DUALSTACK_ENDPOINT=true``, as a function's does in a network
with IPv6, clients go to endpoints that have both families: what they say goes past the NAT. Not
every service has such an endpoint in every region; where its name leads nowhere the usual one is
taken.

What botocore raises becomes ours in :func:`border`.

Secrets of Secrets Manager are read once, kept in memory, never logged or quoted.
"""

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final
from urllib.parse import urlsplit

from crawlfleet.kernel.errors import ConfigError, CrawlfleetError, Problem, StoreUnavailableError

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
    region = region_of(function)
    return client("lambda", region=region, timeout_seconds=timeout_seconds, attempts=attempts)


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
    made = session.create_client(service, endpoint_url=endpoint_url, config=config, **options)
    if session.get_config_variable("use_dualstack_endpoint") and not _resolves(made):
        config = config.merge(Config(use_dualstack_endpoint=False))
        made = session.create_client(service, endpoint_url=endpoint_url, config=config, **options)
    return made


def _resolves(made: Any) -> bool:
    """Tell whether the name of a client's endpoint leads anywhere."""
    try:
        socket.getaddrinfo(urlsplit(made.meta.endpoint_url).hostname, 443)
    except OSError:
        return False
    return True


@cache
def _loader(data_path: str | None) -> Any:
    """Make what reads AWS's description of itself: once, as that takes a tenth of a second."""
    from botocore.loaders import create_loader

    return create_loader(data_path)


def code_of(error: Exception) -> str | None:
    """Return the code of an answer of AWS that is an error; None for any other error."""
    from botocore.exceptions import ClientError

    if not isinstance(error, ClientError):
        return None
    return str(error.response.get("Error", {}).get("Code", "unknown"))


@contextmanager
def border(
    part: str, own: Callable[[Exception], CrawlfleetError | None] = lambda _: None
) -> Iterator[None]:
    """Turn what botocore raises into :class:`StoreUnavailableError`, by code or kind alone.

    ``own`` may make another error of what botocore raised. Whatever else is raised stays as it is.
    """
    try:
        yield
    except OSError as error:
        raise StoreUnavailableError(part, type(error).__name__) from error
    except Exception as error:
        # Imported here: whoever got this far has it loaded, and others start without it.
        from botocore.exceptions import BotoCoreError

        code = code_of(error)
        if code is None and not isinstance(error, BotoCoreError):
            raise
        raise own(error) or StoreUnavailableError(part, code or type(error).__name__) from error


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
        self._client, self._lock = client, threading.Lock()
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
                raise ConfigError([Problem(f"secret {secret_id}", WRONG_SETUP[code])]) from error
            raise StoreUnavailableError("secretsmanager", f"{secret_id}: {code}") from error
        except BotoCoreError as error:
            # The kind alone: a parser's error quotes the answer, and the answer is the secret.
            kind = type(error).__name__
            raise StoreUnavailableError("secretsmanager", f"{secret_id}: {kind}") from None
        except KeyError:
            raise ConfigError([Problem(f"secret {secret_id}", "holds bytes, not text")]) from None
        except (TypeError, ValueError, AttributeError):
            value = None
        if not isinstance(value, str) or not value:
            raise StoreUnavailableError("secretsmanager", f"{secret_id}: answered with nonsense")
        return value
