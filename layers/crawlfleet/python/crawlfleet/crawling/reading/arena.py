"""Memory in which a worker lays bodies for a reader: written by one, read by the other.

A socket copies a page twice, in pieces; that costs as much again as all else around a page. Places
are given in a ring and come back in the same order, as answers do. Where the system has no such
memory (``memfd_create``) bodies go through the socket.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections import deque
from typing import Final

#: Bytes of the memory, and the largest body that is laid there.
ARENA_BYTES: Final = 2_097_152
LAID_MOST: Final = ARENA_BYTES // 4


class Arena:
    """The worker's side: what it writes, and never reads."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("pages", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, ARENA_BYTES)
            # Whoever writes beyond the end of what another has cut off is ended by the system.
            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals)
            self._memory = mmap.mmap(self.fd, ARENA_BYTES)
        except BaseException:
            os.close(self.fd)
            raise
        self._laid: deque[tuple[int, int]] = deque()
        self._end = 0

    def lay(self, content: bytes) -> int | None:
        """Copy a body to where there is room; return the place, or None where there is none."""
        size = len(content)
        first = self._laid[0][0] if self._laid else None
        at = self._end
        if first is None:
            at = 0
        elif at >= first:
            if at + size > ARENA_BYTES:
                at = 0
                if size >= first:
                    return None
        elif at + size >= first:
            return None
        self._memory[at : at + size] = content
        self._laid.append((at, size))
        self._end = at + size
        return at

    def free(self) -> None:
        """Take the oldest place back."""
        self._laid.popleft()

    def close(self) -> None:
        """Give the memory back."""
        self._memory.close()
        os.close(self.fd)


def made() -> Arena | None:
    """Make one, or None where the system has none."""
    try:
        return Arena()
    except (OSError, AttributeError):
        return None


def opened(fd: int) -> mmap.mmap:
    """Open the reader's side, which is read alone; the descriptor is closed."""
    try:
        return mmap.mmap(fd, ARENA_BYTES, prot=mmap.PROT_READ)
    finally:
        os.close(fd)
