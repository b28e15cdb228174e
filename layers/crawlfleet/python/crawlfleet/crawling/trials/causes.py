"""Say why a field has no value on a page: its selector, attribute, regex or transforms.

The field is read again with less and less of what it says; where a value comes up, what was left
out last is the cause. This is done for trials alone: a crawl counts, and asks nobody why.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from crawlfleet.config.documents.rule import Cast, Field, Rule, Take
from crawlfleet.config.rule_validation import gathers
from crawlfleet.crawling.extract.engines import engine_of
from crawlfleet.crawling.extract.extractor import RuleExtractor
from crawlfleet.kernel.errors import ExtractError
from crawlfleet.kernel.page import Page

#: Fields that are looked into, and characters of a text that is quoted.
_MOST: Final = 20
_QUOTED: Final = 60

_Texts = Callable[[str], Sequence[str]]


def causes(
    rule: Rule, page: Page, empty: Iterable[str], extractor: RuleExtractor
) -> dict[str, str]:
    """Return the cause by field; nothing of a field for which none is found."""
    names = [name for name in empty if name in rule.fields][:_MOST]
    fields = {
        f"{number} {variant}": field
        for number, name in enumerate(names)
        for variant, field in _variants(rule.fields[name])
    }
    if not fields:
        return {}
    alone = replace(rule, fields=fields, key=(), schema=None, follow=())
    try:
        records = extractor.extract(alone, page)
    except ExtractError:
        return {}
    found = {}
    for number, name in enumerate(names):

        def texts(variant: str, number: int = number) -> list[str]:
            return [text for record in records for text in _flat(record[f"{number} {variant}"])]

        if why := _cause(rule.fields[name], texts):
            found[name] = why
    return found


def _flat(value: object) -> Iterator[str]:
    for one in value if isinstance(value, list) else [value]:
        if one not in (None, ""):
            yield str(one)


def _variants(field: Field) -> Iterator[tuple[str, Field]]:
    """Yield the field with less and less of what it says, each under a name."""
    single = field.fact is not None or field.main_text
    whole: dict[str, Any] = {
        "required": False,
        "default": None,
        "type": Cast.STRING,
        "absolute": False,
        "fields": {},
        "count": False,
        "transforms": (),
        "list": not single,
    }
    narrowed = replace(field, **whole)
    by_selector = engine_of(field) is not None
    found = replace(narrowed, regex=None) if by_selector or field.main_text else narrowed
    if by_selector:
        markup = replace(found, attribute=None, take=Take.TEXT, strip=False, count=True, list=False)
        yield "matches", markup
    yield "found", found
    if field.structured is not None and (path := _listed(field.json or "")):
        yield "listed", replace(found, json=path)
    if field.regex is not None:
        yield "narrowed", narrowed
        yield "spaced", replace(narrowed, plain_space=True)
    kept = field.list or (not single and not gathers(field.transforms))
    for number in range(len(field.transforms)):
        so_far = field.transforms[: number + 1]
        yield f"step {number}", replace(narrowed, transforms=so_far, list=kept)


def _cause(field: Field, texts: _Texts) -> str | None:
    engine = engine_of(field)
    finder = engine or ("main_text" if field.main_text else "regex")
    found = texts("found")
    if not found:
        if engine is None or not any(text != "0" for text in texts("matches")):
            return f"its {finder} matches nothing on this page{_hint(field, texts)}"
        if field.attribute is not None:
            return f"its {finder} matches, and no match has the attribute {field.attribute!r}"
        return f"what its {finder} matches has no text: `attribute` takes another value of it"
    if field.regex is not None and not (narrowed := texts("narrowed")):
        return _of_regex(found[0], texts("spaced"))
    before = narrowed if field.regex is not None else found
    for number in range(len(field.transforms)):
        after = texts(f"step {number}")
        if not after:
            return f"its transforms[{number}] leaves nothing of {_quoted(before[0])}"
        before = after
    return None


def _hint(field: Field, texts: _Texts) -> str:
    """Say what else the page's data would be found by, or what a regex alone is read in."""
    listed = _listed(field.json or "") if field.structured is not None else ""
    if listed and texts("listed"):
        return f"; its data is a list: {listed!r} does"
    if engine_of(field) is None and field.regex is not None:
        return ", in its source: tags and entities such as &nbsp; are part of that"
    return ""


def _listed(path: str) -> str:
    """Return the path in each of a list.

    >>> _listed("$.offers.price")
    '$[*].offers.price'
    """
    return f"$[*]{path[1:]}" if path.startswith("$.") and not path.startswith("$..") else ""


def _of_regex(text: str, spaced: Sequence[str]) -> str:
    said = f"its regex matches nothing in {_quoted(text)}"
    if not spaced:
        return said
    kinds = sorted({f"U+{ord(each):04X}" for each in text if unicodedata.category(each) == "Zs"})
    kinds = [kind for kind in kinds if kind != "U+0020"]
    return f"{said}, where blanks are {', '.join(kinds)}: `plain_space: true` makes blanks of them"


def _quoted(text: str) -> str:
    return repr(text[:_QUOTED]) + ("..." if len(text) > _QUOTED else "")
