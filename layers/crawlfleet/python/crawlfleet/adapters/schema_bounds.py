"""What a schema may cost, looked at before it is compiled."""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec

from crawlfleet.model.schema import RecordSchema

#: A schema's size as JSON, and how deep it is nested.
LARGEST_BYTES: Final = 64 * 1024
DEEPEST: Final = 40
#: Schemas that one comes to once its references are followed, and references in a row.
MOST_SCHEMAS: Final = 2_000
LONGEST_CHAIN: Final = 20
#: ``pattern`` and ``patternProperties``.
MOST_PATTERNS: Final = 32
LONGEST_PATTERN: Final = 500

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
#: Keywords whose value is a schema, a list of schemas, or a mapping of names to schemas.
_ONE: Final = frozenset(
    {
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_SEVERAL: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED: Final = frozenset({"dependentSchemas", "patternProperties", "properties"})
#: Looked through for mistakes, but of no cost where nothing refers to them.
_DEFINITIONS: Final = frozenset({"$defs", "definitions"})
#: These move where references lead, or resolve them while a record is checked.
_REFUSED: Final = frozenset(
    {
        "$anchor",
        "$dynamicAnchor",
        "$dynamicRef",
        "$id",
        "$recursiveAnchor",
        "$recursiveRef",
        "$vocabulary",
        "dependencies",
    }
)

Path: TypeAlias = list[str | int]
#: A place in the schema, and what is wrong there.
Broken: TypeAlias = tuple[Path, str]


def bounds_broken(schema: object) -> list[Broken]:
    """Every bound that the schema breaks, with its place; empty if it may be compiled."""
    if not isinstance(schema, dict):
        return [([], "must be a mapping")]
    if _depth_beyond(schema, DEEPEST):
        return [([], f"is nested more than {DEEPEST} levels deep")]
    try:
        size = len(msgspec.json.encode(schema))
    except (TypeError, UnicodeEncodeError, OverflowError) as error:
        return [([], f"is no JSON: {error}")]
    if size > LARGEST_BYTES:
        return [([], f"has {size:,} bytes; at most {LARGEST_BYTES:,} are allowed")]
    look = _Look(schema)
    look.at(schema, [])
    if not look.broken:
        try:
            look.cost(schema, ())
        except _TooMuchError as error:
            return [(error.path, error.message)]
    return look.broken


class _TooMuchError(Exception):
    def __init__(self, path: Path, message: str) -> None:
        self.path = path
        self.message = message


class _Look:
    """One look through a schema."""

    def __init__(self, root: RecordSchema) -> None:
        self._root = root
        self.broken: list[Broken] = []
        self._patterns = 0
        self._costs: dict[int, int] = {}

    def at(self, schema: Any, path: Path) -> None:
        """Look at a schema and at all below it."""
        if not isinstance(schema, dict):
            return  # true, false, or a mistake that compiling finds
        if path == [] and schema.get("$schema", _DRAFT) != _DRAFT:
            self.broken.append((["$schema"], f"must be {_DRAFT}"))
        if path and "$schema" in schema:
            self.broken.append(([*path, "$schema"], "may stand at the top only"))
        self.broken.extend(
            ([*path, word], "is not supported") for word in sorted(_REFUSED & schema.keys())
        )
        if "$ref" in schema and self._target(schema["$ref"]) is None:
            self.broken.append(
                ([*path, "$ref"], "must lead to a schema within this one, such as #/$defs/price")
            )
        self._count_patterns(schema, path)
        for step, below in _below(schema, definitions=True):
            self.at(below, [*path, *step])

    def _count_patterns(self, schema: dict[str, Any], path: Path) -> None:
        found = [([*path, "pattern"], schema["pattern"])] if "pattern" in schema else []
        if isinstance(named := schema.get("patternProperties"), dict):
            found += [([*path, "patternProperties", name], name) for name in named]
        for place, pattern in found:
            self._patterns += 1
            if isinstance(pattern, str) and len(pattern) > LONGEST_PATTERN:
                self.broken.append((place, f"is longer than {LONGEST_PATTERN} characters"))
            if self._patterns == MOST_PATTERNS + 1:
                self.broken.append((place, f"is one of more than {MOST_PATTERNS} patterns"))

    def cost(self, schema: Any, way: tuple[int, ...]) -> int:
        """How many schemas this one comes to; ``way`` are the targets it was reached through."""
        if not isinstance(schema, dict):
            return 1
        known = self._costs.get(id(schema))
        if known is not None:
            return known
        total = 1 + sum(self.cost(below, way) for _, below in _below(schema))
        if "$ref" in schema:
            target = self._target(schema["$ref"])
            if id(target) in way or target is self._root:
                raise _TooMuchError([], f"$ref {schema['$ref']} comes back to where it began")
            if len(way) >= LONGEST_CHAIN:
                raise _TooMuchError([], f"follows more than {LONGEST_CHAIN} references in a row")
            total += self.cost(target, (*way, id(target)))
        if total > MOST_SCHEMAS:
            raise _TooMuchError([], f"comes to more than {MOST_SCHEMAS:,} schemas")
        self._costs[id(schema)] = total
        return total

    def _target(self, reference: object) -> Any:
        """What a reference leads to within the schema, or None."""
        if reference == "#":
            return self._root
        if not isinstance(reference, str) or not reference.startswith("#/") or "%" in reference:
            return None
        found: Any = self._root
        for step in reference[2:].split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and name in found:
                found = found[name]
            elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            else:
                return None
        return found if self._is_looked_at(reference) and isinstance(found, dict | bool) else None

    def _is_looked_at(self, reference: str) -> bool:
        """Whether every step of a reference is one that :meth:`at` takes."""
        steps = reference[2:].split("/")
        while steps:
            word = steps.pop(0)
            if word in _ONE:
                continue
            if word not in _SEVERAL | _NAMED | _DEFINITIONS or not steps:
                return False
            steps.pop(0)
        return True


def _below(schema: dict[str, Any], *, definitions: bool = False) -> Iterator[tuple[Path, Any]]:
    """The schemas right below one, with the way to each."""
    for word, value in schema.items():
        if word in _ONE:
            yield [word], value
        elif word in _SEVERAL and isinstance(value, list):
            for index, one in enumerate(value):
                yield [word, index], one
        elif isinstance(value, dict) and (word in _NAMED or (definitions and word in _DEFINITIONS)):
            for name, one in value.items():
                yield [word, name], one


def _depth_beyond(value: Any, most: int) -> bool:
    """Whether it is nested deeper; without recursion, as it may be nested without end."""
    level = [value]
    for _ in range(most + 1):
        level = [
            below
            for one in level
            for below in (one.values() if isinstance(one, dict) else one)
            if isinstance(below, dict | list | tuple)
        ]
        if not level:
            return False
    return True
