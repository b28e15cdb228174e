"""Executors: classes that read a page where a rule does not (SPEC.md B7, B8).

``base`` says how to write one, ``registry`` which there are and whether a spider is right,
``applying`` runs them within ``bounds``. The built-in ones are a file each: ``paginated_list``,
``detail``, ``sitemap``, ``feed``, ``xml_file``, ``json_file``, ``csv_file``, ``url_list``. They
share ``bodies`` (unpacked, decoded), ``xml_stream``, ``chunks`` (records through the rules'
reader), ``following`` (links), ``dates`` and ``patterns``; ``csv_text`` and ``columns`` are the
tables' own. Parsers are loaded by the first page that needs them.
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
