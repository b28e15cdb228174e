"""Call Lambda: reserve the workers' concurrency, wake consumers, try rules, get blocks of ids."""

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar, Final, Protocol

import msgspec

from crawlfleet.crawling.trials.messages import LARGEST_BYTES, TRIAL_SECONDS, Answer, Question
from crawlfleet.kernel import errors
from crawlfleet.kernel.aws.clients import border, code_of, lambda_client
from crawlfleet.kernel.ids import Block, IdKind, RequestId
from crawlfleet.kernel.names import TRIALS
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import Clock

PART: Final = "lambda"
#: The code of Lambda for a number that the account has not to give.
REFUSED: Final = "InvalidParameterValueException"


class LambdaApi(Protocol):
    """The call that is made of botocore's Lambda client, beside those of concurrency."""

    def invoke(self, **arguments: Any) -> Any: ...  # noqa: D102


class ConcurrencyApi(Protocol):
    """The two calls of botocore's Lambda client that concern concurrency."""

    def get_function_concurrency(self, **arguments: Any) -> Any: ...  # noqa: D102
    def put_function_concurrency(self, **arguments: Any) -> Any: ...  # noqa: D102


class _Function:
    """A function of ours, by its name or ARN.

    Where no client is given, ``connect`` opens one when it is first needed, with ``_options``.
    """

    _options: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self,
        function: str,
        client: LambdaApi | ConcurrencyApi | None = None,
        *,
        connect: Callable[..., LambdaApi | ConcurrencyApi] = lambda_client,
    ) -> None:
        self._function = function
        self._client = client
        self._connect = connect

    def _api(self) -> Any:
        if self._client is None:
            self._client = self._connect(self._function, **self._options)
        return self._client

    def _start(self) -> None:
        """Invoke it, and wait for nothing but that Lambda has taken the call."""
        self._api().invoke(FunctionName=self._function, InvocationType="Event", Payload=b"{}")

    def _invoke(self, question: bytes) -> tuple[bytes, bool]:
        """Return its answer, and True where that is an error of the function."""
        answer = self._api().invoke(
            FunctionName=self._function, InvocationType="RequestResponse", Payload=question
        )
        return answer["Payload"].read(), bool(answer.get("FunctionError"))


class LambdaConcurrency(_Function):
    """The reserved concurrency of the workers' function, of which the stage gives ``ceiling``.

    Of an account's concurrency 100 must stay unreserved, so Lambda refuses what would go beyond
    that; what was reserved then still is. Both calls may be repeated.
    """

    def __init__(
        self,
        function: str,
        ceiling: int,
        client: ConcurrencyApi | None = None,
        *,
        connect: Callable[..., ConcurrencyApi] = lambda_client,
    ) -> None:
        super().__init__(function, client, connect=connect)
        self._ceiling = ceiling

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


def _translated(error: Exception) -> Exception:
    """Translate what botocore raises; leave anything else as it is."""
    from botocore.exceptions import BotoCoreError, ClientError

    if isinstance(error, ClientError):
        code = code_of(error)
        if code == REFUSED:
            said = str(error.response["Error"].get("Message", ""))[:300]
            return errors.LimitRefusedError(f"Lambda does not give this concurrency: {said}")
        return errors.StoreUnavailableError(
            PART, f"the concurrency could not be told or changed: {code}"
        )
    if isinstance(error, (BotoCoreError, OSError)):
        return errors.StoreUnavailableError(PART, type(error).__name__)
    if isinstance(error, (TypeError, ValueError, AttributeError, LookupError)):
        return errors.StoreError(f"{PART}: the answer is not what Lambda answers")
    return error


#: Ids asked for at once when a submission needs fewer: the next ones need no call.
BLOCK_SIZE: Final = 2_000
#: A cold id-issuer connects to Redis first.
ISSUER_SECONDS: Final = 10.0
#: A trial that Lambda has no room for is asked for once more after this, on average; whoever is
#: refused is told to come back later than that.
TRIAL_AGAIN_SECONDS: Final = 0.5
TRIALS_FULL_SECONDS: Final = 5.0
#: Consumers that are called at once; the client keeps ten connections.
WAKING: Final = 8
#: Blocks are used this much before their end, so that no id is handed out at its very last moment.
MARGIN: Final = timedelta(seconds=1)

_block = msgspec.json.Decoder(Block)
_answered = msgspec.json.Decoder(Answer)


class LambdaWaker(_Function):
    """Start workers: asynchronous invocations of the consumer."""

    def wake(self, count: int) -> None:
        """Start so many workers, some calls at once: each takes as long as a start may.

        The next ones begin when these have ended well: where one has failed others would.
        """
        with border(PART, _not_invoked):
            self._api()  # before threads share it
            if count == 1:
                self._start()
                return
            with ThreadPoolExecutor(WAKING, thread_name_prefix="wake") as threads:
                for begun in range(0, count, WAKING):
                    calls = [threads.submit(self._start) for _ in range(begun, count)[:WAKING]]
                    for call in calls:
                        call.result()


class LambdaIds(_Function):
    """Take ids of blocks from the id-issuer, kept until they are used up or too old."""

    _options: ClassVar[Mapping[str, Any]] = {"timeout_seconds": ISSUER_SECONDS}

    def __init__(
        self,
        function: str,
        clock: Clock,
        client: LambdaApi | None = None,
        *,
        block_size: int = BLOCK_SIZE,
        connect: Callable[..., LambdaApi] = lambda_client,
    ) -> None:
        super().__init__(function, client, connect=connect)
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
            raise errors.IdsError(f"the id-issuer gave {len(taken)} of {count} ids")
        return taken

    def _ask(self, queue_key: QueueKey, kind: IdKind, count: int) -> Block:
        whose = {"tenant": queue_key.tenant, "biz": queue_key.biz}
        with border(PART, _not_invoked):
            question = {"kind": kind.value, "count": count, **whose}
            payload, failed = self._invoke(msgspec.json.encode(question))
        if failed:
            raise errors.IdsError(f"the id-issuer failed: {_reason(payload)}")
        try:
            block = _block.decode(payload)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise errors.IdsError("the id-issuer's answer is no block") from error
        if block.expires_at.tzinfo is None:
            raise errors.IdsError("the id-issuer's answer is no block: its end is in no time zone")
        return block


class LambdaTrials(_Function):
    """Have the trials' function do a step of a trial.

    One that takes too long is not asked again: a second try would find that whoever waits has gone.
    One that Lambda throttles is, once.
    """

    _options: ClassVar[Mapping[str, Any]] = {"timeout_seconds": TRIAL_SECONDS, "attempts": 1}

    def __init__(
        self,
        function: str,
        client: LambdaApi | None = None,
        *,
        connect: Callable[..., LambdaApi] = lambda_client,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(function, client, connect=connect)
        self._sleep = sleep

    def ask(self, question: Question) -> Answer:
        """Send a question and return its answer, within the question's seconds.

        Raises:
            TrialsBusyError: Lambda has no room for more trials.
            StoreUnavailableError: it cannot be invoked, takes too long, fails or answers nonsense.
            InvalidRequestError: rule and page are more than Lambda carries.
        """
        asked = msgspec.json.encode({"trial": question})
        if len(asked) > LARGEST_BYTES:
            raise errors.InvalidRequestError.of(
                "rule", f"has {len(asked):,} bytes with its page; {LARGEST_BYTES:,} may travel"
            )
        payload, failed = self._within(asked, question.seconds)
        if failed:
            raise errors.StoreUnavailableError(TRIALS, f"the trial failed: {_reason(payload)}")
        try:
            return _answered.decode(payload)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise errors.StoreUnavailableError(TRIALS, "the answer is no trial's") from error

    def _within(self, asked: bytes, seconds: float) -> tuple[bytes, bool]:
        """Wait for so long: the client's own time-out is that of a whole trial."""
        thread = ThreadPoolExecutor(1, thread_name_prefix="trial")
        try:
            with border(TRIALS, partial(_not_invoked, part=TRIALS)):
                sent = thread.submit(self._send, asked)
                if wait([sent], max(0.0, seconds)).done:
                    return sent.result()
                raise errors.TrialLateError(TRIAL_SECONDS)
        finally:
            thread.shutdown(wait=False)

    def _send(self, asked: bytes) -> tuple[bytes, bool]:
        with _no_room():
            try:
                return self._invoke(asked)
            except Exception as error:
                if not _is_throttled(error):
                    raise
            self._sleep(random.uniform(0.5, 1.5) * TRIAL_AGAIN_SECONDS)  # noqa: S311  spreads them
            return self._invoke(asked)


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


def _is_throttled(error: Exception) -> bool:
    return code_of(error) == "TooManyRequestsException"


@contextmanager
def _no_room() -> Iterator[None]:
    """Tell a function that is fully used from one that cannot be asked at all."""
    try:
        yield
    except Exception as error:
        if _is_throttled(error):
            raise errors.TrialsBusyError(TRIALS_FULL_SECONDS) from error
        raise


def _not_invoked(error: Exception, part: str = PART) -> errors.CrawlfleetError | None:
    code = code_of(error)
    if code is None:
        return None
    return errors.StoreUnavailableError(part, f"the function could not be invoked: {code}")


def _reason(payload: bytes) -> str:
    try:
        document = msgspec.json.decode(payload)
        return f"{document['errorType']}: {document['errorMessage']}"[:300]
    except (msgspec.MsgspecError, UnicodeError, KeyError, TypeError):
        return "no reason given"
