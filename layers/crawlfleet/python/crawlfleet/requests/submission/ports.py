"""The stores of submission, as its verbs ask for them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from crawlfleet.config.documents.biz import IntakeLimits
from crawlfleet.kernel.queue_key import Lane
from crawlfleet.requests.queue.stats import Pressure
from crawlfleet.requests.submission.models import Keyed, KeyName


class SubmissionKeys(Protocol):
    """What makes a repeated submission one (SPEC.md D13)."""

    def find(self, lane: Lane, names: Sequence[KeyName]) -> dict[KeyName, Keyed]:
        """Those that are kept."""
        ...

    def open(self, lane: Lane, keyed: Sequence[Keyed], until: datetime) -> list[Keyed]:
        """Keep each under its key, until then at least; returns what stands, in the same order.

        A key that is kept already answers with what it was first given.
        """
        ...

    def close(self, lane: Lane, keyed: Sequence[Keyed]) -> None:
        """All requests of these are stored. No effect on what has taken the place of one."""
        ...

    def forget(self, lane: Lane, keyed: Sequence[Keyed]) -> None:
        """Keep these no longer; no effect on one that is closed, or has been replaced."""
        ...


class Intake(Protocol):
    """Back-pressure: whether a lane takes more now."""

    def admit(
        self,
        lane: Lane,
        count: int,
        limits: IntakeLimits,
        memory_ratio: float,
        now: datetime,
        beside: Sequence[Lane] = (),
    ) -> Pressure:
        """Ask for ``count`` more, and count them towards the rate if there is room.

        What waits in the lanes ``beside``, of the same biz, is a part of the backlog.
        Time is the server's where it has one: callers' clocks (``now``) may differ by an hour.
        """
        ...
