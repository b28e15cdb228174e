"""Find errors in what is right of a wrong rule, so that one error does not hide another (A3).

What types cannot say is asked of rules that convert. Of one that does not, each field and each
``follow`` is asked by itself, without what is wrong of it and what depends on that.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeVar

import msgspec

from crawlfleet.config.documents.rule import Field, Follow, Rule, Source
from crawlfleet.config.rule_validation import MAX_DEPTH, rule_problems, shape_problems
from crawlfleet.config.validation import ReaderCheck, checked, target_problems
from crawlfleet.kernel.errors import Problem
from crawlfleet.kernel.validation import is_right, join, right_fields

#: Say where a value is looked for: of one that is wrong, nobody knows whether there is any.
_PLACES: Final = frozenset(
    {"css", "xpath", "json", "regex", "structured", "fact", "main_text", "type", "fields"}
)
#: Depend on one another: where one is wrong, none is asked.
_CHANGES: Final = frozenset({"transforms", "list", "count"})
_ALONE: Final = _PLACES | {"rule", "allow", "deny"}
P = TypeVar("P", Field, Follow)


def readers_in(document: object) -> frozenset[str]:
    """Name the rules and spiders of a biz, right or wrong."""
    if not isinstance(document, dict):
        return frozenset()
    kinds = (document.get(kind) for kind in ("rules", "spiders"))
    return frozenset(name for kind in kinds if isinstance(kind, dict) for name in kind)


def rules_problems(document: object, check: ReaderCheck) -> Iterator[Problem]:
    """Find the errors of the wrong rules of a biz; field paths start at the biz."""
    rules = document.get("rules") if isinstance(document, dict) else None
    for name, rule in rules.items() if isinstance(rules, dict) else ():
        if isinstance(rule, dict) and not is_right(rule, Rule):
            for problem in dict.fromkeys(rule_part_problems(rule, check, readers_in(document))):
                yield Problem(f"{join('rules', name)}.{problem.field}", problem.message)


def rule_part_problems(
    rule: Mapping[str, Any], check: ReaderCheck, readers: AbstractSet[str] | None = None
) -> Iterator[Problem]:
    """Find the errors of the right parts of a wrong rule; field paths start at it.

    Links may name ``readers``; None is any.
    """
    right = right_fields(msgspec.json.encode(rule), Rule)
    if "source" in rule and "source" not in right:
        return  # it decides what a selector may be
    fields, follow = rule.get("fields"), rule.get("follow")
    alone = Rule(source=right.get("source", Source.HTML), items=right.get("items"))
    judge = _Judge(check, readers)
    if isinstance(fields, dict) and ("items" in right or "items" not in rule):
        for name, given in fields.items():
            place = join("fields", name)
            if (field := judge.part(given, Field, place)) is not None:
                yield from judge.asked(msgspec.structs.replace(alone, fields={name: field}))
    for number, given in enumerate(follow if isinstance(follow, list) else ()):
        place = f"follow[{number}]"
        if (link := judge.part(given, Follow, place)) is not None:
            yield from judge.asked(Rule(source=alone.source, follow=(link,)), "follow[0]", place)
    if isinstance(fields, dict) and "key" in right:
        named = Rule(key=right["key"], fields=dict.fromkeys(fields, Field()))
        yield from (each for each in rule_problems(named) if each.field.startswith("key["))


class _Judge:
    """Finds the errors of parts of a rule, but where it is not known what is meant."""

    def __init__(self, check: ReaderCheck, readers: AbstractSet[str] | None) -> None:
        self._check, self._readers = check, readers
        self._doubtful: set[str] = set()

    def asked(self, alone: Rule, called: str = "", place: str = "") -> Iterator[Problem]:
        """Find the errors of a rule of one part, which stands at ``place``, not as ``called``."""
        found = shape_problems(alone)
        blamed = {problem.field for problem in found}
        found += [each for each in checked(alone, self._check) if each.field not in blamed]
        if self._readers is not None:
            found += target_problems(alone, self._readers)
        for problem in found:
            field = place + problem.field.removeprefix(called)
            if field not in self._doubtful:
                yield Problem(field, problem.message)

    def part(self, given: object, shape: type[P], place: str, depth: int = 1) -> P | None:
        """Return what of a field or a ``follow`` can be asked; None where that is nothing."""
        if not isinstance(given, dict) or depth > MAX_DEPTH:
            self._doubtful.add(place)
            return None
        if is_right(given, shape):
            return msgspec.convert(given, shape)
        right = right_fields(msgspec.json.encode(given), shape)
        wrong = given.keys() - right.keys()
        unknown = wrong - {each.encode_name for each in msgspec.structs.fields(shape)}
        kept = _ALONE if _CHANGES & wrong or unknown else _ALONE | _CHANGES
        parts = {name: value for name, value in right.items() if name in kept}
        if unknown or _PLACES & wrong:
            self._doubtful.add(place)
        parts.pop("fields", None)
        # Its type decides what is inside a field.
        for name in ("meta",) if "type" in wrong else ("fields", "meta"):
            if isinstance(given.get(name), dict):
                below = f"{place}.{name}"
                parts[name] = self._fields(given[name], below, depth + (name == "fields"))
        return shape(**parts)

    def _fields(self, given: Mapping[str, object], place: str, depth: int) -> dict[str, Field]:
        fields = {}
        for name, value in given.items():
            if (field := self.part(value, Field, join(place, name), depth)) is not None:
                fields[name] = field
        return fields
