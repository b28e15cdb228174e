"""Run a server for as long as the process that asked for it lives.

``python -I -S guard.py GRACE_SECONDS program argument...``

The guard's standard input is a pipe from its owner. The pipe closes when the owner stops the
server and also when the owner dies in whatever way, ``kill -9`` included; the guard then ends the
server cleanly. A death signal from the owner's thread would not do: the thread that started a
server often ends long before the process does. The guard itself is single-threaded, so on Linux
the server asks for a signal when the guard is killed.

SIGUSR1 kills the server at once, as ``kill -9`` does: that is for tests of what survives it.

Nothing of ours is imported: the guard starts in a few milliseconds.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from types import FrameType
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_POLL_SECONDS: Final = 1.0
_ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def _death_signal() -> Callable[[], None] | None:
    """Return the call that asks for SIGTERM at the guard's death, where the system knows that."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

    return ask


def run(grace_seconds: float, command: list[str]) -> int:
    """Run ``command`` until it ends or the owner's pipe closes; return its exit status."""
    ended_read, ended_write = os.pipe()
    os.set_blocking(ended_write, False)
    signal.set_wakeup_fd(ended_write)

    def note(_number: int, _frame: FrameType | None) -> None:
        """Wake the loop; the wake-up descriptor carries the signal's number."""

    for number in (*_ENDING, signal.SIGCHLD, signal.SIGUSR1):
        signal.signal(number, note)
    server = subprocess.Popen(  # noqa: S603  the owner chose the program
        command,
        stdin=subprocess.DEVNULL,
        preexec_fn=_death_signal(),  # noqa: PLW1509  this process has one thread
        start_new_session=True,
    )
    while server.poll() is None:
        ready, _, _ = select.select([0, ended_read], [], [], _POLL_SECONDS)
        if ended_read in ready:
            numbers = os.read(ended_read, 64)
            if signal.SIGUSR1 in numbers:
                server.kill()
            elif set(numbers) - {signal.SIGCHLD}:
                break
        if 0 in ready and not os.read(0, 64):
            break
    if server.poll() is None:
        server.terminate()
        try:
            server.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            server.kill()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(server.pid, signal.SIGKILL)
    status = server.wait()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(run(float(sys.argv[1]), sys.argv[2:]))
