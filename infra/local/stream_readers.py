"""The processes that read streams on one machine: there while somebody subscribes to one."""

import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pymongo
from pymongo.errors import PyMongoError

from crawlfleet.kernel.names import CONTROL_DATABASE
from infra.local.parts import GuardedProcess

LOOK_SECONDS: Final = 1.0
#: Time that a reader gets at the end, to keep its cursors and settle what it has pushed.
_GRACE_SECONDS: Final = 10.0
_PROGRAM: Final = ("-m", "crawlfleet.apps.streams")


def wants_readers(
    client: "pymongo.MongoClient[dict[str, Any]]", database: str = CONTROL_DATABASE
) -> Callable[[], bool]:
    """Return a call that tells whether anybody subscribes to anything."""
    standing = client[database]["subscriptions"]
    return lambda: standing.find_one({"ended_at": None}, ["_id"]) is not None


class StreamReaders:
    """Readers, as long as they are wanted; one that ends is started again.

    A thread of its own starts and stops them, one after the other: nothing can end it halfway
    between a process and its pipe.
    """

    def __init__(
        self,
        variables: Mapping[str, str],
        log_path: Path,
        is_wanted: Callable[[], bool],
        *,
        count: int = 1,
        program: tuple[str, ...] = _PROGRAM,
    ) -> None:
        self._variables, self._log_path, self._is_wanted = dict(variables), log_path, is_wanted
        self._count, self._program = count, program
        self._running: list[GuardedProcess] = []
        self._ended = threading.Event()
        self._watching = threading.Thread(target=self._watch, name="stream-readers", daemon=True)

    @property
    def running(self) -> int:
        """Count the readers that are there."""
        return sum(one.is_running for one in tuple(self._running))

    def start(self) -> None:
        """Look again and again whether they are wanted."""
        self._watching.start()

    def stop(self) -> None:
        """End them: they keep their cursors and release their holds."""
        self._ended.set()
        if self._watching.ident is not None:
            self._watching.join()

    def _watch(self) -> None:
        try:
            while not self._ended.is_set():
                self._look()
                self._ended.wait(LOOK_SECONDS)
        finally:
            self._end()

    def _look(self) -> None:
        try:
            is_wanted = self._is_wanted()
        except PyMongoError:
            return  # readers that run wait for the store, too
        if not is_wanted:
            self._end()
            return
        for gone in [one for one in self._running if not one.is_running]:
            gone.stop()
            self._running.remove(gone)
        while len(self._running) < self._count:
            self._running.append(self._begin())

    def _begin(self) -> GuardedProcess:
        return GuardedProcess(
            "a reader of streams",
            [sys.executable, *self._program],
            self._log_path,
            self._variables,
            grace_seconds=_GRACE_SECONDS,
        )

    def _end(self) -> None:
        ending, self._running = self._running, []
        for one in ending:
            one.ask_to_stop()
        for one in ending:
            one.stop()
