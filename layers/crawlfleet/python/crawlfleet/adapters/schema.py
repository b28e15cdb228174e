"""Records against their JSON Schema, draft 2020-12: the step before they are stored (SPEC.md B9).

Rust does the work (jsonschema-rs): with a schema of 12 keywords and a record of 22 values a check
takes about 1 microsecond, where fastjsonschema, which writes Python, takes 8 and jsonschema 180.

A schema comes from a tenant, and the tenant is taken for the attacker:

* nothing is fetched: a ``$ref`` is a JSON pointer into the schema itself;
* references must not come back to where they began, and what a schema comes to once they are
  followed is bounded, so that a check costs a bounded amount for each value of a record;
* ``pattern`` is matched in linear time, and what a compiled one takes is bounded;
* size, depth and number of patterns are bounded, and so is what is said of a record.

``format`` is checked where it is a known one; the draft leaves that open. The library, 10 MB of
machine code, is loaded by the first schema: many crawls have none.
"""

from collections import OrderedDict
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from crawlfleet.adapters.schema_bounds import bounds_broken
from crawlfleet.errors import Problem
from crawlfleet.model.schema import RecordSchema
from crawlfleet.policy.mistakes import named
from crawlfleet.policy.normal_form import path_of

if TYPE_CHECKING:
    import jsonschema_rs

#: What is said of one record, or of one schema, at most.
MOST_PROBLEMS: Final = 10
LONGEST_MESSAGE: Final = 200
#: All that is wrong with a record is looked for where it has this many bytes as JSON at most; of a
#: larger one the first mistake only, as a million of them would take seconds to list.
THOROUGH_BYTES: Final = 50_000
#: Compiled schemas kept.
KEPT_SCHEMAS: Final = 64
#: What one compiled pattern may take; ``[^/]{1,200}`` takes about half of it.
PATTERN_BYTES: Final = 512 * 1024

#: Messages say this instead of the value, which may be as large as a page.
_IT: Final = "it"
#: Types that a schema may ask for; characters of another one that a message quotes.
_TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")
_QUOTED: Final = 60
#: What has schemas by names that a tenant chooses.
_NAMED: Final = frozenset(
    {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
)
_encode: Final = msgspec.json.Encoder().encode

#: A compiled schema, or why there is none.
_Compiled: TypeAlias = "jsonschema_rs.Draft202012Validator | str"


class SchemaValidator:
    """A :class:`~crawlfleet.ports.Validator`; threads may share it."""

    def __init__(self) -> None:
        # By identity: a schema that is in use is the same object, and looking it up by its content
        # would take longer than the check. The schema is kept beside, so that its id stays its own.
        self._kept: OrderedDict[int, tuple[RecordSchema, _Compiled]] = OrderedDict()
        self._lock = Lock()

    def check_schema(self, schema: RecordSchema, field: str = "") -> list[Problem]:
        """Every mistake of a schema, its place below ``field``; empty for one that can be used."""
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
            Problem(_below(field, path_of(path)), message[:LONGEST_MESSAGE])
            for path, message in broken[:MOST_PROBLEMS]
        ]

    def problems(self, schema: RecordSchema, fields: dict[str, object]) -> list[Problem]:
        """What is wrong with a record, each with its field; empty for a right one."""
        compiled = self._compiled(schema)
        if isinstance(compiled, str):
            return [Problem("schema", compiled)]
        try:
            if compiled.is_valid(fields):
                return []
            return list(islice(_mistakes(compiled, fields), MOST_PROBLEMS))
        except (ValueError, TypeError, OverflowError) as error:
            # It is in no normal form: a text that is no Unicode, a value that JSON has not.
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


@lru_cache(maxsize=1)
def _patterns() -> "jsonschema_rs.RegexOptions":
    import jsonschema_rs

    return jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES, dfa_size_limit=PATTERN_BYTES)


def _compile(schema: RecordSchema) -> "jsonschema_rs.Draft202012Validator":
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(
        schema, pattern_options=_patterns(), validate_formats=True, mask=_IT, offline=True
    )


def _mistakes(
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
    """What is wrong, where the library speaks of its keywords in words of our own."""
    import jsonschema_rs

    kinds = jsonschema_rs.ValidationErrorKind
    if isinstance(error.kind, kinds.AnyOf | kinds.OneOfNotValid):
        # What each alternative says first, as far as there is room to say it.
        firsts = (each[0] for each in islice(error.kind.context, MOST_PROBLEMS) if each)
        told = dict.fromkeys(_bare(first.message) for first in firsts)
        return f"fits none of its alternatives: {'; '.join(told)}"
    if isinstance(error.kind, kinds.OneOfMultipleValid):
        return "fits more than one of its alternatives, of which it is to fit one"
    return _bare(error.message)


def _no_type(path: list[str | int], schema: RecordSchema) -> str | None:
    """Said of a ``type`` that is none of JSON Schema's, instead of what its own schema says."""
    of_type = path[:-1] if path and isinstance(path[-1], int) else path
    if of_type[-1:] != ["type"] or _NAMED.intersection(map(str, of_type[-2:-1])):
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


def _below(field: str, place: str) -> str:
    if not field or not place:
        return field or place
    return f"{field}{place}" if place.startswith("[") else f"{field}.{place}"
