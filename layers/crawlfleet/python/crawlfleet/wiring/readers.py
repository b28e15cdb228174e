"""What reads pages: rules and spiders, as the functions that carry the parsers know them."""

from pathlib import Path
from typing import Final

from crawlfleet.errors import Problem
from crawlfleet.executors.registry import Registry, check_spider
from crawlfleet.executors.scrapy_packages import allow_spiders
from crawlfleet.model.rule import Rule
from crawlfleet.model.spider import Spider

#: The executors there are: built in, of installed packages, and of files dropped beside the
#: consumer's handler. Lambda and the local cloud run where that folder is.
REGISTRY: Final = Registry(Path("functions/consumer/executors"))

#: Where the bundle puts Scrapy, what it requires and the operator's packages (infra/spiders.py).
SCRAPY_FOLDER: Final = Path("functions/consumer/scrapy")


def carry_spiders(packages: tuple[str, ...]) -> None:
    """Let spiders of these packages be named; imports nothing of them, and not Scrapy."""
    allow_spiders(*packages, folder=SCRAPY_FOLDER if packages else None)


def check_reader(reader: Rule | Spider) -> list[Problem]:
    """Every mistake of a rule or a spider (policy.document_checks.ReaderCheck).

    Importing what it takes brings in the parsers, so that happens here and not before.
    """
    from crawlfleet.adapters.schema import SchemaValidator
    from crawlfleet.extract import check_rule

    if isinstance(reader, Rule):
        found = check_rule(reader)
    else:
        found = check_spider(reader, registry=REGISTRY, check_rule=check_rule)
    if reader.schema is not None:
        found += SchemaValidator().check_schema(reader.schema, "schema")
    return found
