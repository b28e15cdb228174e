"""The reserved concurrency of the workers' function: read and changed through Lambda's API.

Of an account's concurrency 100 must stay unreserved, so Lambda refuses what would go beyond that;
what was reserved then still is. Both calls may be repeated.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

from crawlfleet.adapters.aws import lambda_client
from crawlfleet.errors import LimitRefusedError, StoreError, StoreUnavailableError

PART: Final = "lambda"
#: What Lambda calls a number that the account has not to give.
REFUSED: Final = "InvalidParameterValueException"


class ConcurrencyApi(Protocol):
    """The two calls that are made of botocore's Lambda client."""

    def get_function_concurrency(self, **arguments: Any) -> Any:
        """See botocore."""
        ...

    def put_function_concurrency(self, **arguments: Any) -> Any:
        """See botocore."""
        ...


class LambdaConcurrency:
    """A :class:`~crawlfleet.ports.ConcurrencyLimit`.

    Args:
        function: Name or ARN of the workers' function.
        ceiling: The most that the stage gives it.
        client: botocore's; one with short time-outs and few tries where none is given.
        connect: Makes that one of the function's name, when it is first needed.
    """

    def __init__(
        self,
        function: str,
        ceiling: int,
        client: ConcurrencyApi | None = None,
        *,
        connect: Callable[[str], ConcurrencyApi] = lambda_client,
    ) -> None:
        self._function = function
        self._ceiling = ceiling
        self._client = client
        self._connect = connect

    @property
    def ceiling(self) -> int:
        """The most that the stage may be given."""
        return self._ceiling

    def current(self) -> int | None:
        """How many are allowed now; None where it is not limited."""
        try:
            answer = self._api().get_function_concurrency(FunctionName=self._function)
            found = answer.get("ReservedConcurrentExecutions")
            return None if found is None else int(found)
        except Exception as error:
            raise _translated(error) from error

    def change(self, count: int) -> None:
        """Allow so many.

        Raises:
            LimitRefusedError: the account has not so many to give; what was allowed still is.
            ValueError: more than the ceiling, or none at all, which would stop the fleet.
        """
        if not 1 <= count <= self._ceiling:
            raise ValueError(f"{count} is not within 1 to {self._ceiling}")
        try:
            self._api().put_function_concurrency(
                FunctionName=self._function, ReservedConcurrentExecutions=count
            )
        except Exception as error:
            raise _translated(error) from error

    def _api(self) -> ConcurrencyApi:
        if self._client is None:
            self._client = self._connect(self._function)
        return self._client


def _translated(error: Exception) -> Exception:
    """What botocore raises, as ours; anything else as it is."""
    from botocore.exceptions import BotoCoreError, ClientError

    if isinstance(error, ClientError):
        code = str(error.response.get("Error", {}).get("Code", "unknown"))
        if code == REFUSED:
            said = str(error.response["Error"].get("Message", ""))[:300]
            return LimitRefusedError(f"Lambda does not give this concurrency: {said}")
        return StoreUnavailableError(PART, f"the concurrency could not be told or changed: {code}")
    if isinstance(error, (BotoCoreError, OSError)):
        return StoreUnavailableError(PART, type(error).__name__)
    if isinstance(error, (TypeError, ValueError, AttributeError, LookupError)):
        return StoreError(f"{PART}: the answer is not what Lambda answers")
    return error
