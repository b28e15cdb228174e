"""What reads pages: rules and spiders, as the functions that carry the parsers know them."""

from crawlfleet.errors import Problem
from crawlfleet.model.rule import Rule
from crawlfleet.model.spider import Spider


def check_reader(reader: Rule | Spider) -> list[Problem]:
    """Every mistake of a rule or a spider (policy.document_checks.ReaderCheck).

    Importing what it takes brings in the parsers, so that happens here and not before.
    """
    from crawlfleet.adapters.schema import JsonSchemas
    from crawlfleet.executors.registry import check_spider
    from crawlfleet.extract import check_rule

    found = check_rule(reader) if isinstance(reader, Rule) else check_spider(reader)
    if reader.schema is not None:
        found += JsonSchemas().check_schema(reader.schema, "schema")
    return found
