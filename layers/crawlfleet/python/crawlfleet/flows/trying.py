"""A rule tried through the API, as the function that was asked sees it (SPEC.md H8).

::

    find the biz, and the rule in it -> ask a worker (flows.trials) -> tell the rule's mistakes

Who answers the API carries no parsers, so a worker does the trying. Nothing is stored anywhere.
"""

from dataclasses import dataclass

from crawlfleet.errors import InvalidRequestError, Problem, UnknownRuleError
from crawlfleet.flows.configuration import biz_of
from crawlfleet.model.biz import Biz, Tree
from crawlfleet.model.rule import Rule
from crawlfleet.model.spider import Spider
from crawlfleet.model.trial import Question, TrialWanted, Tried
from crawlfleet.policy.mistakes import named
from crawlfleet.policy.target import problem_with
from crawlfleet.ports import Trials


@dataclass(frozen=True, slots=True, kw_only=True)
class TryingPorts:
    """What trying rules needs of the world."""

    trials: Trials


def try_rule(
    ports: TryingPorts, tree: Tree, tenant: str, biz_name: str, wanted: TrialWanted
) -> Tried:
    """What a rule yields of a page.

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
    tried = ports.trials.ask(question)
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
