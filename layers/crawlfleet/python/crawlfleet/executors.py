"""Executors: classes that read a page where a rule does not (SPEC.md B7, B8).

``crawling.executors.base`` says how to write one and bounds what it costs, ``registry`` finds them
and checks spiders, ``runner`` runs them. The built-in ones are ``page`` (detail, paginated_list),
``sitemap`` (and url_list), ``feed``, ``xml``, ``json``, ``csv`` and ``scrapy_spider``; they share
``bodies`` (unpacked, decoded). Parsers are loaded by the first page that needs them.
"""

from crawlfleet.crawling.executors.base import (
    Context,
    Executor,
    Found,
    NoParameters,
    Parameters,
    UsedRule,
)
from crawlfleet.crawling.executors.registry import Registry, check_spider
from crawlfleet.crawling.executors.runner import BadRecords, SpiderExecutors
from crawlfleet.requests.models import Link, Skipped

__all__ = [
    "BadRecords",
    "Context",
    "Executor",
    "Found",
    "Link",
    "NoParameters",
    "Parameters",
    "Registry",
    "Skipped",
    "SpiderExecutors",
    "UsedRule",
    "check_spider",
]
