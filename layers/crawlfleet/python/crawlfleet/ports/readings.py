"""What a worker reads of itself: what it has left, and what it has taken (SPEC.md B4, B10)."""

from typing import Protocol

import msgspec

from crawlfleet.model.usage import Remaining


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """What this process has taken up to now.

    Attributes:
        cpu_seconds: Of processor time, all its threads and the children it has waited for; only
            ever grows.
        memory_bytes: Resident now, so it goes up and down.
    """

    cpu_seconds: float
    memory_bytes: int


class Readings(Protocol):
    """Readings of the machine and of this process.

    No method asks anything outside of the machine, and none raises: what cannot be read is
    None in what is left, and the last value (at first 0) in what is taken. Each call costs less
    than a millisecond of processor time, so that one a second is nothing.
    """

    def remaining(self) -> Remaining:
        """What is left of memory, CPU and bandwidth; None is what the machine does not tell."""
        ...

    def at_rest(self) -> Remaining:
        """What is left while this process does nothing; to be asked before it does anything.

        Memory as it is left then, and all of the CPU that it may have, as what is idle of that
        takes a while to see. Bandwidth is None: what it could move is not known.
        """
        ...

    def taken(self) -> Taken:
        """What the process itself has taken."""
        ...

    def ghz(self) -> float:
        """What a second of processor time is worth in the CPU index (SPEC.md B2).

        The frequency in GHz; 1.0 where the machine does not tell.
        """
        ...
