"""A rule tried on a page: what it yields, as values (SPEC.md H8).

For whoever writes rules, at a terminal or through the API: nothing is stored and nothing raised.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from crawlfleet.config.documents.rule import Rule
from crawlfleet.config.rule_validation import shape_problems
from crawlfleet.crawling.extract.extractor import RuleExtractor, check_rule
from crawlfleet.kernel.errors import ExtractError, Problem
from crawlfleet.kernel.page import Page
from crawlfleet.requests.models import Trial


def try_rule(
    rule: Rule, page: Page, depth: int = 0, meta: Mapping[str, Any] | None = None
) -> Trial:
    """What the rule makes of the page; every mistake of a rule that cannot be put in force.

    >>> from crawlfleet.config.documents.rule import Field
    >>> page = Page(url="https://example.org/", status=200, headers={}, body=b"<h1>Hello</h1>")
    >>> try_rule(Rule(fields={"title": Field(css="h1")}), page).records
    ({'title': 'Hello'},)
    >>> try_rule(Rule(fields={"title": Field(css="h1", type="integer")}), page).problems
    (Problem(field='title', message="'Hello' is not an integer"),)
    """
    problems = rule_mistakes(rule)
    if problems:
        return Trial(problems=problems)
    extractor = RuleExtractor()
    started = time.perf_counter()
    try:
        extractor.trial(rule, page, depth, meta)
        started = time.perf_counter()  # the first reading loaded parsers; workers have them
        harvest, refused = extractor.trial(rule, page, depth, meta)
    except ExtractError as error:
        message = str(error).removeprefix(f"{error.field}: ")
        seconds = time.perf_counter() - started
        return Trial(problems=(Problem(error.field, message),), seconds=seconds)
    return Trial(
        records=harvest.records,
        links=harvest.links,
        refused=refused,
        coverage=harvest.coverage,
        seconds=time.perf_counter() - started,
    )


def rule_mistakes(rule: Rule) -> tuple[Problem, ...]:
    """What keeps a rule from being put in force, each field told once."""
    found = shape_problems(rule)
    blamed = {problem.field for problem in found}
    found += [problem for problem in check_rule(rule) if problem.field not in blamed]
    return tuple(dict.fromkeys(found))
