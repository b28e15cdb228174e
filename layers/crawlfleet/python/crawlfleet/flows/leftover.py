"""What a worker has left for one job more, as it applies (SPEC.md B4)."""

from datetime import datetime, timedelta

from crawlfleet.model.usage import Remaining, Usage
from crawlfleet.policy.bidding import after, most
from crawlfleet.ports.readings import Readings


class Leftover:
    """The readings of one worker, less what it has won and they do not show yet.

    To be made before the worker begins to work: what it has when it does nothing is read then, and
    not when the first job is to be judged, by when it may have been at work for long.
    """

    def __init__(self, readings: Readings) -> None:
        self._readings = readings
        self._recent: list[tuple[datetime, Usage]] = []
        #: The most that it was seen to have left: what it has when it does nothing else.
        self.most = readings.at_rest()

    def won(self, now: datetime, usage: Usage) -> None:
        """It has begun a job whose runs take so much."""
        self._recent.append((now, usage))

    def look(self, now: datetime, lag: timedelta) -> tuple[Remaining, int]:
        """What is left, and how many jobs of the last ``lag`` are taken off."""
        left = self._readings.remaining()
        self.most = most(self.most, left)
        self._recent = [one for one in self._recent if now - one[0] < lag]
        for _, usage in self._recent:
            left = after(left, usage)
        return left, len(self._recent)
