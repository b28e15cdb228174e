"""Readings that are set, for tests and simulations."""

from crawlfleet.model.usage import Remaining
from crawlfleet.ports.readings import Taken


class MemoryReadings:
    """ports.Readings: whatever was set last."""

    def __init__(self) -> None:
        self.left = Remaining()
        self.cpu_seconds = 0.0
        self.memory_bytes = 0
        self.frequency = 1.0
        #: How often the process was read.
        self.read = 0

    def remaining(self) -> Remaining:
        """See ports.Readings.remaining."""
        return self.left

    def at_rest(self) -> Remaining:
        """See ports.Readings.at_rest."""
        return Remaining(memory=self.left.memory, cpu=self.left.cpu)

    def taken(self) -> Taken:
        """See ports.Readings.taken."""
        self.read += 1
        return Taken(cpu_seconds=self.cpu_seconds, memory_bytes=self.memory_bytes)

    def ghz(self) -> float:
        """See ports.Readings.ghz."""
        return self.frequency
