"""The run's processes: started together, ended with the run, each with one answer in JSON."""

import ctypes
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from benchmarks.bench import BenchError, answer_in, environment
from benchmarks.volume.plan import Task

ENV_TASK: Final = "VOLUME_TASK"
_PR_SET_PDEATHSIG: Final = 1
_END_SECONDS: Final = 20.0


def begin() -> Task:
    """Read this process's task; from here on it ends with the run, however the run ends."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return msgspec.json.decode(os.environ[ENV_TASK], type=Task)


class Children:
    """Processes of one kind, as a context: whoever leaves it early ends them."""

    def __init__(self, module: str, count: int, task: Task, folder: Path) -> None:
        self._module = module
        self._count = count
        self._variables = environment({ENV_TASK: msgspec.json.encode(task).decode()})
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        name = self._module.rpartition(".")[2]
        with ExitStack() as stack:
            for number in range(self._count):
                # Files, not pipes: nobody reads while they work, and a full pipe would stop them.
                out = stack.enter_context(self._file(f"{name}-{number}.out").open("wb"))
                err = stack.enter_context(self._file(f"{name}-{number}.err").open("wb"))
                process = subprocess.Popen(
                    [sys.executable, "-m", self._module, str(number)],
                    env=self._variables,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                )
                self._processes.append(process)
                self._stack.callback(self._end, process)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _file(self, name: str) -> Path:
        return self._folder / name

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @property
    def running(self) -> bool:
        """Check whether one of them still works.

        Raises:
            BenchError: one has failed; quotes what it said.
        """
        for number, process in enumerate(self._processes):
            if process.poll():
                self._answer(number)  # raises, with what it said
                raise BenchError(f"{self._module} {number} ended with {process.returncode}")
        return any(process.poll() is None for process in self._processes)

    def answers(self) -> list[dict[str, Any]]:
        """Get the answer of each, once they have ended."""
        return [self._answer(number) for number in range(len(self._processes))]

    def _answer(self, number: int) -> dict[str, Any]:
        name = self._module.rpartition(".")[2]
        out, err = (
            self._file(f"{name}-{number}.{kind}").read_text(errors="replace")
            for kind in ("out", "err")
        )
        return answer_in(out, err, f"{name} {number}")
