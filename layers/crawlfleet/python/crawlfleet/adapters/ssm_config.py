"""The config centre on SSM Parameter Store, as the functions read it (SPEC.md A3, H8).

Every journey asks here for what is in force. Asking costs nothing: once in ``poll_seconds`` one
small parameter, the revision, is looked at, and the tree is read again only when that has changed.
Nothing runs in the background, because Lambda freezes what does. A push is in force everywhere
within one poll of the next call.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from crawlfleet.adapters.ssm_tree import SsmApi, read_revision, read_tree
from crawlfleet.adapters.ssm_writer import Written, write_tree
from crawlfleet.errors import (
    ConfigError,
    CrawlfleetError,
    NoConfigurationError,
    Problem,
    StoreUnavailableError,
)
from crawlfleet.model.biz import Tree
from crawlfleet.names import CONFIG_REVISION, config_root
from crawlfleet.policy.configuration import Reading, adopt
from crawlfleet.policy.document_checks import ReaderCheck, unchecked

log = logging.getLogger(__name__)

#: Time between two looks at the revision.
POLL_SECONDS: Final = 5.0
#: Longest time between two looks while SSM fails. Each costs a caller its time-outs.
MAX_POLL_SECONDS: Final = 30.0


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """What of a revision is not in force, and why."""

    revision: str
    problems: tuple[Problem, ...]


class SsmConfig:
    """The configuration in force (``ports.ConfigCentre``); threads may share it.

    A failing SSM or a wrong document leaves the last good version in force; see
    :attr:`refused` and :attr:`failing`.

    Args:
        client: Of ``ssm``, with short time-outs, as ``adapters.aws.client`` makes it.
        stage: Name of the stage whose tree is read.
        check_reader: The extractor's check; without one, selectors are taken as they are.
        poll_seconds: Time between two looks at the revision.
        clock: Epoch seconds. Not the monotonic clock: it may stand still in a frozen function.
        pause: Waits between two readings of a tree that is being written.
        pools: The pools beside the usual one that are deployed.
    """

    def __init__(
        self,
        client: SsmApi,
        stage: str,
        *,
        check_reader: ReaderCheck = unchecked,
        poll_seconds: float = POLL_SECONDS,
        clock: Callable[[], float] = time.time,
        pause: Callable[[float], None] = time.sleep,
        pools: Iterable[str] = (),
    ) -> None:
        self._client = client
        self._root = config_root(stage)
        self._check_reader = check_reader
        self._poll_seconds = poll_seconds
        self._clock = clock
        self._pause = pause
        self._pools = frozenset(pools)
        self._lock = threading.Lock()
        self._tree: Tree | None = None
        self._refused: Refused | None = None
        self._readings: dict[str, Reading] = {}
        self._revision: str | None = None
        self._looked_at: float | None = None
        self._failures = 0
        self._failure: CrawlfleetError | None = None

    @property
    def refused(self) -> Refused | None:
        """What of the newest revision is not in force; None when all of it is."""
        return self._refused

    @property
    def failing(self) -> str | None:
        """Why the newest look at SSM failed; None when it did not."""
        return None if self._failure is None else str(self._failure)

    def current(self) -> Tree:
        """The newest valid tree, at most about ``poll_seconds`` old; no read per call.

        One thread looks; the others meanwhile go on with what is in force.

        Raises:
            ConfigError: there has never been a valid tree; names every mistake.
            NoConfigurationError: nothing was pushed yet.
            StoreUnavailableError: there has never been one because SSM does not answer.
        """
        tree = self._tree
        if tree is not None:
            if self._is_due() and self._lock.acquire(blocking=False):
                try:
                    self._look()
                finally:
                    self._lock.release()
            return self._tree or tree
        with self._lock:
            if self._tree is None and self._is_due():
                self._look()
        if self._tree is None:
            raise self._first_failure()
        return self._tree

    def _is_due(self) -> bool:
        if self._looked_at is None:
            return True
        wait = self._poll_seconds
        if self._tree is not None and self._failures:
            wait = max(wait, min(MAX_POLL_SECONDS, wait * 2**self._failures))
        # A clock that was set back must not put off the next look.
        return not 0 <= self._clock() - self._looked_at < wait

    def _look(self) -> None:
        """One look at the revision, and at the tree if need be. Called by one thread at a time."""
        try:
            self._refresh()
        except (StoreUnavailableError, ConfigError) as error:
            if self._failure is None or type(self._failure) is not type(error):
                log.warning(
                    "configuration not read; the last good one stays in force",
                    extra={"config_root": self._root, "reason": str(error)},
                )
            self._failures += 1
            self._failure = error
        else:
            self._failures = 0
            self._failure = None
        finally:
            self._looked_at = self._clock()

    def _refresh(self) -> None:
        revision = read_revision(self._client, self._root)
        if revision is None:
            message = f"there is none; push a configuration below {self._root}"
            raise NoConfigurationError((Problem(CONFIG_REVISION, message),))
        if revision == self._revision and self._tree is not None:
            return
        stored = read_tree(self._client, self._root, self._pause)
        documents = dict(stored.documents)
        # A document that cannot be put together counts as there and wrong, not as removed.
        documents |= {problem.field: "" for problem in stored.problems}
        verdict = adopt(revision, documents, self._tree, self._readings, self._check_reader)
        unread = {problem.field: problem for problem in stored.problems}
        problems = tuple(unread.get(problem.field, problem) for problem in verdict.problems)
        self._readings = verdict.readings
        self._report(revision, problems)
        if verdict.tree is None:
            raise ConfigError(problems)
        self._tree = msgspec.structs.replace(verdict.tree, pools=self._pools)
        self._revision = revision

    def _report(self, revision: str, problems: tuple[Problem, ...]) -> None:
        refused = Refused(revision=revision, problems=problems) if problems else None
        if refused is not None and refused != self._refused:
            log.error(
                "configuration refused in part; the last good version of it stays in force",
                extra={"revision": revision, "problems": [str(problem) for problem in problems]},
            )
        self._refused = refused

    def _first_failure(self) -> CrawlfleetError:
        """A new error each time: one that is raised twice gathers two tracebacks."""
        failure = self._failure
        if isinstance(failure, ConfigError):
            return type(failure)(failure.problems)
        if isinstance(failure, StoreUnavailableError):
            return StoreUnavailableError(
                failure.part, str(failure).removeprefix(f"{failure.part}: ")
            )
        return StoreUnavailableError("ssm", "no answer yet")


__all__ = [
    "MAX_POLL_SECONDS",
    "POLL_SECONDS",
    "Refused",
    "SsmApi",
    "SsmConfig",
    "Written",
    "write_tree",
]
