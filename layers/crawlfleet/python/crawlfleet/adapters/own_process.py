"""What this process takes, by the operating system's account of it (SPEC.md B10)."""

import os
from pathlib import Path
from typing import Final

from crawlfleet.model.usage import Remaining
from crawlfleet.ports.readings import Taken

_STATM: Final = Path("/proc/self/statm")
_CPUINFO: Final = Path("/proc/cpuinfo")
_CPUINFO_BYTES: Final = 65_536


class OwnProcess:
    """ports.Readings of the process alone: of what the machine has left it knows nothing."""

    def __init__(self, statm: Path = _STATM, cpuinfo: Path = _CPUINFO) -> None:
        self._statm = statm
        self._cpuinfo = cpuinfo
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._cpu_seconds = 0.0
        self._memory_bytes = 0

    def remaining(self) -> Remaining:
        """See ports.Readings.remaining."""
        return Remaining()

    def taken(self) -> Taken:
        """See ports.Readings.taken: a system call and a line of /proc."""
        times = os.times()
        spent = times.user + times.system + times.children_user + times.children_system
        self._cpu_seconds = max(self._cpu_seconds, spent)
        try:
            resident = int(self._statm.read_text(encoding="ascii").split()[1])
            self._memory_bytes = resident * self._page_bytes
        except (OSError, ValueError, IndexError):
            pass  # no Linux, or no /proc: what was read last holds
        return Taken(cpu_seconds=self._cpu_seconds, memory_bytes=self._memory_bytes)

    def ghz(self) -> float:
        """See ports.Readings.ghz: of the first processor, as frequencies of one machine agree."""
        try:
            with self._cpuinfo.open(encoding="utf-8", errors="replace") as lines:
                for line in lines.read(_CPUINFO_BYTES).splitlines():
                    name, _, value = line.partition(":")
                    if name.strip() == "cpu MHz" and 100 <= float(value) <= 10_000:
                        return float(value) / 1_000
        except (OSError, ValueError):
            pass
        return 1.0
