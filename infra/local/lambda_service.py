"""Lambda on one machine: functions in processes of their own, as many as their concurrency allows.

Like the real one: an environment runs one event at a time and is used again when it is free;
a new one starts on demand; one that crashes or runs out of time is gone, its caller is told, and
the next event gets a fresh one. Where a function reserves concurrency, further callers are
throttled; where it does not, they wait for a process, because one machine has fewer processes to
give than an account has environments.

Events that nobody waits for (`LambdaService.send`) are tried again as the fleet says; what is
given up goes to a file of dead letters.
"""

import asyncio
import contextlib
import json
import os
import sys
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

#: A payload is 6 MB at most; its answer is wrapped once more as text.
_LINE_LIMIT: Final = 64 * 1024 * 1024
#: Lambda gives the import 10 s; a laptop that is busy gets more.
_IMPORT_SECONDS: Final = 60.0
#: Pauses before further tries of an event nobody waits for. Lambda's are one and two minutes.
RETRY_PAUSES: Final = (1.0, 2.0)


#: Between two looks at the memory of a process that is held to it.
_MEMORY_SECONDS: Final = 0.25


def resident_bytes(pid: int) -> int | None:
    """The memory that a process has; None where that cannot be known, or it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


class UnknownFunctionError(LookupError):
    """There is no function of that name."""


class ThrottledError(RuntimeError):
    """The function's reserved concurrency is used up."""


class NothingToReserveError(ValueError):
    """More was to be reserved for a function than there is to give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFunction:
    """A function as this machine runs it.

    Attributes:
        name: Deployed name.
        handler: ``package.module.function``.
        limit: Most environments at once.
        throttles: Whether a caller beyond the limit is refused; it waits otherwise.
        ceiling: Most environments that may be reserved for it; None where none may. It stands for
            what an account has to give.
        retry_attempts: Further tries of an event that nobody waits for.
        max_event_age_seconds: Age at which such an event is given up when it could not start.
        holds_memory: Whether a process that takes more than ``memory_mb`` is ended, as Lambda
            does; it is told them in any case.
        variables: Whole environment of its processes.
    """

    name: str
    handler: str
    timeout_seconds: float
    memory_mb: int
    limit: int
    throttles: bool = False
    ceiling: int | None = None
    retry_attempts: int = 2
    max_event_age_seconds: float = 6 * 3600
    holds_memory: bool = False
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Result:
    """What an invocation ended in: a JSON payload, which is an error document if ``failed``."""

    payload: str
    failed: bool = False


def _failure(kind: str, message: str, request_id: str) -> Result:
    text = f"RequestId: {request_id} Error: {message}"
    return Result(json.dumps({"errorType": kind, "errorMessage": text}), failed=True)


class Environment:
    """One process; see ``environment.py`` for what goes over its pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        """Talk to a process that is starting."""
        self._process = process
        self.is_usable = True

    @classmethod
    async def start(cls, function: LocalFunction, log: IO[bytes]) -> "Environment":
        """Start a process for ``function``; `run` waits for its import."""
        stream = f"{datetime.now(UTC):%Y/%m/%d}/[$LATEST]{uuid.uuid4().hex}"
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "infra.local.environment", function.handler),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env={**function.variables, "AWS_LAMBDA_LOG_STREAM_NAME": stream},
            limit=_LINE_LIMIT,
        )
        environment = cls(process)
        environment._ready = asyncio.ensure_future(environment._read())
        return environment

    _ready: "asyncio.Future[dict[str, Any] | None]"

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended, as the kernel knows it, without reaping it."""
        if self._process.returncode is not None:
            return False
        if not hasattr(os, "waitid"):  # macOS before Python 3.13: as far as asyncio has seen
            return True
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False

    async def run(self, function: LocalFunction, payload: str, request_id: str) -> Result:
        """Run one event; afterwards `is_usable` says whether another one may follow."""
        self.is_usable = False
        try:
            loaded = await asyncio.wait_for(asyncio.shield(self._ready), _IMPORT_SECONDS)
        except TimeoutError:
            await self.stop()
            return _failure("Sandbox.Timedout", "the handler's import took too long", request_id)
        if loaded is None:
            return await self._crash(request_id)
        if "error" in loaded:
            await self.stop()
            return Result(json.dumps(loaded["error"]), failed=True)
        head = json.dumps(
            {
                "function_name": function.name,
                "request_id": request_id,
                "memory_mb": function.memory_mb,
                "timeout_seconds": function.timeout_seconds,
            }
        )
        # Line breaks of a JSON text stand between its tokens only, so spaces may replace them.
        event = payload.replace("\n", " ").replace("\r", " ")
        try:
            async with self._held(function):
                answer = await asyncio.wait_for(
                    self._ask(f'{head[:-1]}, "event": {event}}}\n'), function.timeout_seconds
                )
        except TimeoutError:
            await self.stop()
            message = f"Task timed out after {function.timeout_seconds:.2f} seconds"
            return _failure("Sandbox.Timedout", message, request_id)
        if answer is None:
            return await self._crash(request_id)
        self.is_usable = True
        if "error" in answer:
            return Result(json.dumps(answer["error"]), failed=True)
        return Result(answer["payload"])

    async def _ask(self, line: str) -> dict[str, Any] | None:
        stdin = self._process.stdin
        assert stdin is not None  # noqa: S101  we asked for a pipe
        with contextlib.suppress(ConnectionError):
            stdin.write(line.encode())
            await stdin.drain()
        return await self._read()

    async def _read(self) -> dict[str, Any] | None:
        """Read one line; None when the process is gone."""
        stdout = self._process.stdout
        assert stdout is not None  # noqa: S101  we asked for a pipe
        line = await stdout.readline()
        if not line.endswith(b"\n"):
            return None
        document: dict[str, Any] = json.loads(line)
        return document

    @contextlib.asynccontextmanager
    async def _held(self, function: LocalFunction) -> AsyncIterator[None]:
        """Kill the process if it takes more memory than it has while this goes on."""
        if not function.holds_memory:
            yield
            return
        looking = asyncio.create_task(self._hold(function.memory_mb * 1024 * 1024))
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def _hold(self, limit_bytes: int) -> None:
        while (taken := resident_bytes(self.pid)) is not None:
            if taken > limit_bytes:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
                return
            await asyncio.sleep(_MEMORY_SECONDS)

    async def _crash(self, request_id: str) -> Result:
        status = await self._process.wait()
        reason = f"signal: {-status}" if status < 0 else f"exit status {status}"
        return _failure("Runtime.ExitError", f"Runtime exited with error: {reason}", request_id)

    async def stop(self) -> None:
        """End the process at once."""
        self.is_usable = False
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await asyncio.gather(self._ready, return_exceptions=True)


class Pool:
    """The environments of one function."""

    def __init__(self, function: LocalFunction, log_path: Path) -> None:
        """Start with none; output of all goes to ``log_path``."""
        self.function = function
        self.limit = function.limit
        self._log: IO[bytes] = log_path.open("ab")
        self._free: list[Environment] = []
        self._all: set[Environment] = set()
        #: By the id of each invocation that goes on, the process that has it.
        self.running: dict[str, int] = {}
        self.busy = 0
        self.invocations = 0
        self._changed = asyncio.Condition()

    @property
    def pids(self) -> list[int]:
        """Process ids of all environments."""
        return [environment.pid for environment in self._all]

    async def invoke(self, payload: str, request_id: str, *, wait: bool = False) -> Result:
        """Run one event in a free environment, or in a new one.

        Raises:
            ThrottledError: all are busy, the function throttles and the caller does not wait.
        """
        async with self._place(wait=wait):
            self.invocations += 1
            environment = await self._environment()
            self._all.add(environment)
            self.running[request_id] = environment.pid
            try:
                return await environment.run(self.function, payload, request_id)
            finally:
                self.running.pop(request_id, None)
                if environment.is_usable:
                    self._free.append(environment)
                else:
                    self._all.discard(environment)
                    await environment.stop()

    async def _environment(self) -> Environment:
        """A free one, or a new one. As on AWS, one that died while it was idle gets no event."""
        while self._free:
            environment = self._free.pop()
            if environment.is_alive:
                return environment
            self._all.discard(environment)
            await environment.stop()
        return await Environment.start(self.function, self._log)

    async def reserve(self, count: int) -> None:
        """Have so many environments at most: what runs goes on, what idles beyond them is ended.

        Raises:
            NothingToReserveError: more than there is to give.
        """
        if self.function.ceiling is None or not 0 <= count <= self.function.ceiling:
            raise NothingToReserveError(self.function.ceiling or 0)
        async with self._changed:
            self.limit = count
            self._changed.notify_all()
        while self._free and len(self._all) > count:
            # The one that has waited longest.
            environment = self._free.pop(0)
            self._all.discard(environment)
            await environment.stop()

    async def freed(self) -> None:
        """Wait until a place is free; another caller may be quicker to take it."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.busy < self.limit)

    async def idle(self) -> None:
        """Wait until nothing runs."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.busy == 0)

    @contextlib.asynccontextmanager
    async def _place(self, *, wait: bool) -> AsyncIterator[None]:
        async with self._changed:
            while self.busy >= self.limit:
                if self.function.throttles and not wait:
                    raise ThrottledError(self.function.name)
                await self._changed.wait()
            self.busy += 1
        try:
            yield
        finally:
            async with self._changed:
                self.busy -= 1
                self._changed.notify_all()

    async def stop(self) -> None:
        """End every environment."""
        await asyncio.gather(*(environment.stop() for environment in list(self._all)))
        self._all.clear()
        self._free.clear()
        self._log.close()


class LambdaService:
    """All functions by their deployed names."""

    def __init__(
        self,
        functions: Sequence[LocalFunction],
        folder: Path,
        *,
        retry_pauses: Sequence[float] = RETRY_PAUSES,
    ) -> None:
        """Keep logs and dead letters below ``folder``."""
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        (folder / "dead-letters").mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._retry_pauses = retry_pauses
        self.pools = {
            function.name: Pool(function, folder / "logs" / f"{function.name}.log")
            for function in functions
        }
        self._deliveries: set[asyncio.Task[None]] = set()

    def reserved(self, name: str) -> int | None:
        """How many environments are reserved for a function; None where none are.

        Raises:
            UnknownFunctionError: no such function.
        """
        pool = self._pool(name)
        return pool.limit if pool.function.throttles else None

    async def reserve(self, name: str, count: int) -> None:
        """Reserve so many environments for a function, from now on.

        Raises:
            UnknownFunctionError: no such function.
            NothingToReserveError: more than there is to give.
        """
        await self._pool(name).reserve(count)

    def check(self, name: str) -> None:
        """Do nothing if there is such a function.

        Raises:
            UnknownFunctionError: no such function.
        """
        self._pool(name)

    def _pool(self, name: str) -> Pool:
        """Find a function by name or ARN."""
        short = name.removesuffix(":$LATEST").rsplit(":", 1)[-1]
        try:
            return self.pools[short]
        except KeyError:
            raise UnknownFunctionError(short) from None

    async def invoke(self, name: str, payload: str, request_id: str | None = None) -> Result:
        """Run an event and wait for what it ends in.

        Raises:
            UnknownFunctionError: no such function.
            ThrottledError: its reserved concurrency is used up.
        """
        return await self._pool(name).invoke(payload, request_id or str(uuid.uuid4()))

    def send(self, name: str, payload: str) -> str:
        """Accept an event that nobody waits for; return its request id.

        Raises:
            UnknownFunctionError: no such function.
        """
        pool, request_id = self._pool(name), str(uuid.uuid4())
        task = asyncio.create_task(self._deliver(pool, payload, request_id))
        self._deliveries.add(task)
        task.add_done_callback(self._deliveries.discard)
        return request_id

    async def _deliver(self, pool: Pool, payload: str, request_id: str) -> None:
        function, accepted = pool.function, time.monotonic()
        result, tries = Result("null", failed=True), 0
        while tries <= function.retry_attempts:
            left = function.max_event_age_seconds - (time.monotonic() - accepted)
            if left <= 0:
                break
            if tries:
                await asyncio.sleep(self._retry_pauses[min(tries, len(self._retry_pauses)) - 1])
            try:
                result = await self._within(pool, payload, request_id, left)
            except TimeoutError:
                result = _failure("EventAgeExceeded", "the event grew too old", request_id)
                break
            if not result.failed:
                return
            tries += 1
        self._bury(function, payload, request_id, result, tries)

    @staticmethod
    async def _within(pool: Pool, payload: str, request_id: str, seconds: float) -> Result:
        """Invoke when a place is free within the event's age; a started one is not cut short."""
        async with asyncio.timeout(seconds) as age:
            while pool.busy >= pool.limit:
                await pool.freed()
            age.reschedule(None)
            return await pool.invoke(payload, request_id, wait=True)

    def _bury(
        self, function: LocalFunction, payload: str, request_id: str, result: Result, tries: int
    ) -> None:
        letter = {
            "requestId": request_id,
            "at": datetime.now(UTC).isoformat(),
            "tries": tries,
            "event": json.loads(payload),
            "error": json.loads(result.payload),
        }
        path = self._folder / "dead-letters" / f"{function.name}.jsonl"
        with path.open("a") as file:
            file.write(json.dumps(letter) + "\n")

    async def stop(self, grace_seconds: float = 0.0) -> None:
        """End everything; invocations under way get ``grace_seconds`` to end by themselves."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await asyncio.gather(*(pool.idle() for pool in self.pools.values()))
        for task in list(self._deliveries):
            task.cancel()
        await asyncio.gather(*self._deliveries, return_exceptions=True)
        await asyncio.gather(*(pool.stop() for pool in self.pools.values()))
