"""What reads pages: rules and spiders, as the functions that carry the parsers know them.

A consumer asked to try a rule: a worker's parts, for one page, in an event loop of its own.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from crawlfleet.apps.context import Parts
from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.crawling.executors.registry import Registry, allow_spiders, check_spider
from crawlfleet.crawling.executors.runner import SpiderExecutors
from crawlfleet.crawling.fetching.downloader import AiohttpFetcher
from crawlfleet.crawling.politeness.redis import RedisHosts, RedisRobotsCache
from crawlfleet.crawling.records.schema import SchemaValidator
from crawlfleet.crawling.trials.remote import Question, Tried
from crawlfleet.crawling.trials.service import TrialRunner, try_rule
from crawlfleet.kernel.errors import InvalidRequestError, Problem
from crawlfleet.kernel.time import Clock

#: The executors there are: built in, of installed packages, and of files dropped beside the
#: consumer's handler. Lambda and the local cloud run where that folder is.
REGISTRY: Final = Registry(Path("functions/consumer/executors"))

#: Where the bundle puts Scrapy, what it requires and the operator's packages (infra/spiders.py).
SCRAPY_FOLDER: Final = Path("functions/consumer/scrapy")


def carry_spiders(packages: tuple[str, ...]) -> None:
    """Let spiders of these packages be named; imports nothing of them, and not Scrapy."""
    allow_spiders(*packages, folder=SCRAPY_FOLDER if packages else None)


def check_reader(reader: Rule | Spider) -> list[Problem]:
    """Every mistake of a rule or a spider (config.validation.ReaderCheck).

    Importing what it takes brings in the parsers, so that happens here and not before.
    """
    from crawlfleet.crawling.extract.extractor import check_rule
    from crawlfleet.crawling.records.schema import SchemaValidator

    if isinstance(reader, Rule):
        found = check_rule(reader)
    else:
        found = check_spider(reader, registry=REGISTRY, check_rule=check_rule)
    if reader.schema is not None:
        found += SchemaValidator().check_schema(reader.schema, "schema")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialParts:
    """What a trial shares with the worker of the same environment."""

    hosts: RedisHosts
    robots: RedisRobotsCache
    executors: SpiderExecutors
    validator: SchemaValidator
    clock: Clock
    read_secret: Callable[[str], str]


def answer(parts: Parts, shared: TrialParts, event: Mapping[str, Any], who: str) -> dict[str, Any]:
    """The answer to an event's question, as plain values."""
    try:
        question = msgspec.convert(event["trial"], Question)
    except msgspec.ValidationError as error:
        raise InvalidRequestError.of("trial", str(error)) from error
    found: dict[str, Any] = msgspec.to_builtins(asyncio.run(_answer(parts, shared, question, who)))
    return found


async def _answer(parts: Parts, shared: TrialParts, question: Question, who: str) -> Tried:
    allow_private = parts.config.current().stage.allow_private_addresses
    async with AiohttpFetcher(allow_private, read_secret=shared.read_secret) as fetcher:
        ports = TrialRunner(
            config=parts.config,
            hosts=shared.hosts,
            robots=shared.robots,
            fetcher=fetcher,
            executors=shared.executors,
            validator=shared.validator,
            clock=shared.clock,
            check=check_reader,
            read=try_rule,
        )
        return await ports.answer(question, f"trial-{who}")
