"""Call Lambda: reserve the workers' concurrency, wake consumers, try rules, get blocks of ids."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, Protocol

import msgspec

from crawlfleet.crawling.trials.remote import Question, Tried
from crawlfleet.kernel.aws.clients import lambda_client
from crawlfleet.kernel.errors import (
    ConsumersBusyError,
    IdsError,
    LimitRefusedError,
    StoreError,
    StoreUnavailableError,
)
from crawlfleet.kernel.ids import Block, IdKind, RequestId
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import Clock

PART: Final = "lambda"
#: The code of Lambda for a number that the account has not to give.
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
    """The reserved concurrency of the workers' function.

    Of an account's concurrency 100 must stay unreserved, so Lambda refuses what would go beyond
    that; what was reserved then still is. Both calls may be repeated.

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
        """Concurrency that the stage may be given at most."""
        return self._ceiling

    def current(self) -> int | None:
        """Read the reserved concurrency; None where there is none."""
        try:
            answer = self._api().get_function_concurrency(FunctionName=self._function)
            found = answer.get("ReservedConcurrentExecutions")
            return None if found is None else int(found)
        except Exception as error:
            raise _translated(error) from error

    def change(self, count: int) -> None:
        """Reserve so much concurrency.

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
    """Translate what botocore raises; leave anything else as it is."""
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


#: Ids asked for at once when a submission needs fewer: the next ones need no call.
BLOCK_SIZE: Final = 2_000
#: A cold id-issuer connects to Redis first.
ISSUER_SECONDS: Final = 10.0
#: A trial fetches for 20 seconds at most; a cold consumer imports parsers first. Behind this comes
#: API Gateway, which waits no longer than 29.
TRIAL_SECONDS: Final = 26.0
#: Consumers that are called at once; the client keeps ten connections.
WAKING: Final = 8
#: Blocks are used this much before their end, so that no id is handed out at its very last moment.
MARGIN: Final = timedelta(seconds=1)

_block = msgspec.json.Decoder(Block)
_tried = msgspec.json.Decoder(Tried)


class LambdaApi(Protocol):
    """The one call that is made of botocore's Lambda client."""

    def invoke(self, **arguments: Any) -> Any:
        """See botocore."""
        ...


class _Function:
    """A function of ours; its client is opened when it is first needed, with these options."""

    def __init__(
        self, name: str, client: LambdaApi | None, connect: Callable[..., LambdaApi], **options: Any
    ) -> None:
        self._name = name
        self._client = client
        self._connect = connect
        self._options = options

    def client(self) -> LambdaApi:
        if self._client is None:
            self._client = self._connect(self._name, **self._options)
        return self._client

    def start(self) -> None:
        """Invoke it, and wait for nothing but that Lambda has taken the call."""
        self.client().invoke(FunctionName=self._name, InvocationType="Event", Payload=b"{}")

    def ask(self, question: object) -> tuple[bytes, bool]:
        """Return its answer, and True where that is an error of the function."""
        answer = self.client().invoke(
            FunctionName=self._name,
            InvocationType="RequestResponse",
            Payload=msgspec.json.encode(question),
        )
        return answer["Payload"].read(), bool(answer.get("FunctionError"))


class LambdaWaker:
    """Start workers: asynchronous invocations of the consumer."""

    def __init__(
        self,
        function: str,
        client: LambdaApi | None = None,
        *,
        connect: Callable[..., LambdaApi] = lambda_client,
    ) -> None:
        self._consumer = _Function(function, client, connect)

    def wake(self, count: int) -> None:
        """Start so many workers, some calls at once: each takes as long as a start may.

        The next ones begin when these have ended well: where one has failed others would.
        """
        with _border():
            self._consumer.client()  # before threads share it
            if count == 1:
                self._consumer.start()
                return
            with ThreadPoolExecutor(WAKING, thread_name_prefix="wake") as threads:
                for begun in range(0, count, WAKING):
                    calls = [
                        threads.submit(self._consumer.start) for _ in range(begun, count)[:WAKING]
                    ]
                    for call in calls:
                        call.result()


class LambdaIds:
    """Take ids of blocks from the id-issuer, kept until they are used up or too old."""

    def __init__(
        self,
        function: str,
        clock: Clock,
        client: LambdaApi | None = None,
        *,
        block_size: int = BLOCK_SIZE,
        connect: Callable[..., LambdaApi] = lambda_client,
    ) -> None:
        self._issuer = _Function(function, client, connect, timeout_seconds=ISSUER_SECONDS)
        self._clock = clock
        self._block_size = block_size
        self._stock: dict[tuple[str, ...], _Stock] = {}
        self._lock = threading.Lock()

    def take(self, queue_key: QueueKey, kind: IdKind, count: int) -> list[RequestId]:
        """Take ``count`` new ids; those of a counter are the biz's own."""
        # Only counters belong to a biz; the other kinds are unique over everything.
        key = (kind, queue_key.tenant, queue_key.biz) if kind is IdKind.COUNTER else (kind,)
        with self._lock:
            stock = self._stock.setdefault(key, _Stock())
            taken = stock.take(count, self._clock)
            if len(taken) < count:
                stock.put(self._ask(queue_key, kind, max(count - len(taken), self._block_size)))
                taken += stock.take(count - len(taken), self._clock)
        if len(taken) < count:
            message = f"the id-issuer gave {len(taken)} of {count} ids"
            raise IdsError(message)
        return taken

    def _ask(self, queue_key: QueueKey, kind: IdKind, count: int) -> Block:
        question = {"kind": kind.value, "count": count}
        with _border():
            payload, failed = self._issuer.ask(
                {**question, "tenant": queue_key.tenant, "biz": queue_key.biz}
            )
        if failed:
            raise IdsError(f"the id-issuer failed: {_reason(payload)}")
        try:
            block = _block.decode(payload)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise IdsError("the id-issuer's answer is no block") from error
        if block.expires_at.tzinfo is None:
            raise IdsError("the id-issuer's answer is no block: its end is in no time zone")
        return block


class LambdaTrials:
    """Have a consumer try a rule; it is no worker for as long as it answers."""

    def __init__(
        self,
        function: str,
        client: LambdaApi | None = None,
        *,
        connect: Callable[..., LambdaApi] = lambda_client,
    ) -> None:
        # One attempt: a second try would find that whoever waits has gone.
        self._consumer = _Function(
            function, client, connect, timeout_seconds=TRIAL_SECONDS, attempts=1
        )

    def ask(self, question: Question) -> Tried:
        """Send a trial to a consumer and return its answer."""
        with _border(), _busy():
            payload, failed = self._consumer.ask({"trial": question})
        if failed:
            raise StoreUnavailableError("consumer", f"the trial failed: {_reason(payload)}")
        try:
            return _tried.decode(payload)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise StoreUnavailableError("consumer", "the answer is no trial's") from error


class _Stock:
    """Unused ids of one kind, oldest block first."""

    def __init__(self) -> None:
        self._blocks: deque[tuple[Block, deque[tuple[int, int]], deque[str]]] = deque()

    def put(self, block: Block) -> None:
        self._blocks.append((block, deque(block.runs), deque(block.ids)))

    def take(self, count: int, clock: Callable[[], Any]) -> list[RequestId]:
        taken: list[RequestId] = []
        while self._blocks and len(taken) < count:
            block, runs, ids = self._blocks[0]
            if block.expires_at - MARGIN <= clock():
                self._blocks.popleft()
                continue
            while runs and len(taken) < count:
                first, size = runs.popleft()
                used = min(size, count - len(taken))
                taken.extend(range(first, first + used))
                if used < size:
                    runs.appendleft((first + used, size - used))
            while ids and len(taken) < count:
                taken.append(ids.popleft())
            if not runs and not ids:
                self._blocks.popleft()
        return taken


@contextmanager
def _busy() -> Iterator[None]:
    """Tell a consumer that is not free from one that cannot be asked at all."""
    try:
        yield
    except Exception as error:
        from botocore.exceptions import ClientError

        if isinstance(error, ClientError) and _code(error) == "TooManyRequestsException":
            raise ConsumersBusyError from error
        raise


@contextmanager
def _border() -> Iterator[None]:
    """Translate what botocore raises."""
    try:
        yield
    except ConsumersBusyError:
        raise
    except OSError as error:
        raise StoreUnavailableError(PART, type(error).__name__) from error
    except Exception as error:
        # Imported here: whoever got this far has it loaded, and others start without it.
        from botocore.exceptions import BotoCoreError, ClientError

        if isinstance(error, ClientError):
            message = f"the function could not be invoked: {_code(error)}"
            raise StoreUnavailableError(PART, message) from error
        if isinstance(error, BotoCoreError):
            raise StoreUnavailableError(PART, type(error).__name__) from error
        raise


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", "unknown"))


def _reason(payload: bytes) -> str:
    try:
        document = msgspec.json.decode(payload)
        return f"{document['errorType']}: {document['errorMessage']}"[:300]
    except (msgspec.MsgspecError, UnicodeError, KeyError, TypeError):
        return "no reason given"
