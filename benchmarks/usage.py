"""Print what a process has used, as one line of JSON: the answer of every crawling side.

Used by the peers' scripts too: nothing but the standard library.
"""

import json
import resource
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

#: Seconds between two looks at the memory of other processes: one takes about a millisecond.
LOOK_SECONDS: Final = 0.5


def cpu_seconds() -> float:
    """CPU seconds of this process, and of those that it has started and that have ended."""
    found = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in found)


def report(*, pages: int, seconds: float, more: Any = None, **facts: float) -> str:
    """CPU seconds from this process' start and its imports on, its peak memory; further facts."""
    answer = {
        "pages": pages,
        "seconds": seconds,
        "cpu": cpu_seconds(),
        "peak_mb": peak_kb() // 1024,
        **facts,
    }
    return json.dumps({**answer, "more": more} if more else answer)


class Started:
    """The memory of the processes that this one has started, with theirs, at its most.

    It is looked at now and then while the context lasts. Of pages that several processes share each
    has its part; what a process has at its own peak (``VmHWM``) would count them several times.
    """

    def __init__(self, every_seconds: float = LOOK_SECONDS) -> None:
        self.peak_kb = 0
        self._every_seconds = every_seconds
        self._ended = threading.Event()
        self._looking = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._looking.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._looking.join()

    def _look(self) -> None:
        while not self._ended.wait(self._every_seconds):
            self.peak_kb = max(self.peak_kb, sum(map(_kb, _started_by("self"))))


def _started_by(pid: str) -> Iterator[str]:
    try:
        threads = [*Path(f"/proc/{pid}/task").iterdir()]
        for child in " ".join((one / "children").read_text() for one in threads).split():
            yield child
            yield from _started_by(child)
    except OSError:
        return  # it has ended


def _kb(pid: str) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass  # it has ended
    return 0


def peak_kb(status: Path = Path("/proc/self/status")) -> int:
    """This process' memory at its peak.

    Not ``ru_maxrss`` where there is another way: it begins with what the parent had when it started
    this process, and that grows with each benchmark.
    """
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
