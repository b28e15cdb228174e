"""Trace a burst from outside, a sample a second, and find the faults in it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

#: Points of the trace that are kept, and of those the ones that a failure quotes.
POINTS: Final = 300
QUOTED: Final = 40
#: Seconds between two looks.
LOOK_SECONDS: Final = 1.0


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A sample of the burst: seconds since it began, what is still to be done, and the workers."""

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


@dataclass(slots=True, kw_only=True)
class Patience:
    """The limits after which a run is given up: slow is only late, standing still is lost.

    Args:
        requests: How many there are to be done.
        stuck_seconds: Nothing was accepted or done for so long; more than a lease, and the rounds
            that bring back what is lost.
        latest_seconds: It has gone on for so long, whatever moves.
        home_seconds: All has been done for so long, and somebody is still there.
    """

    requests: int
    stuck_seconds: float
    latest_seconds: float
    home_seconds: float
    moved_at: float = 0.0
    done_at: float = math.inf
    _most: tuple[int, int] = (0, 0)

    def sees(self, point: Point) -> None:
        """Add the latest sample."""
        reached = point.submitted, point.done
        if reached > self._most:
            self.moved_at, self._most = point.at, reached
        if point.done >= self.requests:
            self.done_at = min(self.done_at, point.at)

    def is_out(self, at: float) -> bool:
        """Check whether that is so."""
        stuck_at, home_at = self.moved_at + self.stuck_seconds, self.done_at + self.home_seconds
        return at > min(self.latest_seconds, stuck_at, home_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The samples of a burst of so many with such a plan, until ``ended``.

    ``left`` says where everything is, where there is a fault at the end.
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
        """Return the seconds from the last page to the last worker's end."""
        last = max((point.at for point in self.points if point.workers), default=0.0)
        return max(0.0, last - self.seconds) + LOOK_SECONDS

    def faults(self, ceiling: int) -> list[str]:
        """Find the faults; whether it was in time is a figure's to say.

        ``ceiling`` is how many workers the stage may have.
        """
        found = []
        if not self.points:
            return [f"nothing was to be seen: {self.ended}"]
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
        return _some(self.points, POINTS)

    def table(self) -> str:
        """Return the trace as a table for people, and what was left."""
        lines = ["seconds backlog workers needed kept limit rate"]
        lines += [
            f"{p.at:7.0f} {p.backlog:7} {p.workers:7} {p.needed:6} {p.kept:4} {p.limit:5} "
            f"{p.rate:4.0f}"
            for p in _some(self.points, QUOTED)
        ]
        return "\n".join([*lines, *([self.left] if self.left else [])])


def _some(points: Sequence[Point], most: int) -> list[Point]:
    """Up to so many of them and the last one."""
    return [*points[: -1 : max(1, -(-len(points) // most))], *points[-1:]]
