"""EventBridge on one machine: the fleet's clocks, each invoking its function at a fixed rate.

A clock with `again_seconds` sends its event once more, as the queue that does so on AWS.
"""

import asyncio
import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from infra.fleet import Clock
from infra.local.aws_server import ACCOUNT, REGION
from infra.local.lambda_process import Result
from infra.local.lambda_service import LambdaService


def scheduled_event(rule: str, at: datetime) -> dict[str, Any]:
    """The event of a scheduled rule, as EventBridge sends it."""
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": ACCOUNT,
        "time": at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": REGION,
        "resources": [f"arn:aws:events:{REGION}:{ACCOUNT}:rule/{rule}"],
        "detail": {},
    }


def queued_event(queue: str, event: str) -> str:
    """The event of a queue of SQS that hands on another event, as Lambda reads it."""
    record = {
        "messageId": str(uuid.uuid4()),
        "body": event,
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}",
        "awsRegion": REGION,
    }
    return json.dumps({"Records": [record]})


class Clocks:
    """The rules of the fleet; none ticks before `start`."""

    def __init__(
        self,
        clocks: Sequence[Clock],
        rule_names: Mapping[str, str],
        function_names: Mapping[str, str],
        service: LambdaService,
    ) -> None:
        """Know the clocks and the deployed names of rules and functions."""
        self._clocks = {clock.name: clock for clock in clocks}
        self._rule_names = rule_names
        self._function_names = function_names
        self._service = service
        self._ticking: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Tick at once, then once a period."""
        self._ticking = [asyncio.create_task(self._tick(clock)) for clock in self._clocks.values()]

    async def stop(self) -> None:
        """Tick no more."""
        for task in self._ticking:
            task.cancel()
        await asyncio.gather(*self._ticking, return_exceptions=True)

    async def fire(self, clock: str) -> Result:
        """Invoke a clock's function now and wait for it.

        Raises:
            KeyError: there is no such clock.
        """
        found = self._clocks[clock]
        name = self._function_names[found.function]
        return await self._service.invoke(name, self._event(found))

    def _event(self, clock: Clock) -> str:
        return json.dumps(scheduled_event(self._rule_names[clock.name], datetime.now(UTC)))

    async def _tick(self, clock: Clock) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            event, name = self._event(clock), self._function_names[clock.function]
            self._service.send(name, event)
            if clock.again_seconds:
                await asyncio.sleep(clock.again_seconds)
                self._service.send(
                    name, queued_event(f"{self._rule_names[clock.name]}-again", event)
                )
            due += clock.every_seconds
            # After a sleep of the whole machine, one tick is enough.
            due = max(due, loop.time())
            await asyncio.sleep(due - loop.time())
