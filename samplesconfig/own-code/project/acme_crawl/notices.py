"""An executor: notices of a page that has no elements around them, by BeautifulSoup.

Between two ``<hr>`` stands a notice: words in bold, each followed by what it is called, up to the
next line. No selector names such a thing; one walks along the page, whatever its tags forgot to
close. This parser is slower than those of rules by a factor of twenty, so it is for pages of this
kind, and imported when the first of them is read.
"""

from collections.abc import Iterator
from typing import Annotated, Final

from msgspec import Meta

from crawlfleet.errors import ExtractError
from crawlfleet.executors import Context, Executor, Found, Parameters
from crawlfleet.kernel.page import Page

#: A worker does nothing else while a page is parsed: this takes about a second.
_BYTES_MAX: Final = 500_000


class NoticesParameters(Parameters, frozen=True, kw_only=True):
    """``labels`` are fields by the words in bold, ``follow`` the rule that reads the links."""

    labels: Annotated[dict[str, str], Meta(min_length=1, max_length=50)]
    follow: str | None = None


class Notices(Executor[NoticesParameters]):
    """Reads the notices of a page as records."""

    name = "notices"
    Parameters = NoticesParameters

    def read(self, page: Page, context: Context) -> Iterator[Found]:
        """Walk along the page, and give each notice at its end."""
        from bs4 import BeautifulSoup, NavigableString, Tag

        if len(page.body) > _BYTES_MAX:
            raise ExtractError("page", f"has more than {_BYTES_MAX:,} bytes")
        # Not Python's own "html.parser", which a page can be built to keep busy for minutes.
        soup = BeautifulSoup(page.body, "lxml")
        notice: dict[str, object] = {}
        field: str | None = None
        for node in (soup.body or soup).descendants:
            context.tick()
            if isinstance(node, Tag):
                if node.name == "hr":
                    if notice:
                        yield notice
                    notice, field = {}, None
                elif node.name == "b":
                    # A word that no label names ends what was read before it.
                    field = self.parameters.labels.get(_words(node.get_text()).rstrip(" :"))
                elif node.name == "br":
                    field = None
                elif node.name == "a" and self.parameters.follow and node.has_attr("href"):
                    link = context.link(str(node["href"]), self.parameters.follow)
                    if link is not None:
                        yield link
            elif type(node) is NavigableString and field and node.find_parent("b") is None:
                said = _words(f"{notice.get(field, '')} {node}")
                if said:
                    notice[field] = said
        if notice:
            yield notice

    @classmethod
    def fields(cls, parameters: NoticesParameters) -> tuple[str, ...]:
        """Name the fields, so that a spider's key is checked."""
        return tuple(dict.fromkeys(parameters.labels.values()))


def _words(text: str) -> str:
    return " ".join(text.split())
