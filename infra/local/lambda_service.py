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
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

from infra.local.lambda_process import Environment, LocalFunction, Result, failure

#: Pauses before further tries of an event nobody waits for. Lambda's are one and two minutes.
RETRY_PAUSES: Final = (1.0, 2.0)


class UnknownFunctionError(LookupError):
    """There is no function of that name."""


class ThrottledError(RuntimeError):
    """The function's reserved concurrency is used up."""


class NothingToReserveError(ValueError):
    """More was to be reserved for a function than there is to give."""


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
    """The local Lambda service: all functions by their deployed names."""

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
        """Return how many environments are reserved for a function; None where none are.

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
                result = failure("EventAgeExceeded", "the event grew too old", request_id)
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
        dead_letter = {
            "requestId": request_id,
            "at": datetime.now(UTC).isoformat(),
            "tries": tries,
            "event": json.loads(payload),
            "error": json.loads(result.payload),
        }
        path = self._folder / "dead-letters" / f"{function.name}.jsonl"
        with path.open("a") as file:
            file.write(json.dumps(dead_letter) + "\n")

    async def stop(self, grace_seconds: float = 0.0) -> None:
        """End everything; invocations under way get ``grace_seconds`` to end by themselves."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await asyncio.gather(*(pool.idle() for pool in self.pools.values()))
        for task in list(self._deliveries):
            task.cancel()
        await asyncio.gather(*self._deliveries, return_exceptions=True)
        await asyncio.gather(*(pool.stop() for pool in self.pools.values()))
