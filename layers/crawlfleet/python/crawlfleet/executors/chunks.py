"""Records through the rules' reader, so many at a time that neither memory nor patience runs out.

Selectors, casts and their cost belong to whoever applies rules. A streaming executor cuts the page
into records as they are written, puts some of them into a small page of the same kind, and has the
rule read that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec.structs import replace

from crawlfleet.errors import ExtractError
from crawlfleet.executors.base import Context, Found
from crawlfleet.executors.bounds import RECORD_BYTES_MAX
from crawlfleet.model.harvest import Skipped
from crawlfleet.model.rule import Rule
from crawlfleet.page import Page
from crawlfleet.ports.web import Extractor

#: Records, and bytes of them, that are read at once.
CHUNK_RECORDS: Final = 200
CHUNK_BYTES: Final = 500_000


class BadRecords(StrEnum):
    """What becomes of a page with a record that cannot be read.

    With ``skip`` the record is left out, and told; with ``fail`` nothing of the page is stored.
    """

    SKIP = "skip"
    FAIL = "fail"


class Piece(NamedTuple):
    """One record as the page writes it; ``place`` is what errors call it."""

    place: str
    written: bytes


class Chunks:
    """Applies a rule to pieces. ``page_of`` makes the body of a page of them."""

    def __init__(
        self,
        rules: Extractor,
        rule: Rule,
        page_of: Callable[[Sequence[bytes]], bytes],
        bad_records: BadRecords,
    ) -> None:
        self._rules = rules
        self._rule = rule
        self._page_of = page_of
        self._bad = bad_records

    def read(
        self, pieces: Iterable[Piece | Skipped], page: Page, context: Context
    ) -> Iterator[Found]:
        """Records and links, in the page's order; skipped pieces as they are."""
        waiting: list[Piece] = []
        size = 0
        for piece in pieces:
            if isinstance(piece, Skipped):
                yield piece
                continue
            if len(piece.written) > RECORD_BYTES_MAX:
                yield self.bad(piece.place, f"is larger than {RECORD_BYTES_MAX:,} bytes")
                continue
            waiting.append(piece)
            size += len(piece.written)
            if len(waiting) >= CHUNK_RECORDS or size >= CHUNK_BYTES:
                yield from self._some(waiting, page, context)
                waiting, size = [], 0
        yield from self._some(waiting, page, context)

    def bad(self, place: str, why: str) -> Skipped:
        """What is given for a bad record.

        Raises:
            ExtractError: bad records are not left out.
        """
        if self._bad is BadRecords.FAIL:
            raise ExtractError(place, why)
        return Skipped(place, why)

    def _some(self, pieces: Sequence[Piece], page: Page, context: Context) -> Iterator[Found]:
        if not pieces:
            return
        context.tick()
        body = self._page_of([piece.written for piece in pieces])
        # Now it is UTF-8, and small.
        small = replace(page, body=body, headers={"content-type": "; charset=utf-8"})
        try:
            harvest = self._rules.harvest(self._rule, small, context.depth, context.meta)
        except ExtractError as error:
            if len(pieces) == 1:
                field = error.field.removeprefix("items[0]").lstrip(".")
                why = str(error).removeprefix(f"{error.field}: ")
                place = pieces[0].place
                yield self.bad(
                    f"{place}.{field}" if field not in ("", "page", "items") else place, why
                )
                return
            # One of them is bad, or all are too much at once: one at a time it shows.
            for piece in pieces:
                yield from self._some([piece], page, context)
            return
        yield from harvest.records
        yield from harvest.links
