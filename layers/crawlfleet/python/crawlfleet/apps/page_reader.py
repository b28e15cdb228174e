"""The reader of pages, composed in the process that readers are forked from (crawling.reading)."""

import socket
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NoReturn

from crawlfleet.apps.process import keep_memory
from crawlfleet.apps.readers import carry_spiders, check_reader
from crawlfleet.config.documents.rule import Cast, Field, Rule
from crawlfleet.crawling.executors.registry import REGISTRY
from crawlfleet.crawling.executors.runner import SpiderExecutors
from crawlfleet.crawling.extract.extractor import RuleExtractor
from crawlfleet.crawling.reading.serving import PageReaders, serve
from crawlfleet.crawling.reading.spawning import spawn
from crawlfleet.crawling.trials.pages import try_page
from crawlfleet.kernel.errors import CrawlfleetError
from crawlfleet.kernel.page import Page

#: A page, and a field for each engine: reading it loads the engine. The first reader has the first
#: one alone, which nearly every rule asks for.
_WARM = b"<html><head><title>t</title></head><body><h1>a</h1><a href='/b'>b</a></body></html>"
_FIELDS: Final = {
    "css": Field(css="h1"),
    "xpath": Field(xpath="//h1"),
    "regex": Field(css="h1", regex="(.)"),
    "date": Field(css="h1", type=Cast.DATE),
}


def main(told: Mapping[str, Any]) -> NoReturn:
    """Load what reads pages, and fork readers until the worker has gone."""
    carry_spiders(tuple(told["packages"]))
    if not told["executors"]:
        REGISTRY.forget_others()  # the worker has looked for them
    extractor = RuleExtractor()
    executors = SpiderExecutors(REGISTRY, extractor)
    readers = PageReaders(
        extractor=extractor,
        executors=executors,
        try_page=partial(try_page, executors),
        check=check_reader,
    )
    first, *further = _FIELDS
    _warm(extractor, first)
    keep_memory()
    channel = socket.socket(fileno=told["channel"])
    spawn(channel, partial(serve, readers=readers), partial(_load, extractor, further))


def _warm(extractor: RuleExtractor, *names: str) -> None:
    page = Page(url="https://example.org/", status=200, headers={}, body=_WARM)
    for name in names:
        try:
            extractor.harvest(Rule(fields={name: _FIELDS[name]}), page)
        except CrawlfleetError:
            continue  # the parser is loaded


def _load(extractor: RuleExtractor, names: Sequence[str]) -> None:
    _warm(extractor, *names)
    for name in REGISTRY.names():
        if name != "scrapy":  # which brings much, and is used by few
            try:
                REGISTRY.find(name)
            except CrawlfleetError:
                continue
