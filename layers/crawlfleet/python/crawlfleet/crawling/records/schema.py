"""Check records against their JSON Schema, draft 2020-12, before they are stored (SPEC.md B9).

Rust does the work (jsonschema-rs): with a schema of 12 keywords and a record of 22 values a check
takes about 1 microsecond, where fastjsonschema, which writes Python, takes 8 and jsonschema 180.

A schema comes from a tenant, and the tenant is taken for the attacker:

* nothing is fetched: a ``$ref`` is a JSON pointer into the schema itself;
* references must not come back to where they began, and what a schema comes to once they are
  followed is bounded, so that a check costs a bounded amount for each value of a record;
* ``pattern`` is matched in linear time, and what a compiled one takes is bounded;
* size, depth and number of patterns are bounded, and so are the messages about a record.

``format`` is checked where it is a known one; the draft leaves that open. The library, 10 MB of
machine code, is loaded by the first schema: many crawls have none.
"""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from crawlfleet.config.documents.rule import RecordSchema
from crawlfleet.crawling.records.normalise import path_of
from crawlfleet.kernel.errors import Problem
from crawlfleet.kernel.validation import named

if TYPE_CHECKING:
    import jsonschema_rs

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
    ("additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
     "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties")
)  # fmt: skip
_SEVERAL: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED: Final = frozenset({"dependentSchemas", "patternProperties", "properties"})
#: Searched for errors, but of no cost where nothing refers to them.
_DEFINITIONS: Final = frozenset({"$defs", "definitions"})
#: These move where references lead, or resolve them while a record is checked.
_REFUSED: Final = frozenset(
    ("$anchor", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor", "$recursiveRef",
     "$vocabulary", "dependencies")
)  # fmt: skip

Path: TypeAlias = list[str | int]
Broken: TypeAlias = tuple[Path, str]  #: A place in the schema, and what is wrong there.


def bounds_broken(schema: object) -> list[Broken]:
    """List every bound that the schema breaks, with its place; none if it may be compiled."""
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
    bounds = _Bounds(schema)
    bounds.at(schema, [])
    if not bounds.broken:
        try:
            bounds.cost(schema, ())
        except _TooMuchError as error:
            return [([], str(error))]
    return bounds.broken


class _TooMuchError(Exception):
    """The schema comes to too much once its references are followed; says how."""


class _Bounds:
    """Adds up what a schema may cost, before it is compiled."""

    def __init__(self, root: RecordSchema) -> None:
        self._root = root
        self.broken: list[Broken] = []
        self._patterns = 0
        self._costs: dict[int, int] = {}

    def at(self, schema: Any, path: Path) -> None:
        """Check a schema and all below it."""
        if not isinstance(schema, dict):
            return  # true, false, or an error that compiling finds
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
        """Count the schemas that this one comes to, reached through the targets in ``way``."""
        if not isinstance(schema, dict):
            return 1
        known = self._costs.get(id(schema))
        if known is not None:
            return known
        total = 1 + sum(self.cost(below, way) for _, below in _below(schema))
        if "$ref" in schema:
            target = self._target(schema["$ref"])
            if id(target) in way or target is self._root:
                raise _TooMuchError(f"$ref {schema['$ref']} comes back to where it began")
            if len(way) >= LONGEST_CHAIN:
                raise _TooMuchError(f"follows more than {LONGEST_CHAIN} references in a row")
            total += self.cost(target, (*way, id(target)))
        if total > MOST_SCHEMAS:
            raise _TooMuchError(f"comes to more than {MOST_SCHEMAS:,} schemas")
        self._costs[id(schema)] = total
        return total

    def _target(self, reference: object) -> Any:
        """Return what a reference leads to within the schema, or None."""
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
        return found if self._is_visited(reference) and isinstance(found, dict | bool) else None

    def _is_visited(self, reference: str) -> bool:
        """Tell whether every step of a reference is one that :meth:`at` takes."""
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
    """Give the schemas right below one, with the path to each."""
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
    """Tell whether it is nested deeper; without recursion, as it may be nested without end."""
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


#: Messages about one record, or one schema, and characters of each.
MOST_PROBLEMS: Final = 10
LONGEST_MESSAGE: Final = 200
#: All errors of a record are listed where it has this many bytes as JSON at most; of a larger one
#: the first only, as a million of them would take seconds to list.
THOROUGH_BYTES: Final = 50_000
KEPT_SCHEMAS: Final = 64  #: Compiled schemas kept.
#: What one compiled pattern may take; ``[^/]{1,200}`` takes about half of it.
PATTERN_BYTES: Final = 512 * 1024

_IT: Final = "it"  #: Messages say this instead of the value, which may be as large as a page.
#: Types that a schema may ask for; characters of another one that a message quotes.
_TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")
_QUOTED: Final = 60
#: Keywords with schemas by names that a tenant chooses.
_NAMING: Final = _NAMED | _DEFINITIONS
_encode: Final = msgspec.json.Encoder().encode

#: A compiled schema, or why there is none.
_Compiled: TypeAlias = "jsonschema_rs.Draft202012Validator | str"


class SchemaValidator:
    """Checks records and schemas; threads may share it."""

    def __init__(self) -> None:
        # By identity: a schema that is in use is the same object, and looking it up by its content
        # would take longer than the check. The schema is kept beside, so that its id stays its own.
        self._kept: OrderedDict[int, tuple[RecordSchema, _Compiled]] = OrderedDict()
        self._lock = Lock()

    def check_schema(self, schema: RecordSchema, field: str = "") -> list[Problem]:
        """List every error of a schema, each with its place below ``field``."""
        broken = bounds_broken(schema)
        if not broken:
            import jsonschema_rs

            try:
                _compile(schema)
            except jsonschema_rs.ValidationError as error:
                path = list(error.instance_path)
                broken = [(path, _no_type(path, schema) or _message(error))]
            except (ValueError, TypeError, OverflowError) as error:
                broken = [([], _first_line(str(error)))]
        return [
            Problem(_joined(field, path_of(path)), message[:LONGEST_MESSAGE])
            for path, message in broken[:MOST_PROBLEMS]
        ]

    def problems(self, schema: RecordSchema, fields: dict[str, object]) -> list[Problem]:
        """List what is wrong with a record, each with its field."""
        compiled = self._compiled(schema)
        if isinstance(compiled, str):
            return [Problem("schema", compiled)]
        try:
            if compiled.is_valid(fields):
                return []
            return list(islice(_errors(compiled, fields), MOST_PROBLEMS))
        except (ValueError, TypeError, OverflowError) as error:
            # It is not normalised: a text that is no Unicode, a value that JSON has not.
            return [Problem("", f"cannot be checked: {_first_line(str(error))}")]

    def _compiled(self, schema: RecordSchema) -> _Compiled:
        with self._lock:
            found = self._kept.get(id(schema))
            if found is not None:
                self._kept.move_to_end(id(schema))
                return found[1]
        problems = self.check_schema(schema)
        compiled: _Compiled = (
            f"cannot be used: {problems[0]}"[:LONGEST_MESSAGE] if problems else _compile(schema)
        )
        with self._lock:
            self._kept[id(schema)] = (schema, compiled)
            if len(self._kept) > KEPT_SCHEMAS:
                self._kept.popitem(last=False)
        return compiled


def _compile(schema: RecordSchema) -> "jsonschema_rs.Draft202012Validator":
    import jsonschema_rs

    patterns = jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES, dfa_size_limit=PATTERN_BYTES)
    return jsonschema_rs.Draft202012Validator(
        schema, pattern_options=patterns, validate_formats=True, mask=_IT, offline=True
    )


def _errors(
    compiled: "jsonschema_rs.Draft202012Validator", fields: dict[str, object]
) -> Iterator[Problem]:
    import jsonschema_rs

    if len(_encode(fields)) <= THOROUGH_BYTES:
        for error in compiled.iter_errors(fields):
            yield _problem(error)
        return
    try:
        compiled.validate(fields)
    except jsonschema_rs.ValidationError as error:
        yield _problem(error)


def _problem(error: "jsonschema_rs.ValidationError") -> Problem:
    import jsonschema_rs

    path = list(error.instance_path)
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Required):
        # The field that is missing, not the one that it is missing in.
        return Problem(path_of([*path, error.kind.property]), "is missing")
    return Problem(path_of(path), _message(error)[:LONGEST_MESSAGE])


def _message(error: "jsonschema_rs.ValidationError") -> str:
    """Say what is wrong, in our words where the library speaks of its keywords."""
    import jsonschema_rs

    kinds = jsonschema_rs.ValidationErrorKind
    if isinstance(error.kind, kinds.AnyOf | kinds.OneOfNotValid):
        # The first message of each alternative, as far as there is room.
        firsts = (each[0] for each in islice(error.kind.context, MOST_PROBLEMS) if each)
        reported = dict.fromkeys(_bare(first.message) for first in firsts)
        return f"fits none of its alternatives: {'; '.join(reported)}"
    if isinstance(error.kind, kinds.OneOfMultipleValid):
        return "fits more than one of its alternatives, of which it is to fit one"
    return _bare(error.message)


def _no_type(path: list[str | int], schema: RecordSchema) -> str | None:
    """Name a ``type`` that is none of JSON Schema's; its own schema says it less well."""
    of_type = path[:-1] if path and isinstance(path[-1], int) else path
    if of_type[-1:] != ["type"] or _NAMING.intersection(map(str, of_type[-2:-1])):
        return None  # a property may be called so
    found: Any = schema
    for step in path:
        found = found[step]
    given = found if isinstance(found, list) else [found]
    wrong = next((str(each) for each in given if each not in _TYPES), None)
    if wrong is None:
        return None
    return f"{wrong[:_QUOTED]!r} is no type; there are {named(_TYPES, wrong)}"


def _bare(text: str) -> str:
    return _first_line(text).removeprefix(f"{_IT} ")


def _first_line(text: str) -> str:
    cut = text[: 2 * LONGEST_MESSAGE].partition("\n")[0]
    return cut.encode("utf-8", "replace").decode()


def _joined(field: str, place: str) -> str:
    if not field or not place:
        return field or place
    return f"{field}{place}" if place.startswith("[") else f"{field}.{place}"
