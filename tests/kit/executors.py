"""Names tests use of executors: pages, files, feeds, spiders."""

from crawlfleet.apps.readers import carry_spiders
from crawlfleet.crawling.executors.base import (
    SKIPPED_REPORTED,
    Context,
    Executor,
    NoParameters,
    PageBounds,
    Parameters,
)
from crawlfleet.crawling.executors.csv import CsvParameters
from crawlfleet.crawling.executors.json import JsonParameters
from crawlfleet.crawling.executors.registry import (
    BUILT_IN,
    Registry,
    allow_spiders,
    allowed,
    check_spider,
    is_allowed,
    starts_of,
)
from crawlfleet.crawling.executors.runner import BadRecords, SpiderExecutors
from crawlfleet.crawling.executors.scrapy_spider import ScrapyParameters
from crawlfleet.crawling.executors.scrapy_wire import (
    NotPortableError,
    dump_request,
    fields_of_dict,
    item_fields,
    load_request,
    request_of,
)
from crawlfleet.crawling.executors.sitemap import UrlListParameters
from crawlfleet.crawling.executors.xml import mended
