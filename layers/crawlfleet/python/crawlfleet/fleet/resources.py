"""Read what a worker has left of its machine, and what it has taken (SPEC.md B4, B10).

The readings are Linux's and Lambda's. Several may bound the same thing: Lambda's setting, a control
group, the machine itself, what infrastructure says of the pool. What is left is what the tightest
of them leaves. A file that is not there, or says what cannot be, says nothing: None. Containers
hide some of these files and cover others with their own.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec

from crawlfleet.fleet.models import Remaining

#: No file here is read further; what is needed stands near the beginning.
_MOST_BYTES: Final = 65_536
#: What is above it is no limit: cgroup v1 writes the largest number there is, less a page.
_NO_LIMIT: Final = 2**60
#: Control groups above ours, and processes below us, that are looked at.
_MOST_GROUPS: Final = 16
_MOST_PROCESSES: Final = 64
#: No processor has a clock outside of these, in GHz.
_SLOWEST: Final = 0.05
_FASTEST: Final = 10.0


class MachineFiles:
    """Reads the files below ``root``, which is ``/`` on a real machine."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc = f"{str(root).rstrip('/')}/proc"
        self._sys = f"{str(root).rstrip('/')}/sys"
        self._page = os.sysconf("SC_PAGE_SIZE")

    def resident(self, process: int | str = "self") -> int | None:
        """Read the bytes of a process in memory."""
        fields = _text(f"{self._proc}/{process}/statm").split()
        pages = _whole(fields[1]) if len(fields) > 1 else None
        return None if pages is None else pages * self._page

    def descendants(self) -> tuple[int, ...]:
        """List processes that this one has started, and theirs, some dozens at most."""
        found: dict[int, None] = {}
        ahead: list[int | str] = ["self"]
        while ahead and len(found) < _MOST_PROCESSES:
            for child in self._children(ahead.pop()):
                if child not in found and len(found) < _MOST_PROCESSES:
                    found[child] = None
                    ahead.append(child)
        return tuple(found)

    def available(self) -> int | None:
        """Read the bytes that the machine could give without swapping."""
        for line in _text(f"{self._proc}/meminfo").splitlines():
            if line.startswith("MemAvailable:"):
                return _kilobytes(line)
        return None

    def memory_groups(self) -> list["MemoryGroup"]:
        """List the control groups that bound this process' memory, with a limit that is one."""
        found = [
            group
            for folder in self._group_folders("memory")
            for group in (
                MemoryGroup(folder, "memory.max", "memory.current", "inactive_file"),
                MemoryGroup(
                    folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
                ),
            )
        ]
        return [group for group in found if group.limit is not None]

    def quota(self) -> float | None:
        """Read the processors that the control groups allow; None where they allow all."""
        least: float | None = None
        for folder in self._group_folders("cpu"):
            words = _text(f"{folder}/cpu.max").split()
            if len(words) != 2:
                quota = _text(f"{folder}/cpu.cfs_quota_us").strip()
                words = [quota, _text(f"{folder}/cpu.cfs_period_us").strip()]
            allowed, period = map(_whole, words)
            if allowed and period:
                least = min(allowed / period, least or allowed / period)
        return least

    def ghz(self) -> float | None:
        """Read the clock of the processors: as they run, are built, or are named."""
        said = _text(f"{self._proc}/cpuinfo")
        built = f"{self._sys}/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"
        kilohertz = _whole(_text(built).strip())
        named: float | None = None
        for line in said.splitlines():
            field, _, value = line.partition(":")
            if field.strip() == "cpu MHz" and (found := _clock(value, 1_000)) is not None:
                return found
            if field.strip() == "model name" and "@" in value and value.endswith("GHz"):
                named = named or _clock(value.rpartition("@")[2].removesuffix("GHz"), 1)
        return (_clock(str(kilohertz), 1_000_000) if kilohertz else None) or named

    def ticks(self) -> tuple[int, int, int] | None:
        """Read idle and all ticks since the machine began, and the number of processors.

        The ticks are of all processors together. A machine that waits for its disk is idle; one
        whose host gives its time to others is not.
        """
        lines = _text(f"{self._proc}/stat").splitlines()
        words = lines[0].split() if lines else []
        numbers = [_whole(word) for word in words[1:9]]
        if words[:1] != ["cpu"] or len(numbers) < 4 or None in numbers:
            return None
        counted = [number or 0 for number in numbers]
        processors = sum(line.startswith("cpu") for line in lines) - 1
        return counted[3] + sum(counted[4:5]), sum(counted), max(1, processors)

    def moved(self) -> int | None:
        """Read the bytes that all interfaces but the loopback have received and sent."""
        total: int | None = None
        for line in _text(f"{self._proc}/net/dev").splitlines()[2:]:
            name, _, rest = line.partition(":")
            fields = rest.split()
            if name.strip() == "lo" or len(fields) < 9:
                continue
            received, sent = _whole(fields[0]), _whole(fields[8])
            if received is not None and sent is not None:
                total = (total or 0) + received + sent
        return total

    def _children(self, process: int | str) -> Iterator[int]:
        folder = f"{self._proc}/{process}/task"
        try:
            tasks = os.listdir(folder)  # noqa: PTH208  a Path for each costs more than the reading
        except OSError:
            return
        for task in tasks:
            for word in _text(f"{folder}/{task}/children").split():
                if (child := _whole(word)) is not None:
                    yield child

    def _group_folders(self, controller: str) -> Iterator[str]:
        """Yield the folders of our control group and those above it, of versions 2 and 1."""
        mount = f"{self._sys}/fs/cgroup"
        for line in _text(f"{self._proc}/self/cgroup").splitlines() or ["0::/"]:
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if controllers and controller not in controllers.split(","):
                continue
            base = mount if not controllers else f"{mount}/{controller}"
            parts = [part for part in path.split("/") if part not in {"", ".", ".."}]
            for depth in range(min(len(parts), _MOST_GROUPS), -1, -1):
                yield "/".join([base, *parts[:depth]])


class MemoryGroup:
    """A control group with a ``limit`` of memory in bytes; None where it has none."""

    __slots__ = ("_folder", "_reclaimable", "_stat", "_usage", "limit")

    def __init__(self, folder: str, limit: str, usage: str, stat: str) -> None:
        self._folder = folder
        self._usage = usage
        self._stat = stat
        found = _whole(_text(f"{folder}/{limit}").strip())
        self.limit = found if found and found < _NO_LIMIT else None
        self._reclaimable = self._inactive() if self.limit else 0

    def left(self) -> int | None:
        """Compute the bytes until it is full; files unused lately are given up before that."""
        used = _whole(_text(f"{self._folder}/{self._usage}").strip())
        if used is None or self.limit is None:
            return None
        return max(0, self.limit - max(0, used - self._reclaimable))

    def _inactive(self) -> int:
        for line in _text(f"{self._folder}/memory.stat").splitlines():
            name, _, value = line.partition(" ")
            if name == self._stat:
                return _whole(value.strip()) or 0
        return 0


def _text(path: str) -> str:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        read = os.read(file, _MOST_BYTES)
    except OSError:
        return ""
    finally:
        os.close(file)
    return read.decode("ascii", "replace")


def _whole(word: str) -> int | None:
    """Parse a number from 0 up to what 64 bits hold, or None."""
    if not word.isascii() or not word.isdigit() or len(word) > 20:
        return None
    return int(word)


def _kilobytes(line: str) -> int | None:
    words = line.split()
    number = _whole(words[1]) if len(words) > 1 else None
    return None if number is None or number * 1024 >= _NO_LIMIT else number * 1024


def _clock(text: str, in_a_ghz: int) -> float | None:
    try:
        found = float(text) / in_a_ghz
    except ValueError:
        return None
    return found if _SLOWEST <= found <= _FASTEST else None


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """Resources that this process has taken up to now; ``memory_bytes`` are resident now.

    ``cpu_seconds`` are of all its threads and the children it has waited for; they only ever grow.
    """

    cpu_seconds: float
    memory_bytes: int


#: The variable in which Lambda tells a function its memory, in MB.
LAMBDA_MEMORY: Final = "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"
#: A function of so many MB has one processor, and of others in proportion; the most it can have.
_MB_A_CORE: Final = 1_769
_MOST_LAMBDA_CORES: Final = 6
_MB: Final = 2**20
#: Worth of a second of processor time where the machine does not tell its clock.
DEFAULT_GHZ: Final = 1.0
#: Rates are those of at least so long; asked for again sooner, the last ones are returned.
_SPAN_SECONDS: Final = 0.5
#: The best rate is remembered for so long: a link that has got slower is found out by then.
SEEN_SECONDS: Final = 600.0
_BUCKET_SECONDS: Final = 10.0
#: No interface of a worker moves more bytes in a second: a counter has jumped.
_FASTEST_BYTES: Final = 50e9
#: Every link carries so many a second (1 Mbit/s): having moved fewer says nothing of what could be.
_SLOWEST_BYTES: Final = 125_000.0
#: Parts of the best rate between which what is left is known: below the lower one a worker has
#: little to do, and from the upper one on it may be on its way to a better rate.
_KNOWN_FROM: Final = 0.5
_KNOWN_BELOW: Final = 0.9
#: Limits, and the processes that were started, are read again after this.
_LOOK_SECONDS: Final = 5.0


def _processor_seconds() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count() or 1


def function_memory_mb(environment: Mapping[str, str]) -> int | None:
    """Return the memory setting of the Lambda function that this is, or None where it is none.

    >>> function_memory_mb({"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024"})
    1024
    """
    said = environment.get(LAMBDA_MEMORY, "")
    return int(said) if said.isascii() and said.isdigit() and 0 < int(said) < 2**24 else None


class MachineReadings:
    """Readings of the machine and of this process; threads share it.

    No method asks anything outside of the machine, and none raises: what cannot be read is None in
    what is left, and the last value (at first 0) in what is taken. Each call costs less than a
    millisecond of processor time, so that one a second is nothing.

    ``lambda_mb`` is the function's memory setting, from :func:`function_memory_mb`; the pool's by
    infrastructure (``reported_mb``) counts where it is less. ``moved`` counts bytes better than the
    machine's interfaces, which several workers share; /proc and /sys are below ``root``.
    """

    def __init__(
        self,
        *,
        lambda_mb: int | None = None,
        reported_mb: int | None = None,
        moved: Callable[[], int] | None = None,
        root: Path = Path("/"),
        steady: Callable[[], float] = time.monotonic,
        processor_seconds: Callable[[], float] = _processor_seconds,
        processors: Callable[[], int] = _processors,
    ) -> None:
        self._files = MachineFiles(root)
        self._is_lambda = lambda_mb is not None
        limits = [mb * _MB for mb in (lambda_mb, reported_mb) if mb is not None]
        self._limit = min(limits, default=None)
        self._steady = steady
        self._spent = processor_seconds
        self._ghz = self._files.ghz() or DEFAULT_GHZ
        self._cores = self._count_cores(lambda_mb, processors())
        self._moved: Callable[[], int | None] = moved or self._files.moved
        self._lock = Lock()
        self._look_at = float("-inf")
        self._taken = Taken(cpu_seconds=0.0, memory_bytes=0)
        self._cpu: float | None = None
        self._rate: float | None = None
        # The most bytes in a second of each ten seconds, of which there is any memory.
        self._best: deque[tuple[float, float]] = deque()
        self._look()
        self._since = self._sample()

    def remaining(self) -> Remaining:
        """Return what is left of memory, CPU and bandwidth; None is what cannot be read."""
        with self._lock:
            self._look()
            self._measure()
            return Remaining(memory=self._memory(), cpu=self._cpu, bandwidth=self._bandwidth())

    def at_rest(self) -> Remaining:
        """Return what is left while this process does nothing; to be asked before it does anything.

        Memory as it is left then, and all of the CPU that it may have, as what is idle of that
        takes a while to see. Bandwidth is None: what it could move is not known.
        """
        with self._lock:
            self._look()
            return Remaining(memory=self._memory(), cpu=self._ghz * self._cores)

    def taken(self) -> Taken:
        """Return what the process itself has taken."""
        with self._lock:
            self._look()
            memory = self._own_memory()
            self._taken = Taken(
                cpu_seconds=max(self._taken.cpu_seconds, self._spent()),
                memory_bytes=self._taken.memory_bytes if memory is None else memory,
            )
            return self._taken

    def ghz(self) -> float:
        """Return the worth of a second of processor time in the CPU index (SPEC.md B2), in GHz."""
        return self._ghz

    def _look(self) -> None:
        now = self._steady()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_SECONDS
        self._groups = self._files.memory_groups()
        self._children = self._files.descendants()

    def _own_memory(self) -> int | None:
        own = self._files.resident()
        if own is None:
            return None
        # One that has ended meanwhile has nothing any more.
        return own + sum(self._files.resident(child) or 0 for child in self._children)

    def _memory(self) -> float | None:
        left: list[int | None] = [group.left() for group in self._groups]
        left.append(self._files.available())
        own = None if self._limit is None else self._own_memory()
        if self._limit is not None and own is not None:
            left.append(max(0, self._limit - own))
        known = [one for one in left if one is not None]
        return float(min(known)) if known else None

    def _count_cores(self, lambda_mb: int | None, processors: int) -> float:
        cores = [float(max(1, processors))]
        if lambda_mb is not None:
            cores.append(min(lambda_mb / _MB_A_CORE, _MOST_LAMBDA_CORES))
        if (quota := self._files.quota()) is not None:
            cores.append(quota)
        return min(cores)

    def _sample(self) -> tuple[float, float, tuple[int, int, int] | None, int | None]:
        # In Lambda /proc/stat is the host's, of which we have a part.
        ticks = None if self._is_lambda else self._files.ticks()
        return self._steady(), self._spent(), ticks, self._moved()

    def _measure(self) -> None:
        then, spent, ticks, moved = self._since
        if self._steady() - then < _SPAN_SECONDS:
            return
        self._since = now, spent_now, ticks_now, moved_now = self._sample()
        seconds = now - then
        if spent_now >= spent:
            idle = max(0.0, self._cores - (spent_now - spent) / seconds)
            if ticks is not None and ticks_now is not None:
                idle_ticks, all_ticks = ticks_now[0] - ticks[0], ticks_now[1] - ticks[1]
                if 0 <= idle_ticks <= all_ticks and all_ticks:
                    # Others on the machine take what is nobody's limit.
                    idle = min(idle, ticks_now[2] * idle_ticks / all_ticks)
            self._cpu = self._ghz * idle
        self._rate = None
        if moved is not None and moved_now is not None:
            rate = (moved_now - moved) / seconds
            if 0 <= rate <= _FASTEST_BYTES:
                self._rate = rate
                self._remember(now, rate)

    def _remember(self, now: float, rate: float) -> None:
        bucket = now // _BUCKET_SECONDS
        if self._best and self._best[-1][0] == bucket:
            self._best[-1] = bucket, max(rate, self._best[-1][1])
        else:
            self._best.append((bucket, rate))

    def _bandwidth(self) -> float | None:
        oldest = (self._steady() - SEEN_SECONDS) // _BUCKET_SECONDS
        while self._best and self._best[0][0] < oldest:
            self._best.popleft()
        most = max((rate for _, rate in self._best), default=0.0)
        # What was seen is the least that can be moved.
        if self._rate is None or most < _SLOWEST_BYTES:
            return None
        is_known = _KNOWN_FROM * most <= self._rate < _KNOWN_BELOW * most
        return most - self._rate if is_known else None
