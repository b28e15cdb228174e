"""Rules tried before they are in force (SPEC.md H8)."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from crawlfleet.model.harvest import Trial
from crawlfleet.model.rule import Rule
from crawlfleet.model.trial import Question, Tried
from crawlfleet.page import Page

#: What a rule makes of a page that lies so many links deep; never raises.
RuleTrial: TypeAlias = Callable[[Rule, Page, int], Trial]


class Trials(Protocol):
    """Whoever has the parsers: asked by those who have none."""

    def ask(self, question: Question) -> Tried:
        """What came of it. Nothing of it is stored.

        Raises:
            StoreUnavailableError: nobody has tried it, or the answer was lost.
        """
        ...
