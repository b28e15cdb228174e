"""Where a worker's time goes."""

from collections import defaultdict

from crawlfleet.kernel.queue_key import Lane


class Phases:
    """Where the time goes, in seconds by lane and phase, until it is written to the account."""

    def __init__(self) -> None:
        self._spent: dict[Lane, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def add(self, lane: Lane, phase: str, seconds: float) -> None:
        """Time was spent."""
        self._spent[lane][phase] += seconds

    def take(self) -> dict[Lane, dict[str, float]]:
        """What has come together since the last call."""
        spent, self._spent = self._spent, defaultdict(lambda: defaultdict(float))
        return spent
