"""Names tests use of executors: pages, files, feeds, spiders."""

from crawlfleet.apps.readers import carry_spiders
from crawlfleet.crawling.executors.base import Executor, NoParameters
from crawlfleet.crawling.executors.csv import CsvParameters
from crawlfleet.crawling.executors.json import JsonParameters
from crawlfleet.crawling.executors.limits import SKIPPED_REPORTED, PageBounds
from crawlfleet.crawling.executors.registry import BUILT_IN, Registry, check_spider
from crawlfleet.crawling.executors.runner import BadRecords, SpiderExecutors
from crawlfleet.crawling.executors.scrapy_packages import allow_spiders, allowed, is_allowed
from crawlfleet.crawling.executors.scrapy_spider import META_KEY, ScrapyParameters
from crawlfleet.crawling.executors.scrapy_wire import (
    NotPortableError,
    dump_request,
    fields_of_dict,
    item_fields,
    load_request,
    request_of,
)
from crawlfleet.crawling.executors.url_list import UrlListParameters
from crawlfleet.crawling.executors.xml import mended
