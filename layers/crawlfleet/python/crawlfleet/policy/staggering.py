"""When a worker ends whose time is up (SPEC.md C1): workers of one start not all at one moment.

Each calls for the next one as it ends. If all did at once there would be room for a few of those
only, since the places are taken until the last moment, and for some seconds nobody would work.
"""

import zlib
from typing import Final

#: The last part of their time, within which workers end one after the other.
PART: Final = 0.15


def early_seconds(worker: str, seconds: float) -> float:
    """How much of its ``seconds`` a worker leaves unused, by its id: evenly spread over workers.

    >>> early_seconds("w", 900.0) == early_seconds("w", 900.0)
    True
    >>> 0 <= early_seconds("w", 900.0) < 135
    True
    """
    return max(0.0, seconds) * PART * zlib.crc32(worker.encode()) / 2**32
