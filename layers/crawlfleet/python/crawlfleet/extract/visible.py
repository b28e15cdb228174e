"""What people see of HTML, by resiliparse: of a whole page its main text, of a piece all of it."""

from __future__ import annotations

from typing import Final

from crawlfleet.extract.bounds import Meter, UnreadableError
from crawlfleet.extract.guard import guard_html

#: Bytes of a page whose main text is looked for, and what a byte of it costs in units.
MAIN_TEXT_BYTES_MAX: Final = 5_000_000
_BYTE_UNITS: Final = 10
#: What readers wrote below an article is not in it.
_DISCUSSION: Final = ("#comments", ".comments", "#disqus_thread")


def main_text_of(guarded: bytes, meter: Meter) -> str:
    """The article of a guarded page: headings, paragraphs and lists, each on lines of its own.

    Raises:
        UnreadableError: the page is too large.
    """
    size = len(guarded)
    if size > MAIN_TEXT_BYTES_MAX:
        raise UnreadableError(f"main text is read of {MAIN_TEXT_BYTES_MAX:,} bytes at most")
    meter.spend(size * _BYTE_UNITS)
    return _extracted(guarded.decode("utf-8", "replace"), main=True)


def visible_text(markup: str) -> str:
    r"""The text of a piece of HTML without scripts and styles, one line a block.

    >>> visible_text("<p>Nuts &amp; <b>bolts</b><script>x()</script><p>M4")
    'Nuts & bolts\n\nM4'
    """
    if "<" not in markup and "&" not in markup:
        return markup
    guard_html(markup.encode("utf-8", "replace"))
    return _extracted(markup, main=False)


def _extracted(markup: str, *, main: bool) -> str:
    from resiliparse.extract.html2text import extract_plain_text

    try:
        text: str = extract_plain_text(
            markup.encode("utf-8", "replace").decode(),
            main_content=main,
            preserve_formatting=True,
            list_bullets=False,
            alt_texts=False,
            skip_elements=_DISCUSSION if main else None,
        )
    except (ValueError, RuntimeError) as error:
        raise UnreadableError(f"the text cannot be read: {error}") from error
    return text
