"""What is known of the work afterwards: ledger, journal, dead letters, repeats."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from crawlfleet.model.biz import Biz
from crawlfleet.model.ids import RequestId
from crawlfleet.model.journal import JournalLine
from crawlfleet.model.keyed import Keyed, KeyName
from crawlfleet.model.lane import Lane
from crawlfleet.model.ledger import Correction, Ledger
from crawlfleet.model.letter import LetterFilter, LetterPage
from crawlfleet.model.request import Entry


class Ledgers(Protocol):
    """The ledgers of bizs and jobs."""

    def totals(self, lane: Lane, biz: Biz, now: datetime, job: str | None = None) -> Ledger:
        """O(1): counters, and an index count of what is in flight. Given up after some seconds.

        ``pending`` is what remains, so that the difference is always 0.
        """
        ...

    def audit(
        self,
        lane: Lane,
        biz: Biz,
        now: datetime,
        job: str | None = None,
        *,
        within_seconds: float | None = None,
    ) -> Ledger:
        """Every term counted by itself, of each node at one moment.

        That reads all that is open, so whoever has not the time for it says how long it may take.
        """
        ...

    def reconcile(self, lane: Lane, biz: Biz, now: datetime) -> list[Correction]:
        """Book what MongoDB may have removed uncounted while no recovery ran; then note this one.

        To be called after :meth:`RequestStore.expire`. Nothing is booked unless the time since the
        last call is longer than the grace that expired requests have.
        """
        ...


class Journal(Protocol):
    """What happened to a lane as a whole, for people who ask why."""

    def note(self, lane: Lane, line: JournalLine) -> None:
        """Keep a line, for a month."""
        ...

    def lines(self, lane: Lane, since: datetime, until: datetime, limit: int) -> list[JournalLine]:
        """The lines of a span that includes ``since`` and not ``until``, oldest first."""
        ...


class DeadLetters(Protocol):
    """Requests that were given up on."""

    def find(
        self,
        lane: Lane,
        biz: Biz,
        letters: LetterFilter,
        *,
        after: tuple[int, str] | None,
        limit: int,
        now: datetime,
    ) -> LetterPage:
        """Up to ``limit`` dead letters by time of queueing, oldest first, each with its answer.

        One look goes through a bounded number of them. Where it ends before all were looked at, or
        there are more than asked for, the page says from where to go on.
        """
        ...

    def replay(
        self,
        lane: Lane,
        biz: Biz,
        ids: Sequence[RequestId],
        rule_version: Mapping[str, str],
        by: str,
        now: datetime,
    ) -> list[Entry]:
        """Make dead letters pending, as if never tried; returns those that were dead.

        Two callers at once never both get one; in the ledger it is dead no more.
        ``rule_version`` has, by rule's name, the version they are to be read with; a rule that is
        not in it keeps the version it had.
        """
        ...

    def purge(self, lane: Lane, biz: Biz, ids: Sequence[RequestId], by: str, now: datetime) -> int:
        """Remove dead letters; in the ledger they stay dead. Returns how many were removed."""
        ...


class SubmissionKeys(Protocol):
    """What makes a repeated submission one (SPEC.md D13)."""

    def find(self, lane: Lane, names: Sequence[KeyName]) -> dict[KeyName, Keyed]:
        """Those that are kept."""
        ...

    def open(self, lane: Lane, keyed: Sequence[Keyed], until: datetime) -> list[Keyed]:
        """Keep each under its key, until then at least; returns what stands, in the same order.

        A key that is kept already answers with what it was first given.
        """
        ...

    def close(self, lane: Lane, keyed: Sequence[Keyed]) -> None:
        """All requests of these are stored. No effect on what has taken the place of one."""
        ...

    def forget(self, lane: Lane, keyed: Sequence[Keyed]) -> None:
        """Keep these no longer; no effect on one that is closed, or has been replaced."""
        ...
