"""``url_list``: a text file with a URL on each line."""

import re
from collections.abc import Iterator
from typing import Annotated, Final

from msgspec import Meta

from crawlfleet.crawling.executors.base import Context, Executor, Found, Parameters
from crawlfleet.crawling.executors.bodies import open_text
from crawlfleet.crawling.executors.limits import LINKS_MAX
from crawlfleet.crawling.executors.runner import BadRecords
from crawlfleet.kernel.errors import ExtractError
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.urls import MAX_URL_LENGTH
from crawlfleet.kernel.validation import RuleName
from crawlfleet.requests.models import Skipped

#: Longer lines are no URLs; so much of one is read at a time.
_LINE: Final = MAX_URL_LENGTH + 1_000
#: What stands in no URL, relative or not (RFC 3986), but on each line of what is no list of them,
#: such as XML.
_NO_URL: Final = re.compile(r'[\s<>"]')


class UrlListParameters(Parameters, frozen=True, kw_only=True):
    """``rule`` is to read the pages.

    What follows ``comment``, at the start of a line or after white space, counts for nothing.
    ``bad_rows`` says what becomes of lines that are no URL.
    """

    rule: RuleName
    comment: Annotated[str, Meta(min_length=1, max_length=8)] = "#"
    max_urls: Annotated[int, Meta(ge=1, le=LINKS_MAX)] = LINKS_MAX
    bad_rows: BadRecords = BadRecords.SKIP


class UrlList(Executor[UrlListParameters]):
    """A link from each line."""

    name = "url_list"
    Parameters = UrlListParameters

    def read(self, page: Page, context: Context) -> Iterator[Found]:
        """Links in the file's order, relative ones joined with the file's own URL."""
        given = 0
        for number, line in self._lines(page, context):
            text = self._without_comment(line)
            if not text:
                continue
            link = None
            if len(line) <= _LINE and not _NO_URL.search(text):
                link = context.link(text, self.parameters.rule)
            if link is None:
                why = f"is no URL to go on with: {text[:80]!r}"
                if self.parameters.bad_rows is BadRecords.FAIL:
                    raise ExtractError(f"line {number}", why)
                yield Skipped(f"line {number}", why)
                continue
            given += 1
            if given > self.parameters.max_urls:
                yield Skipped(f"line {number}", f"follows {self.parameters.max_urls:,} URLs")
                return
            yield link

    def _without_comment(self, line: str) -> str:
        mark = self.parameters.comment
        words = line.split()
        for at, word in enumerate(words):
            if word.startswith(mark):
                return " ".join(words[:at])
        return " ".join(words)

    def _lines(self, page: Page, context: Context) -> Iterator[tuple[int, str]]:
        text = open_text(page)
        number = 0
        while line := text.readline(_LINE + 1):
            number += 1
            if number % 1_000 == 1:
                context.tick()
            rest = line
            while len(rest) > _LINE and not rest.endswith(("\n", "\r")):
                rest = text.readline(_LINE + 1)
                context.tick()
            yield number, line
