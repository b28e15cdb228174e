"""Whether a spider says exactly what its executor declares (SPEC.md B8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import msgspec

from crawlfleet.errors import Problem
from crawlfleet.executors.base import Executor, Parameters, UsedRule
from crawlfleet.model.rule import Rule
from crawlfleet.model.spider import Spider
from crawlfleet.policy.mistakes import decode, named
from crawlfleet.policy.rule_shape import MAX_DEPTH, shape_problems

#: What the extractor says of a rule's selectors.
RuleCheck: TypeAlias = Callable[[Rule], list[Problem]]

_PLACE: Final = "parameters"


def unchecked_rule(rule: Rule) -> list[Problem]:  # noqa: ARG001  a RuleCheck
    """The word of those who carry no parser: nothing."""
    return []


def read_parameters(
    executor: type[Executor[Any]], spider: Spider
) -> tuple[Parameters | None, list[Problem]]:
    """The parameters as the executor's struct, or None and every mistake, each with its place."""
    try:
        written = msgspec.json.encode(spider.parameters)
    except (TypeError, ValueError, RecursionError) as error:
        return None, [Problem(_PLACE, f"cannot be written as JSON: {error}")]
    parameters, problems = decode(written, executor.Parameters)
    return parameters, [_placed(problem) for problem in problems]


def parameters_problems(
    executor: type[Executor[Any]], spider: Spider, check_rule: RuleCheck
) -> list[Problem]:
    """Every mistake of a spider of this executor; places start at the spider."""
    parameters, problems = read_parameters(executor, spider)
    if parameters is None:
        return problems
    try:
        problems = [_placed(problem) for problem in executor.problems(parameters)]
        for used in executor.used_rules(parameters):
            problems += _rule_problems(used, check_rule)
        problems += _key_problems(spider, executor.fields(parameters))
    except Exception as error:  # noqa: BLE001  one executor must not end everyone's reading
        problems.append(Problem(_PLACE, f"cannot be checked ({type(error).__name__}: {error})"))
    return list(dict.fromkeys(problems))


def _rule_problems(used: UsedRule, check_rule: RuleCheck) -> Iterator[Problem]:
    found = shape_problems(used.rule)
    if not any(f"more than {MAX_DEPTH} deep" in problem.message for problem in found):
        blamed = {problem.field for problem in found}  # one mistake is told once
        found += [each for each in check_rule(used.rule) if each.field not in blamed]
    for problem in found:
        field = problem.field
        for at, place in used.places.items():
            if field == at or field.startswith((f"{at}.", f"{at}[")):
                field = place + field[len(at) :]
                break
        yield _placed(Problem(field, problem.message))


def _key_problems(spider: Spider, fields: Any) -> Iterator[Problem]:
    if fields is None:
        return
    there = list(fields)
    for index, name in enumerate(spider.key):
        if name not in there:
            message = f"{name!r} is no field of the records; they have {named(there, name)}"
            yield Problem(f"key[{index}]", message)


def _placed(problem: Problem) -> Problem:
    dot = "" if not problem.field or problem.field.startswith("[") else "."
    return Problem(f"{_PLACE}{dot}{problem.field}", problem.message)
