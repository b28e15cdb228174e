"""The memory of a process: what it imports stays, and a worker keeps what pages took.

Python looks through all objects whenever so many more have been made, and an import makes nothing
but objects that stay: that took a tenth of what a cold start costs. A worker makes a tree of each
page and throws it away. By default the C library gives the memory of each tree back to the system
and asks for it again, a page fault for every 4 KB, and Python looks through all objects of all
imported modules again and again. Together that took a fifth of a worker's CPU.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: Parameters of ``mallopt`` (glibc, malloc.h).
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3

#: So much memory that is free at the end of the heap is kept for the next pages.
KEPT_BYTES: Final = 64_000_000
#: Larger pieces are the system's own again as soon as they are free: bodies of large files are, and
#: would leave holes.
LARGE_BYTES: Final = 8_000_000
#: Objects made, less those freed, between two looks at the youngest; how many of these looks for
#: one at the next older ones, and for one at all. A page makes some hundreds.
LOOKS: Final = (10_000, 20, 20)


@contextmanager
def all_of_it_stays() -> Iterator[None]:
    """Collect nothing of what is made within, neither now nor later."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
        # Else the first collection afterwards would go through all of it.
        gc.freeze()
    finally:
        if was_enabled:
            gc.enable()


def keep_memory() -> None:
    """Have this process keep its memory; once, when all that it works with is imported.

    Where the C library is another one (macOS, musl) its memory stays as it is.
    """
    import ctypes  # handlers other than the consumer's need none

    gc.freeze()
    gc.set_threshold(*LOOKS)
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
    mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
