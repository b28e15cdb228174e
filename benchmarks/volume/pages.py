"""The site's answers: one small page for every address, and a robots.txt that allows all."""

from typing import Final

from crawlfleet.kernel.page import Page

_PARAGRAPH: Final = "A small page, as lists and product pages are without what they carry along. "
_LINKS: Final = "".join(f'<li><a href="/pages/{n}.html">page {n}</a></li>' for n in range(10))
BODY: Final = (
    "<!doctype html><html><head><meta charset=utf-8><title>Volume</title></head><body>"
    f"<h1>A page</h1><h2>One</h2><p>{_PARAGRAPH * 8}</p><h2>Two</h2><p>{_PARAGRAPH * 8}</p>"
    f"<ul>{_LINKS}</ul></body></html>"
).encode()

#: How long the site is said to have taken.
_SECONDS: Final = 0.001
_HTML: Final = {"content-type": "text/html; charset=utf-8"}
ROBOTS: Final = Page(
    url="https://site0.example/robots.txt",
    status=200,
    headers={"content-type": "text/plain"},
    body=b"User-agent: *\nAllow: /\n",
    seconds=_SECONDS,
)


def page_of(url: str) -> Page:
    """The page at an address."""
    return Page(url=url, status=200, headers=_HTML, body=BODY, seconds=_SECONDS)
