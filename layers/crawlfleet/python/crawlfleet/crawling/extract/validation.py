"""Check the combinations of a field's keys: one message an error, under the key that is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from crawlfleet.config.documents.rule import Cast, Field, Follow, Selector, Source, Take
from crawlfleet.config.rule_validation import step_problems
from crawlfleet.crawling.extract import casts, limits
from crawlfleet.crawling.extract.engines import ENGINES, READS, EngineName, Place, place_inside
from crawlfleet.kernel.errors import Problem

_FINDERS: Final = {"data": "json"}


def combination_problems(
    selector: Selector, source: Source, place: Place, path: str
) -> Iterator[Problem]:
    """List every impossible combination of a field, or of ``items``."""
    named: list[EngineName] = [e for e in ENGINES if getattr(selector, e) is not None]
    field = selector if isinstance(selector, Field) else Field()
    elsewhere = {"fact": field.fact is not None, "main_text": field.main_text}
    other = [key for key, said in elsewhere.items() if said]  # instead of a selector
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


def _of_structured(
    selector: Selector, source: Source, place: Place, path: str
) -> Iterator[Problem]:
    if selector.json is None:
        yield Problem(f"{path}.structured", "is read by json, which is missing")
    if source is not Source.HTML:
        yield Problem(f"{path}.structured", f"cannot be on a page whose source is {source}")
    elif place != "page":
        yield Problem(f"{path}.structured", "is of a whole page, not of what is inside an item")


def _wrong(path: str, checks: Iterable[tuple[str, bool, str]]) -> Iterator[Problem]:
    """List the keys of which it is true, each with what is wrong about it."""
    return (Problem(f"{path}.{key}", why) for key, wrong, why in checks if wrong)


def _of_field(field: Field, source: Source, found: Place, path: str) -> Iterator[Problem]:
    elements = found in {"css", "xpath"} and field.fact is None
    of_html, several = source is Source.HTML, field.list or field.count
    texts = bool(field.transforms) and field.type is Cast.JSON and found in {"json", "data"}
    named, taken = field.attribute is not None, field.take is not Take.TEXT
    elsewhere = f"cannot be on a page whose source is {source}"
    checks = (
        ("main_text", field.main_text and not of_html, elsewhere),
        ("main_text", field.main_text and of_html and several, "is one text"),
        ("transforms", texts, "change texts: this is JSON, which type json keeps"),
        ("attribute", named and not elements, "only elements have attributes"),
        ("attribute", field.attribute == "", "an attribute has a name"),
        ("take", taken and not elements, "only elements have markup"),
        ("take", taken and named, "an attribute is taken already"),
    )
    yield from _wrong(path, checks)
    if field.count:
        yield from _of_count(field, path)
    if field.fields:
        yield from _of_nested(field, path)
    given = field.default is not None
    last = (
        ("absolute", field.absolute and field.type is not Cast.STRING, "a link is a string"),
        ("default", field.required and given, "a required field has none"),
        ("default", field.list and given, "a list has none: it is empty where nothing is found"),
    )
    yield from _wrong(path, last)
    if given and not field.list and not field.fields and field.type is not Cast.JSON:
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
    why = "has no meaning beside count"
    yield from _wrong(path, ((key, clash, why) for key, clash in clashes.items()))


def _of_nested(field: Field, path: str) -> Iterator[Problem]:
    kind, named = field.type, field.attribute is not None
    cut = kind is not Cast.JSON
    checks = (
        ("type", kind not in {Cast.STRING, Cast.JSON}, "nested fields have types of their own"),
        ("attribute", cut and named, "there are no fields inside an attribute"),
        ("take", cut and field.take is not Take.TEXT, "nested fields take for themselves"),
        (
            "transforms",
            cut and bool(field.transforms),
            "change texts: nested fields have their own",
        ),
        ("main_text", field.main_text, "there are no fields inside a text"),
        ("absolute", field.absolute, "nested fields are no link"),
        ("default", field.default is not None, "a field with fields of its own has none"),
    )
    yield from _wrong(path, checks)


def _of_default(field: Field, path: str) -> Iterator[Problem]:
    if field.type is Cast.STRING:
        if not isinstance(field.default, str):
            yield Problem(f"{path}.default", "is no string")
        return
    try:
        casts.cast(field.type, field.default)
    except limits.UnreadableError as error:
        yield Problem(f"{path}.default", error.message)
