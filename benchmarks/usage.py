"""What a process has used, as one line of JSON: the answer of every crawling side.

Used by the peers' scripts too: nothing but the standard library.
"""

import json
import resource
from typing import Any


def report(*, pages: int, seconds: float, more: Any = None, **facts: float) -> str:
    """CPU seconds of this process alone, from its start and its imports on; and further facts."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    answer = {
        "pages": pages,
        "seconds": seconds,
        "cpu": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss // 1024,
        **facts,
    }
    return json.dumps({**answer, "more": more} if more else answer)
