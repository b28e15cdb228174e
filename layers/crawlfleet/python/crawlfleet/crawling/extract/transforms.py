"""The transforms of a field at work: each turns texts into texts (config.documents.rule).

Expressions run on RE2. What a step may give is bounded like everything else that a page gives, and
checked after each step, so that no step can blow up what the one before it left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import unescape
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from crawlfleet.config.documents.rule import (
    DateFormats,
    NumberMarks,
    Replace,
    Step,
    Transform,
    Word,
)
from crawlfleet.crawling.extract.casts import to_string
from crawlfleet.crawling.extract.document import Document, visible_text
from crawlfleet.crawling.extract.limits import MATCHES_MAX, OUTPUT_BYTES_MAX, Meter, UnreadableError
from crawlfleet.crawling.extract.plan import Context, Given
from crawlfleet.crawling.extract.regex import RegexQuery
from crawlfleet.kernel.errors import Problem

_LONGEST: Final = 100  #: A date is no longer than that.


def compile_date(step: DateFormats) -> Callable[[str], str]:
    """Return what reads a date as sites write it, by the first format that fits, to ISO 8601.

    Raises ValueError: ``key: what is wrong with it``.

    >>> compile_date(DateFormats(formats=("%d.%m.%Y",), timezone="Europe/Berlin"))("5.3.2024")
    '2024-03-05T00:00:00+01:00'
    """
    for number, written in enumerate(step.formats):
        if (why := _error(written)) is not None:
            raise ValueError(f"formats[{number}]: {why}")
    # Few rules have such a step, and each process that reads pages would pay for it.
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        zone = ZoneInfo(step.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        why = f"{step.timezone!r} is no time zone, like Europe/Paris"
        raise ValueError(f"timezone: {why}") from error

    def change(text: str) -> str:
        for written in step.formats if len(text) <= _LONGEST else ():
            try:
                at = datetime.strptime(text.strip(), written)  # noqa: DTZ007  it gets its zone below
                return (at if at.tzinfo else at.replace(tzinfo=zone)).isoformat()
            except (ValueError, OverflowError):
                continue
        raise UnreadableError(f"{text[:80]!r} is no date written so")

    return change


def _error(written: str) -> str | None:
    try:
        sample = datetime(2024, 3, 5, 10, 30, tzinfo=UTC).strftime(written)
        datetime.strptime(sample, written)  # noqa: DTZ007  only whether it can be read
    except Exception as error:  # noqa: BLE001  it raises what its regular expressions do
        return f"not a format of dates: {error}"[:200]
    return None if "%" in written else "names no part of a date, such as %d"


Each = Callable[[str], str | None]  #: Changes one text, or leaves it out.
Together = Callable[[list[str], Meter], list[str]]  #: Changes all texts together.

#: Units of one character in one step, and of one text.
_CHARACTER_UNITS: Final = 0.5
_TEXT_UNITS: Final = 200
_HTML_CHARACTER_UNITS: Final = 10
#: A number is searched in so many characters, and is no longer than that.
_NUMBER_WITHIN: Final = 1_000
_PARAMETERS_MAX: Final = 1_000

_WORDS: Final = re.compile(r"\w+(?:['\u2019]\w+)?")
_SPACES: Final = "[ \\u00a0\\u2000-\\u200a\\u202f]"


@dataclass(slots=True)
class Chain:
    """Steps, compiled: name, units of a character, and what to do."""

    steps: Sequence[tuple[str, float, Together]]

    def run(self, document: Document, texts: list[str]) -> list[str]:
        """Return the texts after all steps.

        Raises UnreadableError: a step cannot read a text, or they become too many or too long.
        """
        for label, units, step in self.steps:
            size = sum(map(len, texts))
            document.meter.spend(size * units + len(texts) * _TEXT_UNITS)
            try:
                texts = step(texts, document.meter)
            except UnreadableError as error:
                error.message = f"{label}: {error.message}"
                raise
            if len(texts) > MATCHES_MAX:
                raise UnreadableError(f"{label}: more than {MATCHES_MAX:,} texts")
            if sum(map(len, texts)) > OUTPUT_BYTES_MAX:
                raise UnreadableError(f"{label}: more than {OUTPUT_BYTES_MAX:,} characters")
            if not texts:
                break
        return texts


class Transformed:
    """The values of a field after its steps. ``gathers``: they are of all matches together."""

    __slots__ = ("_chain", "_gathers", "_inner", "_strip")

    def __init__(self, inner: Given, chain: Chain, *, gathers: bool, strip: bool) -> None:
        self._inner, self._chain, self._gathers, self._strip = inner, chain, gathers, strip

    def single(self, document: Document, context: Context) -> object:
        """Return the first value, or None."""
        if self._gathers:
            raw = self._inner.several(document, context)
        else:
            raw = [self._inner.single(document, context)]
        found = self._run(document, raw)
        return found[0] if found else None

    def several(self, document: Document, context: Context) -> Sequence[object]:
        """Return all values, those of each match in turn."""
        found: list[object] = []
        for raw in self._inner.several(document, context):
            found += self._run(document, [raw])
            if len(found) > MATCHES_MAX:
                raise UnreadableError(f"more than {MATCHES_MAX:,} values")
        return found

    def _run(self, document: Document, raw: Sequence[object]) -> list[str]:
        texts = [to_string(value) for value in raw if value is not None]
        if not self._strip:
            return self._chain.run(document, texts)
        return [t.strip() for t in self._chain.run(document, [t.strip() for t in texts])]


def compile_steps(transforms: Sequence[Transform], path: str) -> tuple[Chain | None, list[Problem]]:
    """Compile a chain, or list what is wrong with its expressions, formats and time zones."""
    steps: list[tuple[str, float, Together]] = []
    problems: list[Problem] = []
    for number, transform in enumerate(transforms):
        place = f"{path}[{number}]"
        if isinstance(transform, Step):
            keys = transform.keys
            if len(keys) != 1:
                continue  # refused by config.rule_validation, and so never run
            place = f"{place}.{keys[0]}"
            try:
                step = _KEYED[keys[0]](getattr(transform, keys[0]))
            except _TransformError as error:
                problems.append(Problem(f"{place}.{error.key}" if error.key else place, str(error)))
                continue
        else:
            step = _each(_WORD_STEPS[transform])
        html = transform is Word.HTML_TO_TEXT
        units = _HTML_CHARACTER_UNITS if html else _CHARACTER_UNITS
        steps.append((f"transforms{place.removeprefix(path)}", units, step))
    return (None if problems else Chain(steps)), problems


class _TransformError(Exception):
    def __init__(self, message: str, key: str = "") -> None:
        self.key = key
        super().__init__(message)


def _each(change: Each) -> Together:
    return lambda texts, _: [new for text in texts if (new := change(text)) is not None]


def _expression(pattern: str, key: str = "") -> RegexQuery:
    try:
        return RegexQuery(pattern)
    except ValueError as error:
        raise _TransformError(str(error), key) from error


def _replacing(said: Replace) -> Together:
    query = _expression(said.pattern, "pattern")
    try:
        replacement = query.replacement(said.by)
    except ValueError as error:
        raise _TransformError(str(error), "with") from error
    return lambda texts, meter: [query.replaced(text, replacement, meter) for text in texts]


def _matching(pattern: str) -> Together:
    query = _expression(pattern)
    return lambda texts, meter: [new for t in texts if (new := query.first(t, meter)) is not None]


def _splitting(separator: str) -> Together:
    def step(texts: list[str], _: Meter) -> list[str]:
        found: list[str] = []
        for text in texts:
            found += text.split(separator, MATCHES_MAX)
            if len(found) > MATCHES_MAX:
                break  # refused by the chain
        return found

    return step


def _dated(formats: DateFormats) -> Together:
    try:
        return _each(compile_date(formats))
    except ValueError as error:
        key, _, message = str(error).partition(": ")
        raise _TransformError(message, key) from error


def _numbering(marks: NumberMarks) -> Each:
    decimal = re.escape(marks.decimal)
    space = marks.thousands.isspace()
    thousands = _SPACES if space else re.escape(marks.thousands)
    # No number is taken out of one that is written otherwise: the 1 of 1,234.
    around = rf"[.,'\u2019{re.escape(marks.decimal)}{'' if space else thousands}]"
    grouped = rf"\d{{1,3}}(?:{thousands}\d{{3}})+|" if thousands else ""
    pattern = re.compile(
        rf"(?<!\d)(?<!\d{around})(?P<sign>[+\-\u2212]?)"
        rf"(?P<whole>{grouped}\d+)(?:{decimal}(?P<part>\d+))?(?!\d)(?!{around}\d)",
        re.ASCII,
    )

    def change(text: str) -> str:
        found = pattern.search(text[:_NUMBER_WITHIN])
        if found is None:
            raise UnreadableError(f"{text[:80]!r} holds no number written so")
        whole = re.sub(r"\D", "", found["whole"], flags=re.ASCII)
        sign = "-" if found["sign"] in {"-", "\u2212"} else ""
        return f"{sign}{whole}.{found['part']}" if found["part"] else f"{sign}{whole}"

    return change


def _parameter(text: str, name: str) -> str | None:
    try:
        query = urlsplit(text.strip()).query
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_PARAMETERS_MAX)
    except ValueError:
        return None
    return next((value for key, value in pairs if key == name), None)


_WORD_STEPS: Final[dict[Word, Each]] = {
    Word.LOWER: str.lower,
    Word.UPPER: str.upper,
    Word.TITLE: lambda text: _WORDS.sub(lambda w: w[0][:1].upper() + w[0][1:].lower(), text),
    Word.COLLAPSE: lambda text: " ".join(text.split()),
    Word.HTML_TO_TEXT: visible_text,
    Word.UNESCAPE: unescape,
    Word.UNQUOTE: lambda text: unquote(text, errors="replace"),
}
#: By the key of a step: what its value becomes.
_KEYED: Final[dict[str, Callable[[Any], Together]]] = {
    "replace": _replacing,
    "match": _matching,
    "split": _splitting,
    "join": lambda separator: lambda texts, _: [separator.join(texts)] if texts else [],
    "pick": lambda at: lambda texts, _: [texts[at]] if -len(texts) <= at < len(texts) else [],
    "slice": lambda span: _each(lambda text: text[slice(*span)]),
    "prefix": lambda prefix: _each(lambda text: prefix + text),
    "suffix": lambda suffix: _each(lambda text: text + suffix),
    "map": lambda mapped: _each(lambda text: mapped.get(text, text)),
    "number": lambda marks: _each(_numbering(marks)),
    "date": _dated,
    "url_parameter": lambda name: _each(lambda text: _parameter(text, name)),
}
