"""``json``: records of JSON and of NDJSON, API pages with a next page among them.

A path of names alone that ends in ``[*]`` is cut out of the document piece by piece, however many
there are; any other one is left to the rules' reader whole, with its bound on matches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from crawlfleet.config.documents.rule import Cast, Expression, Field, Name, Rule, Selector, Source
from crawlfleet.crawling.executors import base
from crawlfleet.crawling.executors.base import Context, Executor, Found, Parameters
from crawlfleet.crawling.executors.bodies import open_body, open_text
from crawlfleet.crawling.executors.page import LinkField, MaxPages, further_page, with_links
from crawlfleet.crawling.executors.runner import BadRecords, Chunks, Piece
from crawlfleet.crawling.extract.extractor import RuleExtractor
from crawlfleet.crawling.extract.links import page_number
from crawlfleet.kernel.errors import ExtractError, Problem
from crawlfleet.kernel.page import Page
from crawlfleet.requests.models import Skipped

#: Values of a document, counted by its commas: each takes some sixty bytes while it is cut up.
_VALUES_MAX: Final = 2_000_000
_PLAIN_PATH: Final = re.compile(r"\$((?:\.[A-Za-z_]\w*|\['[^'\\]*'\]|\[\"[^\"\\]*\"\])*)\[\*\]\Z")
_NAME: Final = re.compile(r"\.(\w+)|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_NEXT: Final = "next_page"
#: What APIs give where there is no next page.
_NO_CURSOR: Final = (None, "", "false")
_WHOLE: Final = "record"
_NO_OBJECT: Final = "is no object, and there are no fields"


class JsonFormat(StrEnum):
    """``auto`` goes by the media type and the end of the URL: ``.ndjson``, ``.jsonl``."""

    AUTO = "auto"
    JSON = "json"
    NDJSON = "ndjson"


class JsonParameters(Parameters, frozen=True, kw_only=True):
    """``records`` (RFC 9535) leads to the records; in NDJSON each line is one, and it is not said.

    ``fields`` are as in a rule of ``source: json``, where ``$`` is the record; without them a
    record is the object as it is. Further pages: ``next_page`` leads to their link; or ``cursor``
    to what the query parameter ``cursor_parameter`` is to be. ``bad_records`` says what becomes
    of records that cannot be read.
    """

    format: JsonFormat = JsonFormat.AUTO
    records: Expression = "$[*]"
    fields: Annotated[dict[Name, Field], Meta(max_length=200)] = {}  # noqa: RUF012  structs copy it
    next_page: Expression | None = None
    cursor: Expression | None = None
    cursor_parameter: Annotated[str, Meta(min_length=1, max_length=100)] | None = None
    max_pages: MaxPages = 100
    bad_records: BadRecords = BadRecords.FAIL
    link: LinkField | None = None

    def rule(self, records: str) -> Rule:
        """Make the rule that reads the records."""
        fields = self.fields or {_WHOLE: Field(json="$", type=Cast.JSON)}
        return Rule(source=Source.JSON, items=Selector(json=records), fields=fields)

    def next_rule(self) -> Rule | None:
        """Make the rule that reads the way to the next page."""
        path = self.next_page or self.cursor
        return Rule(source=Source.JSON, fields={_NEXT: Field(json=path)}) if path else None


class JsonFile(Executor[JsonParameters]):
    """A record of each value at a path, or of each line."""

    name = "json"
    Parameters = JsonParameters

    def __init__(self, parameters: JsonParameters, rules: RuleExtractor) -> None:
        super().__init__(parameters, rules)
        rule, bad = parameters.rule("$[*]"), parameters.bad_records
        self._chunks = Chunks(rules, rule, lambda pieces: b"[" + b",".join(pieces) + b"]", bad)

    def read(self, page: Page, context: Context) -> Iterator[Found]:
        """Read records first, then the link to the next page."""
        lines = self._is_lines(page)
        if not lines:
            page = _unpacked(page)
            found = self._values(page, context)
        else:
            found = self._chunked(_line_pieces(page, self._chunks.bad.left_out), page, context)
        yield from with_links(found, self.parameters.link, context)
        if not lines and page_number(context.meta) < self.parameters.max_pages:
            yield from self._further(page, context)

    def _is_lines(self, page: Page) -> bool:
        if self.parameters.format is not JsonFormat.AUTO:
            return self.parameters.format is JsonFormat.NDJSON
        path = urlsplit(page.url).path.lower().removesuffix(".gz")
        kind = page.content_type.partition(";")[0].strip()
        ends = ("ndjson", "jsonl", "json-seq")
        return path.endswith((".ndjson", ".jsonl")) or kind.endswith(ends)

    def _values(self, page: Page, context: Context) -> Iterator[Found]:
        plain = _PLAIN_PATH.match(self.parameters.records)
        if plain is None:
            rule = self.parameters.rule(self.parameters.records)
            harvest = self.rules.harvest(rule, page, context.depth, context.meta)
            yield from self._objects(harvest.records)
            return
        names = ["".join(found) for found in _NAME.findall(plain[1])]
        values = enumerate(_cut(page.body, names))
        pieces = (Piece(f"records[{number}]", bytes(value)) for number, value in values)
        yield from self._chunked(pieces, page, context)

    def _chunked(
        self, pieces: Iterable[Piece | Skipped], page: Page, context: Context
    ) -> Iterator[Found]:
        if self.parameters.fields:
            yield from self._chunks.read(pieces, page, context)
            return
        objects = (
            piece
            if isinstance(piece, Skipped) or piece.written.startswith(b"{")
            else self._chunks.bad.left_out(piece.place, _NO_OBJECT)
            for piece in pieces
        )
        for item in self._chunks.read(objects, page, context):
            yield item[_WHOLE] if isinstance(item, dict) else item

    def _objects(self, records: Iterable[dict[str, object]]) -> Iterator[Found]:
        """Give the records; without ``fields`` each is what its one field holds."""
        for number, record in enumerate(records):
            whole = record if self.parameters.fields else record[_WHOLE]
            if isinstance(whole, dict):
                yield whole
            else:
                yield self._chunks.bad.left_out(f"records[{number}]", _NO_OBJECT)

    def _further(self, page: Page, context: Context) -> Iterator[Found]:
        rule = self.parameters.next_rule()
        if rule is None:
            return
        [found] = self.rules.harvest(rule, page, context.depth, context.meta).records
        value = found[_NEXT]
        if value in _NO_CURSOR:
            return
        if self.parameters.cursor is not None:
            value = _with_parameter(context.url, self.parameters.cursor_parameter or "", str(value))
        further = further_page(context, value, self.parameters.max_pages)
        if further is not None:
            yield further

    @classmethod
    def problems(cls, parameters: JsonParameters) -> Iterable[Problem]:
        """Check that one whole way leads to the next page."""
        if parameters.next_page is not None and parameters.cursor is not None:
            yield Problem("cursor", "does not go with next_page: it is one or the other")
        if (parameters.cursor is None) != (parameters.cursor_parameter is None):
            yield Problem("cursor_parameter", "goes with cursor, and cursor with it")
        if parameters.format is JsonFormat.NDJSON and parameters.records != "$[*]":
            yield Problem("records", "in ndjson each line is a record: leave it out")
        if parameters.link is not None and parameters.fields:
            yield from parameters.link.problems(parameters.fields)

    @classmethod
    def used_rules(cls, parameters: JsonParameters) -> Iterable[base.UsedRule]:
        """List the rules of the records and of the next page."""
        yield base.UsedRule(parameters.rule(parameters.records), {"items.json": "records"})
        next_rule = parameters.next_rule()
        if next_rule is not None:
            place = "next_page" if parameters.next_page is not None else "cursor"
            yield base.UsedRule(
                next_rule, {f"fields.{_NEXT}.json": place, f"fields.{_NEXT}": place}
            )

    @classmethod
    def fields(cls, parameters: JsonParameters) -> Iterable[str] | None:
        """Name the given fields; without them the objects say it."""
        return parameters.fields or None


def _unpacked(page: Page) -> Page:
    """Return the page in UTF-8, unpacked."""
    text = open_text(page)
    if text.encoding == "utf-8":
        body = open_body(page).read().removeprefix(b"\xef\xbb\xbf")
    else:
        body = text.read().encode("utf-8", "replace")
    kept = {name: value for name, value in page.headers.items() if name != "content-type"}
    return replace(page, body=body, headers=kept)


def _cut(body: bytes, names: Sequence[str]) -> Iterable[msgspec.Raw]:
    """Cut out the values of the array (or object) that the names lead to, if they lead to any."""
    if body.count(b",") > _VALUES_MAX:
        raise ExtractError("page", f"holds more than {_VALUES_MAX:,} values")
    try:
        value = msgspec.json.decode(body, type=msgspec.Raw)
        for name in names:
            if not _begins(value, b"{"):
                return ()
            inside = msgspec.json.decode(value, type=dict[str, msgspec.Raw])
            if name not in inside:
                return ()
            value = inside[name]
        if _begins(value, b"["):
            return msgspec.json.decode(value, type=list[msgspec.Raw])
        if _begins(value, b"{"):
            return msgspec.json.decode(value, type=dict[str, msgspec.Raw]).values()
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise ExtractError("page", f"no JSON: {error}") from error
    return ()


def _begins(value: msgspec.Raw, mark: bytes) -> bool:
    return memoryview(value)[:1] == mark


def _line_pieces(page: Page, bad: Callable[[str, str], Skipped]) -> Iterator[Piece | Skipped]:
    stream = open_body(page)
    number = 0
    while line := stream.readline(base.RECORD_BYTES_MAX + 2):
        number += 1
        text = line.strip(b" \t\r\n\x1e").removeprefix(b"\xef\xbb\xbf")
        if len(line) > base.RECORD_BYTES_MAX:
            while line and not line.endswith(b"\n"):
                line = stream.readline(base.RECORD_BYTES_MAX)
            yield bad(f"line {number}", f"is longer than {base.RECORD_BYTES_MAX:,} bytes")
        elif text:
            try:
                msgspec.json.decode(text, type=msgspec.Raw)
            except (msgspec.MsgspecError, RecursionError, ValueError) as error:
                yield bad(f"line {number}", f"no JSON: {error}")
            else:
                yield Piece(f"line {number}", text)


def _with_parameter(url: str, name: str, value: str) -> str:
    """Set a query parameter of the URL.

    >>> _with_parameter("https://example.org/api?size=2&after=x", "after", "y z")
    'https://example.org/api?size=2&after=y+z'
    """
    parts = urlsplit(url)
    query = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != name]
    return urlunsplit(parts._replace(query=urlencode([*query, (name, value)])))
