"""Secrets from AWS Secrets Manager: read once, kept in memory, never logged or quoted."""

import threading
from collections.abc import Mapping
from typing import Any, Final, Protocol

from crawlfleet.errors import ConfigError, Problem, StoreUnavailableError

#: Answers that another try will not change: the stage is set up wrongly.
WRONG_SETUP: Final = {
    "ResourceNotFoundException": "there is no such secret",
    "AccessDeniedException": "this function may not read it",
    "InvalidRequestException": "it is marked for deletion or has no value",
    "DecryptionFailure": "its key does not open it",
}


class SecretsManagerApi(Protocol):
    """The one call made; any client of ``secretsmanager`` fits."""

    def get_secret_value(self, **arguments: Any) -> Mapping[str, Any]:
        """GetSecretValue."""
        ...


class Secrets:
    """Reads secrets by id; threads may share it.

    Args:
        client: A botocore client with short time-outs, as ``adapters.aws.client`` makes it.
    """

    def __init__(self, client: SecretsManagerApi) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._values: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Secrets(cached={len(self._values)})"

    def read(self, secret_id: str) -> str:
        """The secret's value; asked for once, then from memory until :meth:`forget`.

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
