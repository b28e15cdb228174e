"""Readers of pages, rules and spiders, as the functions that carry the parsers know them.

A consumer asked to try a rule reads one page with them, in an event loop of its own.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.crawling.executors.registry import Registry, allow_spiders, check_spider
from crawlfleet.crawling.fetching.downloader import AiohttpFetcher
from crawlfleet.crawling.records.schema import SchemaValidator
from crawlfleet.crawling.trials.remote import Question, Tried
from crawlfleet.crawling.trials.service import TrialRunner, try_rule
from crawlfleet.kernel.errors import InvalidRequestError, Problem

#: The executors there are: built in, of installed packages, and of files dropped beside the
#: consumer's handler. Lambda and the local cloud run where that folder is.
REGISTRY: Final = Registry(Path("functions/consumer/executors"))

#: Where the bundle puts Scrapy, what it requires and the operator's packages (infra/spiders.py).
SCRAPY_FOLDER: Final = Path("functions/consumer/scrapy")


def carry_spiders(packages: tuple[str, ...]) -> None:
    """Let spiders of these packages be named; imports nothing of them, and not Scrapy."""
    allow_spiders(*packages, folder=SCRAPY_FOLDER if packages else None)


def check_reader(reader: Rule | Spider) -> list[Problem]:
    """Return every error of a rule or a spider (config.validation.ReaderCheck).

    Importing what it takes brings in the parsers, so that happens here and not before.
    """
    from crawlfleet.crawling.extract.extractor import check_rule

    if isinstance(reader, Rule):
        found = check_rule(reader)
    else:
        found = check_spider(reader, registry=REGISTRY, check_rule=check_rule)
    if reader.schema is not None:
        found += SchemaValidator().check_schema(reader.schema, "schema")
    return found


def answer(
    runner: Callable[..., TrialRunner],
    fetcher: Callable[[], AiohttpFetcher],
    event: Mapping[str, Any],
    who: str,
) -> dict[str, Any]:
    """Answer an event's question, by a worker's parts for one page; returns plain values."""

    async def run(question: Question) -> Tried:
        async with fetcher() as opened:
            trials = runner(fetcher=opened, check=check_reader, read=try_rule)
            return await trials.answer(question, f"trial-{who}")

    try:
        question = msgspec.convert(event["trial"], Question)
    except msgspec.ValidationError as error:
        raise InvalidRequestError.of("trial", str(error)) from error
    found: dict[str, Any] = msgspec.to_builtins(asyncio.run(run(question)))
    return found
