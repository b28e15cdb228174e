"""Have rules and spiders checked by the function that carries the parsers (config.validation)."""

from dataclasses import dataclass, field
from typing import Final

from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.crawling.trials.messages import Question, Terms
from crawlfleet.crawling.trials.remote import Trials
from crawlfleet.kernel.errors import ConflictError, CrawlfleetError, InvalidRequestError, Problem
from crawlfleet.kernel.page import Page

#: Readers that one change has checked; each is an invocation. A folder of more is pushed.
MOST_CHECKS: Final = 100
_NOTHING: Final = Page(url="https://page.invalid/", status=200, headers={}, body=b"")


@dataclass(slots=True, eq=False)
class ReaderChecks:
    """A ReaderCheck that asks the function about readers which are not ``known`` to be right.

    ``failure`` is why one could not be checked: nothing may be concluded then. Without ``trials``
    there is nothing to ask: all should be known by now.
    """

    trials: Trials | None
    known: frozenset[str]
    failure: CrawlfleetError | None = field(default=None, init=False)
    _count: int = field(default=0, init=False)

    def __call__(self, reader: Rule | Spider) -> list[Problem]:
        """Return every error of a rule or a spider."""
        if self.failure is not None or reader.version in self.known:
            return []
        self._count += 1
        if self._count > MOST_CHECKS:
            said = f"has more than {MOST_CHECKS} new rules and spiders: push it as a folder"
            self.failure = InvalidRequestError.of("changes", said)
            return []
        if self.trials is None:
            said = "somebody else changed a rule or a spider meanwhile; look at it, and ask again"
            self.failure = ConflictError(said)
            return []
        question = Question(
            tenant="",
            biz="",
            terms=Terms(robots_agent=""),
            rule=reader if isinstance(reader, Rule) else None,
            spider=reader if isinstance(reader, Spider) else None,
            page=_NOTHING,
            checks=True,
        )
        try:
            answer = self.trials.ask(question)
        except CrawlfleetError as error:
            self.failure = error
            return []
        return [] if answer.tried is None else list(answer.tried.mistakes)
