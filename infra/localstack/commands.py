"""Commands that take their time: run with a limit, their output kept, ended with us."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from infra.steps import LOOK_SECONDS, StepError

_TAIL_CHARACTERS: Final = 3_000
_GRACE_SECONDS: Final = 10.0


class Command:
    """A running command and what it and its children write.

    Args:
        name: What it is called in an error.
        command: Program and arguments.
        log: File of its output.
        environment: Whole; nothing is added.
        folder: Where it runs.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str],
        folder: Path,
    ) -> None:
        self.name = name
        self._log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(  # noqa: S603  our own scripts and CDK
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                cwd=folder,
                start_new_session=True,
            )

    def wait(self, seconds: float, do: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Wait for its end; ``meanwhile`` is called about twice a second.

        Raises:
            StepError: it failed, or the time is up; quotes the end of its output.
        """
        deadline = time.monotonic() + seconds
        try:
            while (status := self._process.poll()) is None:
                if time.monotonic() > deadline:
                    raise StepError(f"{self.name} took more than {seconds:.0f} s{self.tail()}", do)
                meanwhile()
                time.sleep(LOOK_SECONDS / 5)
        finally:
            self.end()
        if status:
            raise StepError(f"{self.name} ended with {status}{self.tail()}", do)

    def last_line(self) -> str:
        """The latest that it has written."""
        lines = self._read(500).split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def tail(self) -> str:
        """The end of its output, to be put behind a sentence."""
        return f"; {self._log} ends with:\n{self._read(_TAIL_CHARACTERS)}"

    def end(self) -> None:
        """End it with all that it has started; harmless when it has ended."""
        for kind in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is not None:
                return
            os.killpg(self._process.pid, kind)
            try:
                self._process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                continue

    def _read(self, characters: int) -> str:
        with self._log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - characters))
            return file.read().decode(errors="replace")


def run(
    name: str,
    command: Sequence[str],
    log: Path,
    environment: Mapping[str, str],
    folder: Path,
    *,
    seconds: float,
    do: str,
) -> None:
    """Run a command to its end.

    Raises:
        StepError: it failed, or took too long.
    """
    Command(name, command, log, environment, folder).wait(seconds, do)
