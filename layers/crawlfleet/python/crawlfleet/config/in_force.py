"""The configuration in force (SPEC.md A3, H8), of an environment of a function or a command.

Every journey asks here for what is in force. Asking costs nothing: once in a few seconds the
revision is looked up, and what it stands for is read when that has changed. Nothing runs in the
background, because Lambda freezes what does. A push is in force everywhere within one poll of the
next call.

SSM lets an account read 40 times a second, which hundreds of environments that start together, or
hear of a push together, exceed. So the revision is looked up in Redis by all but one (``redis``),
and what it stands for is read in one call (``ssm``).
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.loading import Reading, adopt
from crawlfleet.config.parameters import Stored, is_older
from crawlfleet.config.ssm import (
    FIRST_PAUSE_SECONDS,
    MAX_PAUSE_SECONDS,
    SsmApi,
    SsmNotYetError,
    SsmReader,
)
from crawlfleet.config.validation import ReaderCheck, unchecked
from crawlfleet.kernel import errors
from crawlfleet.kernel.names import CONFIG_REVISION, config_root

if TYPE_CHECKING:
    from crawlfleet.config.redis import Announced, RedisRevisions

log = logging.getLogger(__name__)
#: Seconds between two looks at the revision in SSM.
POLL_SECONDS: Final = 5.0
#: Seconds between two looks at the revision in Redis.
LOOK_SECONDS: Final = 2.0
#: Seconds after which an environment asks SSM itself, whatever Redis says; half as much more or
#: less by chance.
OWN_LOOK_SECONDS: Final = 60.0
#: Whoever calls :meth:`SsmConfig.follow` calls it again within this.
FOLLOWED_SECONDS: Final = 3.0
#: Most seconds between two reads while SSM fails. Each costs a caller its time-outs.
MAX_POLL_SECONDS: Final = 30.0
#: What a caller waits at most where there is a configuration that it could go on with.
_PATIENCE_SECONDS: Final = 2.0


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """The problems of a revision that is not in force as a whole."""

    revision: str
    problems: tuple[errors.Problem, ...]


@dataclass(slots=True, eq=False)
class SsmConfig:
    """The configuration in force; threads may share it.

    A failing SSM or a wrong document leaves the last good version in force; see
    :attr:`refused` and :attr:`failing`.

    The ``client`` has short time-outs, as ``kernel.aws.clients.client`` makes it; without
    ``check_reader`` selectors are taken as they are. ``clock`` tells epoch seconds: the monotonic
    clock may stand still in a frozen function. ``pause`` waits between two tries; ``pools`` are
    those beside the usual one that are deployed. ``revisions`` opens what other environments have
    announced, ``start_seconds`` is how long a first read goes on while SSM throttles it, and
    ``jitter`` gives a number from 0 to 1.
    """

    client: SsmApi
    stage: str
    _: KW_ONLY
    check_reader: ReaderCheck = unchecked
    poll_seconds: float = POLL_SECONDS
    clock: Callable[[], float] = time.time
    pause: Callable[[float], None] = time.sleep
    pools: Collection[str] = ()
    revisions: "Callable[[], RedisRevisions] | None" = None
    start_seconds: float = 0.0
    jitter: Callable[[], float] = random.random
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _tree: Tree | None = field(default=None, init=False)
    _refused: Refused | None = field(default=None, init=False)
    _readings: dict[str, Reading] = field(default_factory=dict, init=False)
    _revision: str | None = field(default=None, init=False)
    _stored: tuple[str, Mapping[str, str]] = field(default=("", {}), init=False)
    _looked_at: float | None = field(default=None, init=False)
    _wait: float = field(default=0.0, init=False)
    _failures: int = field(default=0, init=False)
    _failure: errors.CrawlfleetError | None = field(default=None, init=False)
    # When SSM was asked by this environment itself, and until when Redis is not.
    _asked_at: float = field(default=0.0, init=False)
    _own_wait: float = field(default=0.0, init=False)
    _deaf_at: float | None = field(default=None, init=False)
    _followed_at: float = field(default=0.0, init=False)

    @property
    def refused(self) -> Refused | None:
        """Return what of the newest revision is not in force; None when all of it is."""
        return self._refused

    @property
    def failing(self) -> str | None:
        """Return why the newest read of SSM failed; None when it did not."""
        return None if self._failure is None else str(self._failure)

    def current(self) -> Tree:
        """Return the newest valid tree, at most about ``poll_seconds`` old; no read per call.

        One thread reads; the others meanwhile go on with what is in force.

        Raises:
            ConfigError: there has never been a valid tree; names every error.
            NoConfigurationError: nothing was pushed yet.
            StoreUnavailableError: there has never been one because SSM does not answer.
        """
        tree = self._tree
        if tree is not None:
            if self._is_over(self._followed_at, FOLLOWED_SECONDS):
                self._look()
            return self._tree or tree
        with self._lock:
            if self._tree is None and self._is_due():
                self._poll()
        if self._tree is None:
            raise self._first_failure()
        return self._tree

    def stored(self) -> tuple[str, Mapping[str, str]]:
        """Return the newest revision that was read whole, and its documents as they were pushed.

        Raises:
            ConfigError: as :meth:`current` does.
            StoreUnavailableError: as :meth:`current` does.
        """
        self.current()
        return self._stored

    def follow(self) -> None:
        """Look what is new, so that whoever calls :meth:`current` meanwhile waits for nobody.

        An event loop asks for the configuration at every page, and must not stand still while SSM
        is slow: a thread of its process calls this each second.
        """
        self._followed_at = self.clock()
        self._look()
        self._followed_at = self.clock()

    def unfollow(self) -> None:
        """Have callers of :meth:`current` look again themselves: nobody follows any more."""
        self._followed_at = float("-inf")

    def _look(self) -> None:
        if self._is_due() and self._lock.acquire(blocking=False):
            try:
                self._poll()
            finally:
                self._lock.release()

    def _is_due(self) -> bool:
        return self._looked_at is None or self._is_over(self._looked_at, self._wait)

    def _is_over(self, since: float, wait: float) -> bool:
        # A clock that was set back must not put off the next read.
        return not 0 <= self.clock() - since < wait

    def _poll(self) -> None:
        """Look up the revision, and read what is new. Called by one thread at a time."""
        try:
            self._refresh()
        except (errors.StoreUnavailableError, errors.ConfigError) as error:
            if self._failure is None or type(self._failure) is not type(error):
                log.warning(
                    "configuration not read; the last good one stays in force",
                    extra={"config_root": config_root(self.stage), "reason": str(error)},
                )
            self._failures, self._failure = self._failures + 1, error
        else:
            self._failures, self._failure = 0, None
        finally:
            self._looked_at, self._wait = self.clock(), self._next_wait()

    def _next_wait(self) -> float:
        if self._tree is None:
            return self.poll_seconds
        doubled = 2.0 ** min(self._failures, 10)
        if isinstance(self._failure, SsmNotYetError):
            return self.jitter() * min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * doubled)
        if self._failures:
            return max(self.poll_seconds, min(MAX_POLL_SECONDS, self.poll_seconds * doubled))
        return min(LOOK_SECONDS, self.poll_seconds) if self._hears else self.poll_seconds

    @property
    def _hears(self) -> bool:
        """Tell whether announcements are looked at now."""
        if self.revisions is None or self.poll_seconds < LOOK_SECONDS:
            return False  # whoever looks more often than others announce asks SSM itself
        return self._deaf_at is None or self._is_over(self._deaf_at, MAX_POLL_SECONDS)

    def _refresh(self) -> None:
        reader = self._reader(self.start_seconds if self._tree is None else 0.0)
        if self._tree is not None and self._newest(reader) == self._revision:
            return
        revision, documents = reader.snapshot()
        if revision is None:
            message = f"there is none; push a configuration below {config_root(self.stage)}"
            raise errors.NoConfigurationError((errors.Problem(CONFIG_REVISION, message),))
        self._have_asked()
        if revision == self._revision and self._tree is not None:
            raise SsmNotYetError("ssm", "has no such revision as was announced")
        if documents is not None:
            stored = Stored(documents=documents)
        else:
            reader.patience = max(reader.patience, _PATIENCE_SECONDS)
            stored = reader.tree()
        self._adopt(revision, stored)

    def _newest(self, reader: SsmReader) -> str | None:
        """Return the newest revision, as it was announced or as SSM has it."""
        announced = self._announced()
        is_believed = announced is not None and announced.revision and not announced.is_turn
        if announced is not None and is_believed and not self._is_own_due():
            is_old = is_older(announced.revision, self._revision or "")
            return self._revision if is_old else announced.revision
        revision = reader.revision()
        self._have_asked()
        if revision is not None and announced is not None and announced.revision != revision:
            self._announced(revision)
        return revision

    def _is_own_due(self) -> bool:
        return self._is_over(self._asked_at, self._own_wait)

    def _have_asked(self) -> None:
        self._asked_at, self._own_wait = self.clock(), OWN_LOOK_SECONDS * (0.5 + self.jitter())

    def _announced(self, announcement: str = "") -> "Announced | None":
        """Look at what is announced; None where Redis cannot be asked, or is not to be believed."""
        if self.revisions is None or not self._hears:
            return None
        try:
            return self.revisions().look(announcement)
        except (errors.StoreUnavailableError, errors.ConfigError):
            self._deaf_at = self.clock()
            return None

    def _reader(self, patience: float) -> SsmReader:
        root = config_root(self.stage)
        return SsmReader(self.client, root, patience=patience, pause=self.pause, jitter=self.jitter)

    def _adopt(self, revision: str, stored: Stored) -> None:
        documents = dict(stored.documents)
        # A document that cannot be put together counts as there and wrong, not as removed.
        documents |= {problem.field: "" for problem in stored.problems}
        verdict = adopt(revision, documents, self._tree, self._readings, self.check_reader)
        unread = {problem.field: problem for problem in stored.problems}
        problems = tuple(unread.get(problem.field, problem) for problem in verdict.problems)
        self._readings = verdict.readings
        self._report(revision, problems)
        if verdict.tree is None:
            raise errors.ConfigError(problems)
        self._tree = msgspec.structs.replace(verdict.tree, pools=frozenset(self.pools))
        self._revision = revision
        if not stored.problems:
            self._stored = revision, stored.documents

    def _report(self, revision: str, problems: tuple[errors.Problem, ...]) -> None:
        refused = Refused(revision=revision, problems=problems) if problems else None
        if refused is not None and refused != self._refused:
            log.error(
                "configuration refused in part; the last good version of it stays in force",
                extra={"revision": revision, "problems": [str(problem) for problem in problems]},
            )
        self._refused = refused

    def _first_failure(self) -> errors.CrawlfleetError:
        """A new error each time: one that is raised twice gathers two tracebacks."""
        failure = self._failure
        if isinstance(failure, errors.ConfigError):
            return type(failure)(failure.problems)
        if isinstance(failure, errors.StoreUnavailableError):
            return errors.StoreUnavailableError(
                failure.part, str(failure).removeprefix(f"{failure.part}: ")
            )
        return errors.StoreUnavailableError("ssm", "no answer yet")
