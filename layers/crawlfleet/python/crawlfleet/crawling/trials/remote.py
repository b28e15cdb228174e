"""Try a rule through the API, before it is in force (SPEC.md H8).

::

    find the biz, and the rule in it -> ask a worker (crawling.trials.service) -> list its errors

The function that answers the API carries no parsers, so a worker does the trying. Nothing is
stored anywhere. What is asked and what is answered travel between functions as JSON.
"""

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

import msgspec

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.config.lookup import biz_of
from crawlfleet.kernel.errors import InvalidRequestError, Problem, UnknownRuleError
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.urls import problem_with
from crawlfleet.kernel.validation import named
from crawlfleet.requests.models import Coverage, Link, Trial

#: The largest page that may be sent along, in bytes.
LARGEST_PAGE: Final = 1_000_000


class TrialWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A trial as a client asks for it: a rule or spider of a biz by name, or a rule as it is.

    On a page that is given, or on one that is fetched from ``url``; ``depth`` counts links from
    where the crawl would have begun.
    """

    rule: str | Rule
    page: Page | None = None
    url: str | None = None
    depth: int = 0


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trial as a worker gets it: a rule or a spider, and a page or where to fetch it.

    ``name`` is the reader's in its biz; a rule that was sent along has none, and is checked first.
    """

    tenant: str
    biz: str
    name: str = ""
    rule: Rule | None = None
    spider: Spider | None = None
    page: Page | None = None
    url: str | None = None
    depth: int = 0


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A page that was fetched: where redirects ended, and what came from there."""

    url: str
    status: int
    content_type: str = ""
    bytes: int = 0
    seconds: float = 0.0
    redirects: tuple[str, ...] = ()


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A page that could not be fetched; ``reason`` is a dead letter's, such as ``PageGone``.

    ``status`` is the site's, 0 where it was not asked or gave no answer. ``retry_after_seconds`` is
    when it makes sense to ask again, if anybody knows.
    """

    reason: str
    message: str
    status: int = 0
    retryable: bool = False
    retry_after_seconds: float | None = None


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a trial.

    ``mistakes`` are the rule's errors: with any, nothing was read. With a ``failure`` there was no
    page. ``problems`` are what of the page could not be read: then there are no records, as with a
    worker. ``records`` and ``links`` are the first ones of ``record_count`` and ``link_count``;
    ``refused`` counts links that are not followed, by reason. ``rejected`` says of the first of
    ``rejected_count`` records why they would not be stored, ``left_out`` of the first of
    ``left_out_count`` things of the page why a spider could not read them. ``unread`` says that a
    spider was stopped before the end of the page.
    """

    version: str = ""
    mistakes: tuple[Problem, ...] = ()
    seen: Seen | None = None
    failure: Failure | None = None
    problems: tuple[Problem, ...] = ()
    records: tuple[dict[str, object], ...] = ()
    record_count: int = 0
    links: tuple[Link, ...] = ()
    link_count: int = 0
    refused: dict[str, int] = {}
    coverage: Coverage = Coverage()
    rejected: tuple[str, ...] = ()
    rejected_count: int = 0
    left_out: tuple[str, ...] = ()
    left_out_count: int = 0
    unread: bool = False
    seconds: float = 0.0


#: Applies a rule to a page that lies so many links deep; never raises.
RuleTrial: TypeAlias = Callable[[Rule, Page, int], Trial]


class Trials(Protocol):
    """A worker, which has the parsers, as those ask it who have none."""

    def ask(self, question: Question) -> Tried:
        """Try a rule; nothing of it is stored.

        Raises:
            StoreUnavailableError: nobody has tried it, or the answer was lost.
        """
        ...


def try_rule(trials: Trials, tree: Tree, tenant: str, biz_name: str, wanted: TrialWanted) -> Tried:
    """Ask a worker what a rule yields of a page.

    Raises:
        UnknownBizError: the tenant has no such biz.
        UnknownRuleError: the biz has no such rule or spider.
        InvalidRequestError: names what is wrong with the rule, or with a URL.
        StoreUnavailableError: no worker could be asked.
    """
    _, biz = biz_of(tree, tenant, biz_name)
    name, reader = _reader(biz, wanted.rule)
    problems = _url_problems(wanted)
    if problems:
        raise InvalidRequestError(problems)
    question = Question(
        tenant=tenant,
        biz=biz_name,
        name=name,
        rule=reader if isinstance(reader, Rule) else None,
        spider=reader if isinstance(reader, Spider) else None,
        page=wanted.page,
        url=wanted.url,
        depth=wanted.depth,
    )
    tried = trials.ask(question)
    if tried.mistakes:
        raise InvalidRequestError(
            Problem(f"rule.{one.field}".rstrip("."), one.message) for one in tried.mistakes
        )
    return tried


def _reader(biz: Biz, rule: str | Rule) -> tuple[str, Rule | Spider]:
    if isinstance(rule, Rule):
        return "", rule
    reader = biz.reader(rule)
    if reader is None:
        there = named(biz.readers, rule)
        message = f"there is no rule or spider called {rule[:64]!r} in this biz; it has {there}"
        raise UnknownRuleError(message)
    return rule, reader


def _url_problems(wanted: TrialWanted) -> list[Problem]:
    given = {"url": wanted.url, "page.url": None if wanted.page is None else wanted.page.url}
    return [
        Problem(field, why)
        for field, url in given.items()
        if url is not None and (why := problem_with(url)) is not None
    ]
