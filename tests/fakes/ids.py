"""An in-memory fake leases worker numbers."""

from itertools import count
from threading import Lock
from typing import Final

from tests.kit.fleet import LeasedNumber
from tests.kit.ids import WORKER_NUMBERS, first_mark
from tests.kit.kernel import WorkerNumbersExhaustedError

_ALL: Final = range(WORKER_NUMBERS)


class MemoryWorkerNumbers:
    """A ``WorkerNumbers`` that lives as long as it is held; thread-safe."""

    def __init__(self, *, numbers: range = _ALL) -> None:
        self._lock = Lock()
        self._ends: dict[int, int] = dict.fromkeys(numbers, 0)
        self._held: dict[int, LeasedNumber] = {}
        self._fences = count(1)

    def lease(self, holder: str, now_ms: int, term_ms: int) -> LeasedNumber:
        """The number that has been free for longest, for ``term_ms``.

        Raises:
            WorkerNumbersExhaustedError: all are leased.
        """
        with self._lock:
            free = [number for number, ends in self._ends.items() if ends <= now_ms]
            if not free:
                raise WorkerNumbersExhaustedError(
                    f"all {len(self._ends)} worker numbers are leased; ask again when a term ends"
                )
            number = min(free, key=lambda one: (self._ends[one], str(one)))
            before = self._held.get(number)
            held = LeasedNumber(
                number=number,
                fence=f"{next(self._fences)}:{holder}",
                mark=before.mark if before else first_mark(now_ms),
            )
            self._ends[number], self._held[number] = now_ms + term_ms, held
            return held

    def advance(self, held: LeasedNumber, mark: int, now_ms: int, term_ms: int) -> bool:
        """Spend the positions below ``mark`` and renew the lease, in one step.

        False, and no effect, when the lease has ended, is another's, its mark is not ``held``'s,
        or ``mark`` lies before it.
        """
        with self._lock:
            if (
                mark < held.mark
                or self._ends.get(held.number, 0) <= now_ms
                or self._held.get(held.number) != held
            ):
                return False
            self._ends[held.number] = now_ms + term_ms
            self._held[held.number] = LeasedNumber(number=held.number, fence=held.fence, mark=mark)
            return True
