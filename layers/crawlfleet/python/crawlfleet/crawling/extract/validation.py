"""Check the combinations of a field's keys: one message an error, under the key that is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from crawlfleet.config.documents.rule import Cast, Field, Follow, Selector, Source, Take
from crawlfleet.config.rule_validation import step_problems
from crawlfleet.crawling.extract.casts import cast
from crawlfleet.crawling.extract.engines import READS, EngineName, Place, place_inside
from crawlfleet.crawling.extract.limits import UnreadableError
from crawlfleet.kernel.errors import Problem

_FINDERS: Final = {"data": "json"}
_ENGINES: tuple[EngineName, ...] = ("css", "xpath", "json")


def combination_problems(
    selector: Selector, source: Source, place: Place, path: str
) -> Iterator[Problem]:
    """List every impossible combination of a field, or of ``items``."""
    named: list[EngineName] = [e for e in _ENGINES if getattr(selector, e) is not None]
    other = _elsewhere(selector)
    if len(named) + len(other) > 1:
        chosen = [*named, *other]
        yield Problem(path, f"says {' and '.join(chosen)}: one of them can be meant")
    if selector.structured is not None:
        yield from _of_structured(selector, source, place, path)
    for engine in named:
        if selector.structured is not None:
            continue
        if place == "page" and engine not in READS[source]:
            yield Problem(f"{path}.{engine}", f"cannot read a page whose source is {source}")
        elif place not in {"page", engine} and not (place == "data" and engine == "json"):
            found = "a text" if place == "text" else f"what {_FINDERS.get(place, place)} found"
            yield Problem(f"{path}.{engine}", f"cannot look inside {found}")
    if not named and not other and selector.regex is None and place == "page":
        yield Problem(path, "says nowhere to look: css, xpath, json, regex or fact is missing")
    if isinstance(selector, Field):
        yield from _of_field(selector, source, place_inside(selector, place), path)
        several = selector.list or selector.count
        yield from step_problems(selector.transforms, f"{path}.transforms", several=several)
    elif isinstance(selector, Follow):
        yield from step_problems(selector.transforms, f"{path}.transforms", several=True)


def _elsewhere(selector: Selector) -> list[str]:
    """List what a field says instead of a selector."""
    if not isinstance(selector, Field):
        return []
    fact = ["fact"] if selector.fact is not None else []
    return [*fact, "main_text"] if selector.main_text else fact


def _of_structured(
    selector: Selector, source: Source, place: Place, path: str
) -> Iterator[Problem]:
    if selector.json is None:
        yield Problem(f"{path}.structured", "is read by json, which is missing")
    if source is not Source.HTML:
        yield Problem(f"{path}.structured", f"cannot be on a page whose source is {source}")
    elif place != "page":
        yield Problem(f"{path}.structured", "is of a whole page, not of what is inside an item")


def _of_field(field: Field, source: Source, found: Place, path: str) -> Iterator[Problem]:
    elements = found in {"css", "xpath"} and field.fact is None
    if field.main_text and source is not Source.HTML:
        yield Problem(f"{path}.main_text", f"cannot be on a page whose source is {source}")
    elif field.main_text and (field.list or field.count):
        yield Problem(f"{path}.main_text", "is one text")
    if field.transforms and field.type is Cast.JSON and found in {"json", "data"}:
        yield Problem(f"{path}.transforms", "change texts: this is JSON, which type json keeps")
    if field.attribute is not None and not elements:
        yield Problem(f"{path}.attribute", "only elements have attributes")
    if field.attribute == "":
        yield Problem(f"{path}.attribute", "an attribute has a name")
    if field.take is not Take.TEXT and not elements:
        yield Problem(f"{path}.take", "only elements have markup")
    if field.take is not Take.TEXT and field.attribute is not None:
        yield Problem(f"{path}.take", "an attribute is taken already")
    if field.count:
        yield from _of_count(field, path)
    if field.fields:
        yield from _of_nested(field, path)
    if field.absolute and field.type is not Cast.STRING:
        yield Problem(f"{path}.absolute", "a link is a string")
    if field.required and field.default is not None:
        yield Problem(f"{path}.default", "a required field has none")
    if field.list and field.default is not None:
        yield Problem(f"{path}.default", "a list has none: it is empty where nothing is found")
    elif field.default is not None and not field.fields and field.type is not Cast.JSON:
        yield from _of_default(field, path)


def _of_count(field: Field, path: str) -> Iterator[Problem]:
    clashes = {
        "list": field.list,
        "attribute": field.attribute is not None,
        "take": field.take is not Take.TEXT,
        "type": field.type not in {Cast.STRING, Cast.INTEGER},
        "absolute": field.absolute,
        "required": field.required,
        "default": field.default is not None,
        "fields": bool(field.fields),
        "transforms": bool(field.transforms),
    }
    for key, clash in clashes.items():
        if clash:
            yield Problem(f"{path}.{key}", "has no meaning beside count")


def _of_nested(field: Field, path: str) -> Iterator[Problem]:
    if field.type not in {Cast.STRING, Cast.JSON}:
        yield Problem(f"{path}.type", "nested fields have types of their own")
    if field.type is not Cast.JSON:
        if field.attribute is not None:
            yield Problem(f"{path}.attribute", "there are no fields inside an attribute")
        if field.take is not Take.TEXT:
            yield Problem(f"{path}.take", "nested fields take for themselves")
        if field.transforms:
            yield Problem(f"{path}.transforms", "change texts: nested fields have their own")
    if field.main_text:
        yield Problem(f"{path}.main_text", "there are no fields inside a text")
    if field.absolute:
        yield Problem(f"{path}.absolute", "nested fields are no link")
    if field.default is not None:
        yield Problem(f"{path}.default", "a field with fields of its own has none")


def _of_default(field: Field, path: str) -> Iterator[Problem]:
    if field.type is Cast.STRING:
        if not isinstance(field.default, str):
            yield Problem(f"{path}.default", "is no string")
        return
    try:
        cast(field.type, field.default)
    except UnreadableError as error:
        yield Problem(f"{path}.default", error.message)
