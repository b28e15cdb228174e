"""What was seen of a burst from outside, a look a second, and what is not as it must be in it."""

from dataclasses import dataclass
from typing import Final

import msgspec

#: Points of the trace that are kept, and of those the ones that a failure quotes.
POINTS: Final = 300
QUOTED: Final = 40
#: Seconds between two looks.
LOOK_SECONDS: Final = 1.0


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One look: seconds since the burst began, what is still to be done, and who does it."""

    at: float
    submitted: int
    done: int
    workers: int
    needed: int
    kept: int
    limit: int
    rate: float = 0.0

    @property
    def backlog(self) -> int:
        """Accepted and not done."""
        return max(0, self.submitted - self.done)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What was seen of a burst of so many with such a plan, until ``ended``.

    ``left`` tells where everything is, where something was not as it must be at the end.
    """

    requests: int
    plan: float
    points: tuple[Point, ...]
    ended: str = "it was over"
    left: str = ""

    @property
    def seconds(self) -> float:
        """Until the last one was done."""
        undone = [n for n, point in enumerate(self.points) if point.done < self.requests]
        return self.points[undone[-1] + 1 if undone else 0].at

    @property
    def peak(self) -> int:
        """Most workers at once."""
        return max(point.workers for point in self.points)

    @property
    def home_seconds(self) -> float:
        """From the last page to the last worker's end."""
        last = max((point.at for point in self.points if point.workers), default=0.0)
        return max(0.0, last - self.seconds) + LOOK_SECONDS

    def faults(self, ceiling: int) -> list[str]:
        """What is not as it must be; whether it was in time is a figure's to say.

        ``ceiling`` is how many workers the stage may have.
        """
        found = []
        if self.points[-1].done != self.requests:
            return [f"{self.points[-1].done} of {self.requests} requests were done: {self.ended}"]
        if self.peak < 2:
            found.append("no second worker came")
        if self.points[-1].workers:
            found.append(f"{self.points[-1].workers} workers are still there: {self.ended}")
        if any(point.workers > ceiling for point in self.points):
            found.append("there were more workers than the stage may have")
        return found

    def thin(self) -> list[Point]:
        """The points that are kept, the last one among them."""
        step = max(1, -(-len(self.points) // POINTS))
        return [*self.points[:-1:step], self.points[-1]]

    def table(self) -> str:
        """It for people, and what was left."""
        lines = ["seconds backlog workers needed kept limit rate"]
        kept = self.thin()
        step = max(1, -(-len(kept) // QUOTED))
        lines += [
            f"{p.at:7.0f} {p.backlog:7} {p.workers:7} {p.needed:6} {p.kept:4} {p.limit:5} "
            f"{p.rate:4.0f}"
            for p in [*kept[:-1:step], kept[-1]]
        ]
        return "\n".join([*lines, *([self.left] if self.left else [])])
