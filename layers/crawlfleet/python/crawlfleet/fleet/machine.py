"""What Linux says of a machine and of this process: the files of /proc and /sys that readings need.

Nothing here raises. A file that is not there, or says what cannot be, says nothing: None.
Containers hide some of these files and cover others with their own.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

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

    # ---- memory

    def resident(self, process: int | str = "self") -> int | None:
        """Bytes of a process in memory."""
        fields = _text(f"{self._proc}/{process}/statm").split()
        pages = _whole(fields[1]) if len(fields) > 1 else None
        return None if pages is None else pages * self._page

    def descendants(self) -> tuple[int, ...]:
        """Processes that this one has started, and theirs, some dozens at most."""
        found: dict[int, None] = {}
        ahead: list[int | str] = ["self"]
        while ahead and len(found) < _MOST_PROCESSES:
            for child in self._children(ahead.pop()):
                if child not in found and len(found) < _MOST_PROCESSES:
                    found[child] = None
                    ahead.append(child)
        return tuple(found)

    def available(self) -> int | None:
        """Bytes that the machine could give without swapping."""
        for line in _text(f"{self._proc}/meminfo").splitlines():
            if line.startswith("MemAvailable:"):
                return _kilobytes(line)
        return None

    def memory_groups(self) -> list["MemoryGroup"]:
        """The control groups that bound this process' memory, with a limit that is one."""
        found = [
            group
            for folder in self._group_folders("memory")
            for group in (
                MemoryGroup(folder, "memory.max", "memory.current", "inactive_file"),
                MemoryGroup(
                    folder,
                    "memory.limit_in_bytes",
                    "memory.usage_in_bytes",
                    "total_inactive_file",
                ),
            )
        ]
        return [group for group in found if group.limit is not None]

    # ---- processors

    def quota(self) -> float | None:
        """Processors that the control groups allow; None where they allow all."""
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
        """The clock of the processors: as they run, as they are built, or as they are called."""
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
        """Of all processors since the machine began: idle ticks, all ticks; and how many there are.

        A machine that waits for its disk is idle; one whose host gives its time to others is not.
        """
        lines = _text(f"{self._proc}/stat").splitlines()
        words = lines[0].split() if lines else []
        numbers = [_whole(word) for word in words[1:9]]
        if words[:1] != ["cpu"] or len(numbers) < 4 or None in numbers:
            return None
        counted = [number or 0 for number in numbers]
        processors = sum(line.startswith("cpu") for line in lines) - 1
        return counted[3] + sum(counted[4:5]), sum(counted), max(1, processors)

    # ---- network

    def moved(self) -> int | None:
        """Bytes that all interfaces but the loopback have received and sent."""
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

    # ---- parts of them

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
        """Folders of our control group and those above it, of version 2 and of version 1."""
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
    """A control group with a limit of memory.

    Attributes:
        limit: Bytes; None where it has none.
    """

    __slots__ = ("_folder", "_reclaimable", "_stat", "_usage", "limit")

    def __init__(self, folder: str, limit: str, usage: str, stat: str) -> None:
        self._folder = folder
        self._usage = usage
        self._stat = stat
        found = _whole(_text(f"{folder}/{limit}").strip())
        self.limit = found if found and found < _NO_LIMIT else None
        self._reclaimable = self._inactive() if self.limit else 0

    def left(self) -> int | None:
        """Bytes until it is full: files that nobody has used lately are given up before that."""
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
    """A number from 0 up to what 64 bits hold, or None."""
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
