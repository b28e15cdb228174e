"""Defences against a page in the process that reads it: tried one by one, and reported.

Limits of CPU time, memory and files, and an empty environment, hold on every system that we run on.
The others depend on it: AWS Lambda refuses ``prctl``, and with it filters of system calls.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
import time
from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import Final, NamedTuple

#: Descriptors of a reader: what it has, and what an import opens.
FILES: Final = 64
OK: Final = "ok"

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_SET_SECCOMP: Final = 22
_SECCOMP_MODE_FILTER: Final = 2
_CAP_VERSION: Final = 0x20080522
#: CAP_DAC_READ_SEARCH: to read what belongs to another user.
_CAP_READ: Final = 1 << 2
#: Of Landlock: its calls, and the rights that it is about: to run, write, read, list, remove and
#: make; and to cut a file off, where the kernel knows that. Reading and listing alone are granted,
#: everywhere but in what is the system's: other processes, devices, secrets of containers.
_LANDLOCK_CREATE: Final = 444
_LANDLOCK_ADD: Final = 445
_LANDLOCK_RESTRICT: Final = 446
_LANDLOCK_BENEATH: Final = 1
_LANDLOCK_ALL: Final = (1 << 13) - 1
_LANDLOCK_READ: Final = 0b1100
_LANDLOCK_TRUNCATE: Final = 1 << 14
_LANDLOCK_TRUNCATE_SINCE: Final = 3
SYSTEM_FOLDERS: Final = ("dev", "proc", "run", "sys")
_ALLOW: Final = 0x7FFF0000
_ERRNO: Final = 0x00050000
_EPERM: Final = 1
_ENOSYS: Final = 38
_CLONE_THREAD: Final = 0x00010000
#: Numbers of this and above are another interface's on x86 (x32).
_X32: Final = 0x40000000


class _Machine(NamedTuple):
    """The audit number of a machine, and system calls by number: refused, and of clone.

    ``prlimit`` is refused where it is about another process.
    """

    audit: int
    refused: tuple[int, ...]
    clone: int
    clone3: int
    prlimit: int


#: Sockets, programs, signals, other processes' memory, mounts, namespaces, and what the kernel does
#: for one.
#: A socket that is there already is still read and written.
_MACHINES: Final = {
    "x86_64": _Machine(
        0xC000003E,
        (41, 42, 43, 49, 50, 53, 57, 58, 59, 62, 101, 129, 155, 165, 200, 234, 250, 272, 288, 297,
         298, 304, 308, 310, 311, 321, 322, 424, 425, 434, 438),
        56,
        435,
        302,
    ),
    "aarch64": _Machine(
        0xC00000B7,
        (40, 41, 97, 117, 129, 130, 131, 138, 198, 199, 200, 201, 202, 203, 219, 221, 240, 241, 242,
         265, 268, 270, 271, 280, 281, 424, 425, 434, 438),
        220,
        435,
        261,
    ),
}  # fmt: skip


class Limits(NamedTuple):
    """The limits of a reader: CPU seconds of a question, and memory beyond its start."""

    cpu_seconds: int
    memory_mb: int


class CpuLimit:
    """The limit of CPU time, renewed for each question; beyond it the system ends the process."""

    __slots__ = ("_seconds", "_until")

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds
        self._until = 0.0

    def renew(self) -> None:
        """Give the next question its seconds, and up to two more, as the system counts whole ones.

        Raises OSError, ValueError: the system takes no such limit.
        """
        used = time.process_time()
        if self._until - used < self._seconds:
            self._until = ceil(used + self._seconds) + 1.0
            _, most = resource.getrlimit(resource.RLIMIT_CPU)
            resource.setrlimit(resource.RLIMIT_CPU, (int(self._until), most))


def harden(limits: Limits, cpu: CpuLimit) -> dict[str, str]:
    """Put up every defence that this system has; return ``ok``, or why not, by name."""
    steps: tuple[tuple[str, Callable[[], None]], ...] = (
        ("cpu", cpu.renew),
        ("oom", _first_to_go),
        ("memory", lambda: _bound_memory(limits.memory_mb)),
        ("files", _bound_files),
        ("environment", _no_environment),
        ("orphans", lambda: _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0)),
        ("capabilities", _drop_capabilities),
        ("privileges", lambda: _prctl(_PR_SET_NO_NEW_PRIVS, 1, 0)),
        ("other_processes", _stay_inside),
        ("system_calls", _filter_calls),
    )
    found = {}
    for name, step in steps:
        try:
            step()
            found[name] = OK
        except Exception as error:  # noqa: BLE001  a system may lack it in any way
            found[name] = f"{type(error).__name__}: {error}"[:200]
    return found


def _bound_memory(memory_mb: int) -> None:
    pages = int(Path("/proc/self/statm").read_bytes().split()[0])
    most = pages * resource.getpagesize() + memory_mb * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _bound_files() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))


def _no_environment() -> None:
    os.environ.clear()


def _first_to_go() -> None:
    """Have the system end a reader before its worker, where memory runs out."""
    Path("/proc/self/oom_score_adj").write_text("1000")


def _drop_capabilities() -> None:
    """Give up what a worker of root's may do beyond others, but for reading its own code."""
    status = Path("/proc/self/status").read_text()
    kept = int(status.partition("CapPrm:")[2].split()[0], 16) & _CAP_READ
    capset = ctypes.CDLL(None, use_errno=True).capset
    header = struct.pack("=Ii", _CAP_VERSION, 0)
    if capset(header, struct.pack("=6I", kept, kept, 0, 0, 0, 0)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _prctl(option: int, second: int, third: int) -> None:
    call = ctypes.CDLL(None, use_errno=True).prctl
    arguments = [ctypes.c_ulong(each) for each in (second, third, 0, 0)]
    if call(option, *arguments) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _stay_inside() -> None:
    """Have the kernel refuse other processes' memory and environment, and all writing (Landlock).

    Whoever has the same user may else read both in /proc, by a plain ``open``.
    """
    version = _call(_LANDLOCK_CREATE, None, 0, 1)
    handled = _LANDLOCK_ALL
    if version >= _LANDLOCK_TRUNCATE_SINCE:
        handled |= _LANDLOCK_TRUNCATE
    rules = struct.pack("=Q", handled)
    fd = _call(_LANDLOCK_CREATE, rules, len(rules), 0)
    try:
        for folder in Path("/").iterdir():
            if folder.name not in SYSTEM_FOLDERS and folder.is_dir():
                _grant_reading(fd, folder)
        _call(_LANDLOCK_RESTRICT, fd, 0)
    finally:
        os.close(fd)


def _grant_reading(fd: int, folder: Path) -> None:
    beneath = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = ctypes.create_string_buffer(struct.pack("=Qi", _LANDLOCK_READ, beneath))
        _call(_LANDLOCK_ADD, fd, _LANDLOCK_BENEATH, ctypes.addressof(rule), 0)
    finally:
        os.close(beneath)


def _call(number: int, first: int | bytes | None, *further: int) -> int:
    call = ctypes.CDLL(None, use_errno=True).syscall
    given = ctypes.c_long(first) if isinstance(first, int) else first
    found: int = call(ctypes.c_long(number), given, *map(ctypes.c_long, further))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


def _filter_calls() -> None:
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        raise OSError(_ENOSYS, f"no filter is known for {platform.machine()}")
    code = b"".join(_filter_of(machine))
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(program))


def _filter_of(machine: _Machine) -> list[bytes]:
    """Write the filter for the kernel: other machines' calls and the refused ones fail."""

    def load(offset: int) -> bytes:
        return struct.pack("=HBBI", 0x20, 0, 0, offset)

    def jump(kind: int, value: int, when: int, otherwise: int) -> bytes:
        return struct.pack("=HBBI", kind, when, otherwise, value)

    def end(value: int) -> bytes:
        return struct.pack("=HBBI", 0x06, 0, 0, value)

    equal, at_least, all_of = 0x15, 0x35, 0x45
    steps = [
        load(4),
        jump(equal, machine.audit, 1, 0),
        end(_ERRNO | _EPERM),
        load(0),
        jump(at_least, _X32, 0, 1),
        end(_ERRNO | _EPERM),
        # Whoever starts a thread then asks by the older call, whose flags can be seen.
        jump(equal, machine.clone3, 0, 1),
        end(_ERRNO | _ENOSYS),
    ]
    for number in machine.refused:
        steps += [jump(equal, number, 0, 1), end(_ERRNO | _EPERM)]
    # Its first argument is a process; 0 is the one that asks.
    steps += [
        jump(equal, machine.prlimit, 0, 4),
        load(16),
        jump(equal, 0, 1, 0),
        end(_ERRNO | _EPERM),
        end(_ALLOW),
    ]
    steps += [
        jump(equal, machine.clone, 0, 3),
        load(16),
        jump(all_of, _CLONE_THREAD, 1, 0),
        end(_ERRNO | _EPERM),
        end(_ALLOW),
    ]
    return steps
