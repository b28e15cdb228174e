"""Whether the links of a rule lead to something that reads them. Every function can ask this."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from crawlfleet.errors import Problem
from crawlfleet.model.rule import Rule
from crawlfleet.policy.mistakes import named


def target_problems(rule: Rule, readers: AbstractSet[str]) -> Iterator[Problem]:
    """Links that are to be read by what is none of the biz's ``readers``."""
    for number, follow in enumerate(rule.follow):
        if follow.rule is not None and follow.rule not in readers:
            there = named(sorted(readers), follow.rule)
            said = f"{follow.rule!r} is no rule or spider of this biz; it has {there}"
            yield Problem(f"follow[{number}].rule", said)
