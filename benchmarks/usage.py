"""Print what a process has used, as one line of JSON: the answer of every crawling side.

Used by the peers' scripts too: nothing but the standard library.
"""

import json
import resource
from pathlib import Path
from typing import Any


def report(*, pages: int, seconds: float, more: Any = None, **facts: float) -> str:
    """CPU seconds of this process alone, from its start and its imports on; and further facts."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    answer = {
        "pages": pages,
        "seconds": seconds,
        "cpu": used.ru_utime + used.ru_stime,
        "peak_mb": peak_kb() // 1024,
        **facts,
    }
    return json.dumps({**answer, "more": more} if more else answer)


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
