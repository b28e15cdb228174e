"""Rules to records: the step of a request's work between its download and its storage.

One subject a file: ``document`` decodes and parses a page (``encoding``, ``guard``, ``tree``),
``compile`` turns a rule into a ``plan`` (``combinations`` says what cannot be), ``engines`` gives
``css``, ``xpath`` and ``jsonpath`` one shape beside ``regex``, ``values`` takes and narrows,
``casts`` and ``links`` finish, ``bounds`` says what a page may cost. Parsers are loaded by the
first rule that needs them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Lock
from typing import Final

from crawlfleet.errors import ExtractError, Problem
from crawlfleet.extract.bounds import UnreadableError
from crawlfleet.extract.compile import Compiled, compile_rule
from crawlfleet.extract.document import Document
from crawlfleet.extract.values import Facts
from crawlfleet.model.outcome import Page
from crawlfleet.model.rule import Rule

#: Compiled rules kept, the least recently used going first.
RULES_KEPT: Final = 256


def _now() -> datetime:
    return datetime.now(UTC)


class RuleExtractor:
    """Applies rules (``ports.Extractor``). ``clock`` answers the fact ``fetched_at``.

    Safe to share between threads.

    >>> from crawlfleet.model.rule import Field
    >>> page = Page(url="https://example.org/", status=200, headers={}, body=b"<h1> Hello </h1>")
    >>> RuleExtractor().extract(Rule(fields={"title": Field(css="h1")}), page)
    [{'title': 'Hello'}]
    """

    def __init__(
        self, clock: Callable[[], datetime] = _now, *, rules_kept: int = RULES_KEPT
    ) -> None:
        self._facts = Facts(clock)
        self._rules_kept = rules_kept
        self._compiled: OrderedDict[str, Compiled] = OrderedDict()
        self._last: tuple[Rule, Compiled] | None = None
        self._lock = Lock()

    def extract(self, rule: Rule, page: Page) -> list[dict[str, object]]:
        """The records' fields, one mapping per record; a rule without ``items`` gives one.

        Raises:
            ExtractError: names the field (``items[3].offers[0].price``) that could not be read, or
                ``page`` where the page as a whole was refused, or the rule's own mistake.
        """
        plan, problems = self._compile(rule)
        if plan is None:
            raise ExtractError(problems[0].field, problems[0].message)
        try:
            return plan.run(Document(page, rule.source))
        except UnreadableError as error:
            raise ExtractError(error.path or "page", error.message) from error

    def _compile(self, rule: Rule) -> Compiled:
        last = self._last
        if last is not None and last[0] is rule:
            return last[1]
        # A rule holds mappings and has no hash; its version stands for all it says.
        version = rule.version
        with self._lock:
            compiled = self._compiled.get(version)
            if compiled is not None:
                self._compiled.move_to_end(version)
        if compiled is None:
            compiled = compile_rule(rule, self._facts)
            with self._lock:
                self._compiled[version] = compiled
                while len(self._compiled) > self._rules_kept:
                    self._compiled.popitem(last=False)
        self._last = (rule, compiled)
        return compiled


def check_rule(rule: Rule, prefix: str = "") -> list[Problem]:
    r"""Every mistake of a rule; empty for one that can be put in force.

    >>> from crawlfleet.model.rule import Field
    >>> print(*check_rule(Rule(fields={"price": Field(css="p[", regex="(")})), sep="\n")
    fields.price.css: not a CSS selector that lexbor reads
    fields.price.regex: missing ): (
    """
    return list(compile_rule(rule, Facts(_now), prefix).problems)


__all__ = ["RULES_KEPT", "RuleExtractor", "check_rule"]
