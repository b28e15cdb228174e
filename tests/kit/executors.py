"""Names tests use of executors: pages, files, feeds, spiders."""

from crawlfleet.executors import (
    Executor,
    NoParameters,
    Registry,
    SpiderExecutors,
    check_spider,
)
from crawlfleet.executors.bounds import SKIPPED_TOLD, PageBounds
from crawlfleet.executors.chunks import BadRecords
from crawlfleet.executors.csv_file import CsvParameters
from crawlfleet.executors.json_file import JsonParameters
from crawlfleet.executors.registry import BUILT_IN
from crawlfleet.executors.scrapy_packages import allow_spiders, allowed, is_allowed
from crawlfleet.executors.scrapy_spider import META_KEY, ScrapyParameters
from crawlfleet.executors.scrapy_wire import (
    NotPortableError,
    dump_request,
    fields_of_dict,
    item_fields,
    load_request,
    request_of,
)
from crawlfleet.executors.url_list import UrlListParameters
from crawlfleet.executors.xml_mending import mended
from crawlfleet.wiring.readers import carry_spiders
