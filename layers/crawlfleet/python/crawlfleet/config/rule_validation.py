"""Validate a rule before anything compiles it (SPEC.md A3; DESIGN.md 11).

Which selector may be where follows from what the page is read as. Whether a selector or a regular
expression is well formed is for the extractor to say: it compiles them.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from crawlfleet.config.documents import rule as rules
from crawlfleet.config.documents.rule import Cast, Field, Follow, Rule, Selector, Source, Step, Take
from crawlfleet.kernel.errors import Problem
from crawlfleet.kernel.validation import join, named

#: Keys that several texts become one by.
_CLOSING: Final = frozenset({"join", "pick"})
#: Nested items inside nested items, counted from the rule's own fields.
MAX_DEPTH: Final = 5
#: Fields of a rule over all levels.
MAX_FIELDS: Final = 1000
_MARKUP: Final = frozenset({Source.HTML, Source.XML})
_DEFAULTS: Final[dict[Cast, tuple[type, ...]]] = {
    Cast.STRING: (str,),
    Cast.DATE: (str,),
    Cast.INTEGER: (int,),
    Cast.NUMBER: (int, float),
    Cast.BOOLEAN: (bool,),
    Cast.JSON: (str, int, float, bool),
}


def gathers(transforms: Sequence[rules.Transform]) -> bool:
    """Return whether steps join or pick before they split: then they do so with all matches.

    >>> gathers((Step(join=" "),)), gathers((Step(split=","), Step(pick=0)))
    (True, False)
    """
    for step in transforms:
        if isinstance(step, Step):
            if step.split is not None:
                return False
            if _CLOSING.intersection(step.keys):
                return True
    return False


def step_problems(
    transforms: Sequence[rules.Transform], path: str, *, several: bool
) -> Iterator[Problem]:
    """Find what is wrong with the steps at ``path``; ``several`` where a list may come of them."""
    many = not several and gathers(transforms)
    opened = 0
    for number, step in enumerate(transforms):
        place = f"{path}[{number}]"
        if not isinstance(step, Step):
            continue
        keys = step.keys
        if len(keys) != 1:
            said = f"not {' and '.join(keys)}" if keys else "not none"
            yield Problem(place, f"says one thing: {', '.join(Step.__struct_fields__)}; {said}")
            continue
        if step.number is not None:
            yield from _number_problems(step.number, f"{place}.number")
        if keys[0] == "split":
            many, opened = True, number
        elif keys[0] in _CLOSING:
            if not many:
                yield Problem(f"{place}.{keys[0]}", "has one text only: split comes before it")
            many = False
    if many and not several:
        yield Problem(
            f"{path}[{opened}]",
            "leaves several texts: join or pick one after it, or make the field a list",
        )


def _number_problems(marks: rules.NumberMarks, path: str) -> Iterator[Problem]:
    for name, mark in (("decimal", marks.decimal), ("thousands", marks.thousands)):
        if mark.isalnum() or mark in {"+", "-"}:
            yield Problem(f"{path}.{name}", "is no mark")
    if marks.decimal == marks.thousands:
        yield Problem(f"{path}.thousands", "is the decimal mark, too")


def shape_problems(rule: Rule) -> list[Problem]:
    """Find what is wrong with the rule's composition; field paths start at it."""
    found: list[Problem] = []
    inner = rule.source
    if rule.items is not None:
        inner, kinds = _source_inside(rule.items, rule.source), _kinds(rule.items)
        found += _source_problems(rule.items, kinds, rule.source, "items")
        found += _kinds_problems(kinds, "items")
    found += _fields_problems(rule.fields, inner, "fields", 1, inside=rule.items is not None)
    if _count(rule.fields) > MAX_FIELDS:
        found.append(Problem("fields", f"are more than {MAX_FIELDS} over all levels"))
    found += rule_problems(rule)
    for number, follow in enumerate(rule.follow):
        found += _follow_problems(follow, rule.source, f"follow[{number}]")
    return found


def rule_problems(rule: Rule, prefix: str = "") -> Iterator[Problem]:
    """Find what is wrong between the parts of a rule."""
    if not rule.fields and not rule.follow:
        yield Problem(f"{prefix}fields", "has none, and there is nothing to follow")
    if rule.items is not None and not rule.fields:
        yield Problem(f"{prefix}items", "gives no records: there are no fields")
    for number, name in enumerate(rule.key):
        if name not in rule.fields:
            there = named(rule.fields, name) or "none"
            said = f"{name[:80]!r} is no field of this rule; it has {there}"
            yield Problem(f"{prefix}key[{number}]", said)


def _follow_problems(follow: Follow, source: Source, place: str) -> Iterator[Problem]:
    kinds = _kinds(follow)
    yield from _kinds_problems(kinds, place)
    yield from _source_problems(follow, kinds, source, place)
    yield from step_problems(follow.transforms, f"{place}.transforms", several=True)
    if follow.meta:
        yield from _fields_problems(follow.meta, source, f"{place}.meta", 1, inside=False)


def _kinds_problems(kinds: list[str], place: str) -> Iterator[Problem]:
    if len(kinds) != 1:
        yield Problem(place, f"needs exactly one of css, xpath, json, regex{_but(kinds)}")


def _source_inside(selector: Selector, source: Source) -> Source:
    """Return the source that a match is read as."""
    typed = isinstance(selector, Field) and selector.type is Cast.JSON
    structured = selector.structured is not None and selector.json is not None
    return Source.JSON if typed or structured else source


def _fields_problems(
    fields: dict[str, Field], source: Source, path: str, depth: int, *, inside: bool
) -> Iterator[Problem]:
    if depth > MAX_DEPTH:
        yield Problem(path, f"is nested more than {MAX_DEPTH} deep")
        return
    for name, field in fields.items():
        place = join(path, name)
        kinds = _kinds(field)
        yield from _source_problems(field, kinds, source, place)
        yield from step_problems(
            field.transforms, f"{place}.transforms", several=field.list or field.count
        )
        if field.fields:
            yield from _nested_problems(field, kinds, place)
            inner = _source_inside(field, source)
            below = f"{place}.fields"
            yield from _fields_problems(field.fields, inner, below, depth + 1, inside=True)
        else:
            yield from _value_problems(field, kinds, place, inside=inside)


def _nested_problems(field: Field, kinds: list[str], place: str) -> Iterator[Problem]:
    """A nested item: at most a selector of where it is, and nothing that makes a single value."""
    if len(kinds) > 1:
        yield Problem(place, f"a nested item takes one of css, xpath, json at most{_but(kinds)}")
    unfit = [name for name in ("fact", "default") if _is_set(field, name)]
    unfit += [
        name for name in ("count", "absolute", "main_text", "plain_space") if getattr(field, name)
    ]
    unfit += ["type"] if field.type not in {Cast.STRING, Cast.JSON} else []
    if field.type is not Cast.JSON:  # JSON in a text has things inside, wherever the text is from
        unfit += [name for name in ("regex", "attribute") if _is_set(field, name)]
        unfit += ["take"] if field.take is not Take.TEXT else []
        unfit += ["transforms"] if field.transforms else []
    for name in unfit:
        message = "does not go with fields: a nested item is no single value"
        yield Problem(join(place, name), message)


def _value_problems(
    field: Field, kinds: list[str], place: str, *, inside: bool
) -> Iterator[Problem]:
    wanted = "needs exactly one of css, xpath, json, regex, fact, main_text, or fields"
    for name in ("fact", "main_text"):
        if getattr(field, name):
            kinds = [*(kind for kind in kinds if kind != "regex"), name]
    # Inside an item a field that says nowhere to look means the item itself.
    if len(kinds) > 1 or not (kinds or inside):
        yield Problem(place, wanted + _but(kinds))
    markup = "css" in kinds or "xpath" in kinds
    if kinds and not markup:
        if field.attribute is not None:
            yield Problem(join(place, "attribute"), "goes with css or xpath only")
        if field.take is not Take.TEXT:
            yield Problem(join(place, "take"), "goes with css or xpath only")
    if field.attribute is not None and field.take is not Take.TEXT:
        yield Problem(join(place, "take"), "does not go with attribute: it is one or the other")
    if field.fact is not None and (field.list or field.count):
        yield Problem(place, "a fact is one value: neither list nor count goes with it")
    if field.count and field.transforms:
        yield Problem(join(place, "transforms"), "changes no number of matches")
    if field.count and field.list:
        yield Problem(join(place, "count"), "does not go with list: it is one or the other")
    if field.count and field.type not in (Cast.STRING, Cast.INTEGER):
        yield Problem(join(place, "type"), "a count is an integer")
    if field.absolute and field.type is not Cast.STRING:
        yield Problem(join(place, "absolute"), "goes with type string only")
    if field.default is not None:
        yield from _default_problems(field, place)


def _default_problems(field: Field, place: str) -> Iterator[Problem]:
    if field.required:
        yield Problem(join(place, "default"), "never applies to a required field")
    right = isinstance(field.default, _DEFAULTS[field.type])
    if isinstance(field.default, bool) and bool not in _DEFAULTS[field.type]:
        right = False  # in Python a bool is an int; in a record it is not
    if not right and not field.count:
        yield Problem(join(place, "default"), f"is no {field.type.value}")


def _source_problems(
    selector: Selector, kinds: list[str], source: Source, place: str
) -> Iterator[Problem]:
    own = f"this rule's source is {source.value}"
    if selector.structured is not None:
        if "json" not in kinds:
            yield Problem(join(place, "structured"), "is read by json, which is missing")
        elif source is not Source.HTML:
            yield Problem(join(place, "structured"), f"is on html pages; {own}")
        return
    if isinstance(selector, Field) and selector.main_text and source is not Source.HTML:
        yield Problem(join(place, "main_text"), f"is on html pages; {own}")
    for kind in kinds:
        if kind in ("css", "xpath") and source not in _MARKUP:
            yield Problem(join(place, kind), f"reads html and xml; {own}")
        if kind == "json" and source is not Source.JSON:
            yield Problem(join(place, kind), f"reads json; {own}")


def _kinds(selector: Selector) -> list[str]:
    """List the selectors that are set. A regex beside another one narrows it and does not count."""
    kinds = [kind for kind in ("css", "xpath", "json") if _is_set(selector, kind)]
    if not kinds and selector.regex is not None:
        return ["regex"]
    if kinds and selector.regex is not None and not isinstance(selector, Field):
        kinds.append("regex")
    return kinds


def _is_set(selector: Selector, name: str) -> bool:
    return getattr(selector, name, None) is not None


def _but(kinds: list[str]) -> str:
    return f", not {' and '.join(kinds)}" if kinds else ""


def _count(fields: dict[str, Field]) -> int:
    # No recursion: a document may nest deeper than Python's stack is willing to follow.
    waiting, count = [fields], 0
    while waiting:
        level = waiting.pop()
        count += len(level)
        waiting.extend(field.fields for field in level.values())
    return count
