"""A monitor that looks once a minute, over a book and a notifier that may fail."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tests.fakes.incidents import MemoryIncidentBook, MemoryNotifier
from tests.kit.config import AlarmLimits, Stage, Tenant, Tree
from tests.kit.incidents import (
    ROOM,
    IncidentMonitor,
    Room,
    Word,
)
from tests.kit.kernel import (
    QueueKey,
    StoreUnavailableError,
)
from tests.kit.monitoring import HostSample, QueueSample, Sample, WorkersSample
from tests.kit.queue import Depth, NodeHealth
from tests.kit.warned import Warned
from tests.kit.worlds.doubles import Metrics
from tests.kit.worlds.incidents import MINUTE, START
from tests.kit.worlds.memory import make_biz

LIMITS = AlarmLimits(bad_looks=2, good_looks=2, singly=3, messages_an_hour=10)
BIZS = tuple(f"b{n}" for n in range(8))


class Faulty:
    """A part whose calls fail while it is told so: before their effect, or after it."""

    def __init__(self, part: Any) -> None:
        self.part = part
        self.faults: dict[str, str] = {}
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.calls.append(name)
            fault = self.faults.get(name, self.faults.get("*"))
            if fault == "before":
                raise StoreUnavailableError("part", "is away")
            answer = getattr(self.part, name)(*arguments, **named)
            if fault == "after":
                raise StoreUnavailableError("part", "did not answer in time")
            return answer

        return call


class Stand:
    """A stage whose monitor looks once a minute, from as many environments as wanted."""

    def __init__(self, room: Room = ROOM) -> None:
        self.room = room
        self.sent = MemoryNotifier()
        self.book = Faulty(MemoryIncidentBook())
        self.notifier = Faulty(self.sent)
        self.metrics = Metrics()
        self.warned = Warned()
        self.now = START
        self.call_takes = timedelta()
        self.environments: dict[str, IncidentMonitor] = {}
        self.tree = Tree(
            revision="1",
            stage=Stage(alarms=LIMITS),
            tenants={"acme": Tenant(), "rival": Tenant()},
            bizs={name: {biz: make_biz() for biz in BIZS} for name in ("acme", "rival")},
        )

    def clock(self):
        self.now += self.call_takes
        return self.now

    def evaluate(
        self,
        *late: str,
        down: str = "",
        by: str = "one",
        tenant: str = "acme",
        hosts: tuple[HostSample, ...] = (),
        read: bool = True,
    ):
        """A look that finds these bizs too old; returns what came of it. Or one without queues."""
        self.now += MINUTE
        queues = [
            QueueSample(
                queue_key=QueueKey(tenant, biz, "main"),
                depth=Depth(queued=1, leased=0, delayed=0) if read else None,
                oldest_seconds=(9e6 if biz in late else 0.0) if read else None,
                difference=0,
            )
            for biz in BIZS
        ]
        sample = Sample(
            at=self.now,
            queues=tuple(queues),
            hosts=hosts,
            workers=WorkersSample(alive=1),
            stray_items=0,
            stray_requests=0,
            parts=(NodeHealth(part="redis", name="redis", up=not down, error=down or None),),
        )
        if by not in self.environments:
            self.environments[by] = IncidentMonitor(
                book=self.book,
                notifier=self.notifier,
                metrics=self.metrics,
                clock=self.clock,
                stage="test",
                by=by,
                room=self.room,
            )
        monitor = self.environments[by]
        monitor.book, monitor.notifier = self.book, self.notifier
        return monitor.update(sample, self.tree)

    @property
    def subjects(self) -> list[str]:
        return [notification.subject for notification in self.sent.notifications]

    def words(self) -> list[tuple[Word, ...]]:
        return [notification.words for notification in self.sent.notifications]


OPENED, RECOVERED = (Word.OPENED,), (Word.RECOVERED,)
