"""Readers of pages, rules and spiders, as the functions that carry the parsers know them.

Whoever imports this gets no event loop: the process that pages are read in has none.
"""

from pathlib import Path
from typing import Final

from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.crawling.executors.registry import allow_spiders, check_spider
from crawlfleet.crawling.records.schema import SchemaValidator
from crawlfleet.kernel.errors import Problem

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
        found = check_spider(reader, check_rule=check_rule)
    if reader.schema is not None:
        found += SchemaValidator().check_schema(reader.schema, "schema")
    return found
