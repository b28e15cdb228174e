"""A function of Lambda as this machine runs it, and one process that runs its events.

Like an environment of the real one it imports the handler, runs one event at a time, and is ended
when it takes too long or more memory than it has.
"""

import asyncio
import contextlib
import json
import os
import sys
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

#: A payload is 6 MB at most; its answer is wrapped once more as text.
_LINE_LIMIT: Final = 64 * 1024 * 1024
#: Lambda gives the import 10 s; a laptop that is busy gets more.
_IMPORT_SECONDS: Final = 60.0
#: Between two looks at the memory of a process that is held to it.
_MEMORY_SECONDS: Final = 0.25


def resident_bytes(pid: int) -> int | None:
    """The memory that a process has; None where that cannot be known, or it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


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
    """The end of an invocation: a JSON payload, which is an error document if ``failed``."""

    payload: str
    failed: bool = False


def failure(kind: str, message: str, request_id: str) -> Result:
    """Give the error document of an invocation that Lambda itself has ended."""
    text = f"RequestId: {request_id} Error: {message}"
    return Result(json.dumps({"errorType": kind, "errorMessage": text}), failed=True)


class Environment:
    """An execution environment's process; see ``environment.py`` for what its pipes carry."""

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
        """Return whether the process has not ended, as the kernel knows it, without reaping it."""
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
            return failure("Sandbox.Timedout", "the handler's import took too long", request_id)
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
            return failure("Sandbox.Timedout", message, request_id)
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
        return failure("Runtime.ExitError", f"Runtime exited with error: {reason}", request_id)

    async def stop(self) -> None:
        """End the process at once."""
        self.is_usable = False
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await asyncio.gather(self._ready, return_exceptions=True)
