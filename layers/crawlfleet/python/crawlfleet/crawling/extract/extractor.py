"""Apply rules to pages: the step of a request's work between its download and its storage.

One subject a file: ``document`` decodes and parses a page (``encoding``, ``nesting``), ``compile``
turns a rule into a ``plan`` (``validation`` lists what cannot be), ``engines`` gives CSS, ``xpath``
and ``jsonpath`` one shape beside ``regex``, ``structured`` reads data for machines, ``values``
takes and narrows, ``transforms``, ``casts`` and ``links`` finish, ``follow`` finds where to go on,
``limits`` bounds what a page may cost. Parsers are loaded by the first rule that needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from crawlfleet.config.documents.rule import Rule
from crawlfleet.crawling.extract.compile import compile_rule
from crawlfleet.crawling.extract.document import Document
from crawlfleet.crawling.extract.limits import CPU_SECONDS_MAX, Kept, UnreadableError
from crawlfleet.crawling.extract.values import Facts
from crawlfleet.kernel.errors import ExtractError, Problem
from crawlfleet.kernel.page import Page
from crawlfleet.requests.models import Coverage, Harvest

_VALUES: Final = (0, False)  #: Values all the same, though they are false in Python.

_now: Final = partial(datetime.now, UTC)
RULES_KEPT: Final = 256  #: Compiled rules kept, the least recently used going first.


class RuleExtractor:
    """Applies rules. ``clock`` answers the fact ``fetched_at``.

    A page may cost ``cpu_seconds``; ``rules_kept`` rules stay compiled. Safe to share
    between threads.

    >>> from crawlfleet.config.documents.rule import Field
    >>> page = Page(url="https://example.org/", status=200, headers={}, body=b"<h1> Hello </h1>")
    >>> RuleExtractor().extract(Rule(fields={"title": Field(css="h1")}), page)
    [{'title': 'Hello'}]
    """

    def __init__(
        self,
        clock: Callable[[], datetime] = _now,
        *,
        rules_kept: int = RULES_KEPT,
        cpu_seconds: float = CPU_SECONDS_MAX,
    ) -> None:
        self._compiled = Kept(partial(compile_rule, facts=Facts(clock)), rules_kept)
        self._cpu_seconds = cpu_seconds

    def harvest(
        self, rule: Rule, page: Page, depth: int = 0, meta: Mapping[str, Any] | None = None
    ) -> Harvest:
        """Read the records' fields and the links to follow of a page ``depth`` links into a crawl.

        A rule without ``items`` gives one record. ``meta`` is the request's; where the page is one
        of a list it says which one (crawling.extract.links). Links to be read by this rule name
        none. Raises ExtractError: names the field (``items[3].offers[0].price``) that could not be
        read, or ``page`` where the page as a whole was refused, or the rule's own error.
        """
        return self.trial(rule, page, depth, meta)[0]

    def trial(
        self, rule: Rule, page: Page, depth: int = 0, meta: Mapping[str, Any] | None = None
    ) -> tuple[Harvest, dict[str, int]]:
        """Harvest, and count the page's links that are not followed, by reason."""
        plan, problems = self._compiled.of(rule)
        if plan is None:
            raise ExtractError(problems[0].field, problems[0].message)
        refused: dict[str, int] = {}
        document = Document(page, rule.source, self._cpu_seconds)
        try:
            records = plan.run(document)
            links = plan.links(document, depth, meta or {}, refused) if plan.followers else ()
        except UnreadableError as error:
            raise ExtractError(error.path or "page", error.message) from error
        coverage = Coverage(
            pages=1, records=len(records), fields=_filled(plan.group.names, records)
        )
        return Harvest(records=tuple(records), links=links, coverage=coverage), refused

    def extract(self, rule: Rule, page: Page) -> list[dict[str, object]]:
        """Read the records alone; raises as :meth:`harvest`."""
        return list(self.harvest(rule, page).records)


def _filled(names: Sequence[str], records: Sequence[Mapping[str, object]]) -> dict[str, int]:
    """Count the records in which each field has a value; null, "", [] and {} are none.

    >>> _filled(("a", "b"), ({"a": 0, "b": []}, {"a": False, "b": None}))
    {'a': 2, 'b': 0}
    """
    return {
        name: sum(bool(value := record[name]) or value in _VALUES for record in records)
        for name in names
    }


def check_rule(rule: Rule, prefix: str = "") -> list[Problem]:
    r"""List every validation error of a rule; none for one that can be put in force.

    >>> from crawlfleet.config.documents.rule import Field
    >>> print(*check_rule(Rule(fields={"price": Field(css="p[", regex="(")})), sep="\n")
    fields.price.css: not a CSS selector that lexbor reads, from character 2 on: '['
    fields.price.regex: missing ): (, from character 1 on: '('
    """
    return list(compile_rule(rule, Facts(_now), prefix).problems)
