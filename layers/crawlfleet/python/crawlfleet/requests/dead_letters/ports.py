"""The store of dead letters, as their verbs ask for it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.queue_key import Lane
from crawlfleet.requests.dead_letters.models import LetterFilter, LetterPage
from crawlfleet.requests.models import Entry


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
