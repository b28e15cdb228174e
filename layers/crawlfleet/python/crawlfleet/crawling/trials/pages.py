"""Try a rule or a spider on a page in this process: at a terminal, and in a reader of pages.

No driver of a store, and nothing of the network, is imported by whoever imports this.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any, Final

from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.config.rule_validation import shape_problems
from crawlfleet.crawling.executors.base import Owner
from crawlfleet.crawling.executors.runner import SpiderExecutors
from crawlfleet.crawling.extract.extractor import RuleExtractor, check_rule
from crawlfleet.crawling.extract.values import MISSING
from crawlfleet.crawling.records.normalise import LONGEST_REPORTED, MOST_REPORTED
from crawlfleet.crawling.trials.causes import causes
from crawlfleet.kernel import errors
from crawlfleet.kernel.page import Page
from crawlfleet.requests.models import Body, Link, Skipped, Trial

#: A spider is stopped after so many things, or so long.
MOST_READ: Final = 10_000
READ_SECONDS: Final = 5.0


def try_page(
    executors: SpiderExecutors,
    reader: Rule | Spider,
    page: Page,
    body: Body,
    owner: Owner,
) -> Trial:
    """Read a page by a rule or a spider, in this process; the records are not checked."""
    if isinstance(reader, Rule):
        return try_rule(reader, page, body.depth)
    return _by_spider(executors, reader, page, body, owner)


def _by_spider(
    executors: SpiderExecutors, spider: Spider, page: Page, body: Body, owner: Owner
) -> Trial:
    records: list[dict[str, object]] = []
    links: list[Link] = []
    left_out: list[str] = []
    left_out_count = 0
    unread = False
    started = time.perf_counter()
    try:
        for count, one in enumerate(executors.read(spider, page, body, owner=owner), 1):
            if isinstance(one, Link):
                links.append(one)
            elif isinstance(one, Skipped):
                left_out_count += 1
                if len(left_out) < MOST_REPORTED:
                    left_out.append(str(one)[:LONGEST_REPORTED].encode(errors="replace").decode())
            else:
                records.append(one)
            if count >= MOST_READ or time.perf_counter() - started > READ_SECONDS:
                unread = True
                break
    except errors.ExtractError as error:
        return Trial(problems=(error.problem,))
    return Trial(
        records=tuple(records),
        links=tuple(links),
        left_out=tuple(left_out),
        left_out_count=left_out_count,
        unread=unread,
        seconds=time.perf_counter() - started,
    )


def try_rule(
    rule: Rule, page: Page, depth: int = 0, meta: Mapping[str, Any] | None = None
) -> Trial:
    """Apply the rule to the page, or list the errors of a rule that cannot be put in force.

    >>> from crawlfleet.config.documents.rule import Field
    >>> page = Page(url="https://example.org/", status=200, headers={}, body=b"<h1>Hello</h1>")
    >>> try_rule(Rule(fields={"title": Field(css="h1")}), page).records
    ({'title': 'Hello'},)
    >>> try_rule(Rule(fields={"title": Field(css="h1", type="integer")}), page).problems
    (Problem(field='title', message="'Hello' is not an integer"),)
    """
    problems = rule_errors(rule)
    if problems:
        return Trial(problems=problems)
    extractor = RuleExtractor()
    started = time.perf_counter()
    try:
        extractor.trial(rule, page, depth, meta)
        started = time.perf_counter()  # the first reading loaded parsers; workers have them
        harvest, refused = extractor.trial(rule, page, depth, meta)
    except errors.ExtractError as error:
        seconds = time.perf_counter() - started
        empty = causes(rule, page, _missing(error), extractor)
        return Trial(problems=(error.problem,), empty=empty, seconds=seconds)
    seconds = time.perf_counter() - started
    fields = harvest.coverage.fields if harvest.records else {}
    never = [name for name, count in fields.items() if not count]
    return Trial(
        records=harvest.records,
        links=harvest.links,
        refused=refused,
        coverage=harvest.coverage,
        empty=causes(rule, page, never, extractor),
        seconds=seconds,
    )


def _missing(error: errors.ExtractError) -> list[str]:
    """Return the field of the rule that a record was to have, if that is the error."""
    if not str(error).endswith(MISSING):
        return []
    return [re.sub(r"^items\[\d+\]\.", "", error.field).partition(".")[0].partition("[")[0]]


def rule_errors(rule: Rule) -> tuple[errors.Problem, ...]:
    """List what keeps a rule from being put in force, each field once."""
    found = shape_problems(rule)
    blamed = {problem.field for problem in found}
    found += [problem for problem in check_rule(rule) if problem.field not in blamed]
    return tuple(dict.fromkeys(found))
