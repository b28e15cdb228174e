"""Parameter Store as the config centre calls it (SPEC.md A3); ``parameters`` has the layout.

SSM lets an account read 40 times a second. What is read at a start, or after a push, is one call
(``parameters``), and whom SSM throttles asks again at times that chance spreads: at a start for as
long as the function can wait. What is made of it is in ``in_force``.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Protocol, TypeVar

from crawlfleet.config.parameters import (
    NAMES_AT_ONCE,
    Gathered,
    Stored,
    assemble,
    gather,
    slot_names,
    unpack,
)
from crawlfleet.kernel import errors
from crawlfleet.kernel.names import CONFIG_REVISION, config_key

#: How often a tree is read anew because a document changed under the reader's eyes.
READ_TRIES: Final = 4
#: Pages of ten parameters. Whoever sends more than this does not mean to end.
_MAX_PAGES: Final = 5_000
#: Pauses of whom SSM throttles: up to the first, then up to twice as long each time. A shorter
#: first one has a few hundred ask a third more often and be served no sooner; a longer last one
#: has the last of them wait when there is nobody left to wait for.
FIRST_PAUSE_SECONDS: Final = 1.0
MAX_PAUSE_SECONDS: Final = 2.0
#: Codes of a key that is not there, disabled, or about to be deleted.
_NO_KEY: Final = frozenset({"InvalidKeyId", "KMSInvalidStateException", "NotFoundException"})
#: Errors by which SSM says that the account asks too often.
_THROTTLED: Final = frozenset(
    {"ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded"}
)

T = TypeVar("T")


class SsmApi(Protocol):
    """The calls of SSM that the config centre makes; any client of ``ssm`` fits."""

    def get_parameters(self, **arguments: Any) -> Mapping[str, Any]:
        """GetParameters."""

    def get_parameters_by_path(self, **arguments: Any) -> Mapping[str, Any]:
        """GetParametersByPath."""

    def put_parameter(self, **arguments: Any) -> Mapping[str, Any]:
        """PutParameter."""

    def delete_parameters(self, **arguments: Any) -> Mapping[str, Any]:
        """DeleteParameters."""


class SsmNotYetError(errors.StoreUnavailableError):
    """SSM throttles the account, or has not yet what it is to have: a later try may succeed."""


@contextmanager
def answering() -> Iterator[None]:
    """Turn whatever SSM or its client does wrong into our error, never showing a value."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        said = f"{type(error).__name__}: {error}"
        if isinstance(error, ClientError) and _code(error.response) in _THROTTLED:
            raise SsmNotYetError("ssm", said) from error
        raise errors.StoreUnavailableError("ssm", said) from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise errors.StoreUnavailableError("ssm", f"answered with nonsense ({error!r})") from error


def put(client: SsmApi, root: str, name: str, value: str) -> None:
    """Write a parameter below the root, encrypted by the stage's key.

    The revision is not: it says nothing, and is polled so often that KMS would cost more than all.

    Raises:
        ConfigError: the key is not there, or not to be used.
        StoreUnavailableError: SSM does not answer, or not as SSM does.
    """
    from botocore.exceptions import ClientError

    place, key = f"{root}/{name}", config_key(root)
    arguments = {"Name": place, "Value": value, "Overwrite": True, "Tier": "Standard"}
    arguments |= {"Type": "String"}
    if name != CONFIG_REVISION:
        arguments |= {"Type": "SecureString", "KeyId": key}
    with answering():
        try:
            client.put_parameter(**arguments)
        except ClientError as error:
            code, said = _code(error.response), str(error)
            if code in _NO_KEY or (code == "AccessDeniedException" and "kms:" in said):
                why = f"cannot be used ({code}): deploy the stack `state`, which makes it, or ask "
                why += "for the right to kms:Encrypt and kms:GenerateDataKey with it"
                raise errors.ConfigError([errors.Problem(f"key {key}", why)]) from error
            if code != "HierarchyTypeMismatchException":
                raise
            # It was written before there was a key, and its type cannot be changed.
            client.delete_parameters(Names=[place])
            client.put_parameter(**arguments)


@dataclass(slots=True, eq=False)
class SsmReader:
    """Reads what is below a root; asks again while SSM throttles it.

    ``patience`` is how many seconds it still waits for that, in all. ``pause`` waits, ``jitter``
    gives a number from 0 to 1.
    """

    client: SsmApi
    root: str
    _: KW_ONLY
    patience: float = 0.0
    pause: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random

    def revision(self) -> str | None:
        """Read the revision of the tree; None when none was ever written.

        Raises:
            StoreUnavailableError: SSM does not answer, or not as SSM does.
        """
        return self._values([CONFIG_REVISION]).get(CONFIG_REVISION)

    def snapshot(self) -> tuple[str | None, dict[str, str] | None]:
        """Read the revision and, where it has a snapshot, its documents: most often in one call.

        Raises:
            StoreUnavailableError: SSM does not answer, or not as SSM does.
        """
        found = self._values([CONFIG_REVISION, *slot_names(range(NAMES_AT_ONCE - 1))])
        revision = found.pop(CONFIG_REVISION, None)
        if revision is None:
            return None, None
        gathered, more = gather(revision, found.values()), found
        for at in range(NAMES_AT_ONCE - 1, NAMES_AT_ONCE * _MAX_PAGES, NAMES_AT_ONCE):
            # Those of the revision before may stand first, on pages of their own.
            if not more or (gathered is not None and not gathered.missing):
                break
            more = self._values(slot_names(range(at, at + NAMES_AT_ONCE)))
            found |= more
            gathered = gather(revision, found.values())
        return revision, _documents(revision, gathered)

    def tree(self) -> Stored:
        """Read every document below the root.

        A document whose parts are incomplete is being replaced at this moment, so the tree is read
        again. If that goes on, the document becomes a problem and the others are returned.

        Raises:
            StoreUnavailableError: SSM does not answer, or not as SSM does.
        """
        stored = assemble(self._read_all())
        for attempt in range(1, READ_TRIES):
            if not stored.problems:
                break
            self.pause(0.05 * attempt)
            stored = assemble(self._read_all())
        return stored

    def _values(self, names: Iterable[str]) -> dict[str, str]:
        """Read up to ten parameters by their names below the root; those there are not are out."""
        arguments = {"Names": [f"{self.root}/{name}" for name in names], "WithDecryption": True}

        def read() -> dict[str, str]:
            with answering():
                answer = self.client.get_parameters(**arguments)
                return dict(self._named(answer["Parameters"]))

        return self._patiently(read)

    def _read_all(self) -> dict[str, str]:
        """Read every value below the root by its name relative to it."""
        values: dict[str, str] = {}
        arguments: dict[str, Any] = {"Path": self.root, "Recursive": True, "WithDecryption": True}

        def read() -> object:
            with answering():
                answer = self.client.get_parameters_by_path(**arguments)
                values.update(self._named(answer["Parameters"]))
                token = answer.get("NextToken")
                if token and token == arguments.get("NextToken"):
                    raise ValueError("the same page again")
                return token

        for _ in range(_MAX_PAGES):
            token = self._patiently(read)
            if not token:
                return values
            arguments["NextToken"] = token
        raise errors.StoreUnavailableError("ssm", "answered with nonsense (pages without end)")

    def _named(self, parameters: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
        for parameter in parameters:
            name = _text(parameter["Name"])
            if name.startswith(f"{self.root}/"):
                yield name.removeprefix(f"{self.root}/"), _text(parameter["Value"])

    def _patiently(self, read: Callable[[], T]) -> T:
        longest = FIRST_PAUSE_SECONDS
        while True:
            try:
                return read()
            except SsmNotYetError:
                if self.patience <= 0:
                    raise
            seconds = min(self.jitter() * longest, self.patience)
            # Even by a jitter of nothing the patience comes to an end.
            self.patience -= max(seconds, 0.01)
            self.pause(seconds)
            longest = min(2 * longest, MAX_PAUSE_SECONDS)


def _documents(revision: str, gathered: Gathered | None) -> dict[str, str] | None:
    if gathered is None or gathered.content is None:
        return None
    return unpack(revision, gathered.content)


def _code(response: Mapping[str, Any]) -> str:
    # Some services, and some that stand in for them, put the namespace of an error before it.
    return str(response.get("Error", {}).get("Code", "")).rpartition("#")[2]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a value is {type(value).__name__}")
    return value
