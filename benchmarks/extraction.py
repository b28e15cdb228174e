"""Measure a rule beside the bare parser doing the same: ``python -m benchmarks.extraction``.

Pages as pydoc writes them, in three sizes; both sides give equal records, else the run fails. They
take turns, and a figure is the ratio of their best rounds in CPU seconds.
"""

import importlib
import pydoc
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser

from benchmarks.bench import Bench, BenchError, Found
from crawlfleet.config.documents.rule import Field, Follow, PageFact, Rule
from crawlfleet.crawling.extract.extractor import RuleExtractor
from crawlfleet.kernel.page import Page

_MODULES: Final = (
    "argparse collections decimal email.message http.client logging pathlib threading typing "
    "unittest.mock zipfile asyncio.events ssl subprocess tarfile"
)
_URL: Final = "http://docs.example/library/page.html"
_HEADERS: Final = {"content-type": "text/html; charset=utf-8"}
#: Below 60 KB, above, and multiples of 400 KB.
SIZES: Final = ("small", "medium", "large")
_ROUNDS: Final = 12
_LARGE_BYTES: Final = 400_000
_FIELDS: Final = {
    "url": Field(fact=PageFact.URL),
    "title": Field(css="title"),
    "h1": Field(css="h1"),
    "first": Field(css="p"),
    "headings": Field(css="strong.bigsection", list=True),
    "links": Field(css="a[href]", count=True),
}
_RULE: Final = Rule(fields=_FIELDS)
_FOLLOWING: Final = Rule(fields=_FIELDS, follow=(Follow(css="a[href]"),))

Side = Callable[[bytes], object]


def run(bench: Bench) -> Found:
    """The figures of all sizes."""
    figures: dict[str, float] = {}
    details: dict[str, Any] = {}
    for name, pages in pages_by_size().items():
        found = measure(pages, bench.scale.extraction_rounds)
        bench.tick(f"extraction, {name} pages")
        details[f"extraction of {name} pages, milliseconds"] = found
        figures[f"extract_vs_lexbor_{name}"] = found["rule"] / found["lexbor"]
        figures[f"follow_vs_lexbor_{name}"] = found["rule with follow"] / found["lexbor and links"]
    return Found(figures=figures, details=details)


def measure(pages: Sequence[bytes], rounds: int = _ROUNDS) -> dict[str, float]:
    """Milliseconds of CPU a page, of each side."""
    extractor = RuleExtractor()

    def by_rule(rule: Rule) -> Side:
        def read(body: bytes) -> object:
            harvest = extractor.harvest(rule, _page(body))
            return harvest.records[0], [link.url for link in harvest.links]

        return read

    sides: dict[str, Side] = {
        "lexbor": lambda body: (_bare(LexborHTMLParser(body)), []),
        "rule": by_rule(_RULE),
        "lexbor and links": _bare_with_links,
        "rule with follow": by_rule(_FOLLOWING),
    }
    for one, other in (("lexbor", "rule"), ("lexbor and links", "rule with follow")):
        if any(sides[one](body) != sides[other](body) for body in pages):
            raise BenchError(f"{one} and {other} do not find the same")
    best = dict.fromkeys(sides, float("inf"))
    for _ in range(rounds):
        for name, side in sides.items():
            began = time.process_time()
            for body in pages:
                side(body)
            best[name] = min(best[name], time.process_time() - began)
    return {name: seconds / len(pages) * 1000 for name, seconds in best.items()}


def pages_by_size() -> Mapping[str, Sequence[bytes]]:
    """The pages of each size."""
    html = pydoc.HTMLDoc()
    written = []
    for name in _MODULES.split():
        module = importlib.import_module(name)
        document = html.document(module, name)
        written.append(html.page(pydoc.describe(module), document).encode())
    whole = b"".join(written)
    count = len(whole) // _LARGE_BYTES + 1
    small = [body for body in written if len(body) < 60_000]
    medium = [body for body in written if len(body) >= 60_000]
    large = [whole[: _LARGE_BYTES * number] for number in range(1, count)]
    return dict(zip(SIZES, (small, medium, large), strict=True))


def _page(body: bytes) -> Page:
    return Page(url=_URL, status=200, headers=_HEADERS, body=body)


def _bare_with_links(body: bytes) -> object:
    tree = LexborHTMLParser(body)
    return _bare(tree), _bare_links(tree)


def _bare(tree: LexborHTMLParser) -> dict[str, object]:
    def first(selector: str) -> str | None:
        node = tree.css_first(selector)
        return None if node is None else node.text().strip()

    return {
        "url": _URL,
        "title": first("title"),
        "h1": first("h1"),
        "first": first("p"),
        "headings": [node.text().strip() for node in tree.css("strong.bigsection")],
        "links": len(tree.css("a[href]")),
    }


def _bare_links(tree: LexborHTMLParser) -> list[str]:
    """Extract links with the least code: joined, and kept if on this host."""
    found: dict[str, None] = {}
    for node in tree.css("a[href]"):
        url = urljoin(_URL, node.attributes["href"] or "").partition("#")[0]
        if url.startswith("http://docs.example/") and url != _URL:
            found[url] = None
    return list(found)[:1000]


def main() -> None:
    for name, pages in pages_by_size().items():
        found = measure(pages)
        size = sum(map(len, pages)) / len(pages) / 1000
        print(f"{name}: {len(pages)} pages of {size:.0f} KB")
        for side, milliseconds in found.items():
            print(f"  {side:20} {milliseconds:8.3f} ms")
        plain = found["rule"] / found["lexbor"]
        follow = found["rule with follow"] - found["rule"]
        print(f"  a rule costs {plain:.2f} times the bare parser; following adds {follow:.3f} ms")


if __name__ == "__main__":
    main()
