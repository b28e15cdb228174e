"""Find out whether Redis has lost a crawl, and put in again what this process has of it (B9).

:mod:`crawlfleet.scrapy.journal` says how that is found out, and keeps what is put in.
"""

from collections.abc import Callable
from typing import Final

from crawlfleet.scrapy.engine import CrawlSession
from crawlfleet.scrapy.journal import Kept

_CRAWL: Final = "crawl"


class LossCheck:
    """The check of one process; ``restored`` gets how many requests were queued again."""

    def __init__(self, session: CrawlSession, restored: Callable[[int], None]) -> None:
        self._crawl, self._journal = session.crawl, session.journal
        self._restored = restored

    def is_whole(self) -> bool:
        """Find out whether Redis has lost the crawl; put in again what this process has of it.

        Raises StoreError (Redis is away).
        """
        journal = self._journal
        last = journal.beat(_CRAWL)
        answer = self._crawl.beat(journal.id, last)
        if answer == 1:
            journal.has_beaten(_CRAWL, last + 1)
            return True
        still_open = self._restore() if answer == 0 else 0
        if not still_open:
            # Another process came to the end of the crawl, and this one's part with it.
            journal.forget()
        self._crawl.beat(journal.id, last, force=True)
        journal.has_beaten(_CRAWL, last + 1)
        return not still_open

    def end_what_is_gone(self) -> None:
        """Remove from the journal what has ended elsewhere, if Redis is whole.

        Raises StoreError (Redis is away).
        """
        ended = self._crawl.gone(self._journal.some())
        if self.is_whole():
            self._journal.end(ended)

    def _restore(self) -> int:
        """Put in again what is open and not there; return how many are open."""
        journal, still_open, restored = self._journal, 0, 0
        for kept in journal.requests():
            still_open += len(kept)
            absent = set(self._crawl.gone([each.id for each in kept]))
            lost = [each for each in kept if each.id in absent]
            ids = self._crawl.push_each([each.pushed for each in lost])
            pairs = list(zip(ids, lost, strict=True))
            # Somebody has met the same page since, and queued it.
            journal.end(each.id for id_, each in pairs if not id_)
            new = [(each.id, Kept(id_, each.pushed)) for id_, each in pairs if id_]
            journal.renew([old for old, _ in new], [each for _, each in new])
            restored += len(new)
        for marks in journal.marks() if still_open else ():
            self._crawl.learn(marks)
        if restored:
            self._restored(restored)
        return still_open
