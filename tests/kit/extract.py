"""Names tests use of extraction: rules, selectors, transforms, links."""

from crawlfleet.config.rule_validation import MAX_DEPTH, MAX_FIELDS, shape_problems
from crawlfleet.crawling.extract import encoding
from crawlfleet.crawling.extract.casts import cast
from crawlfleet.crawling.extract.compile import Compiled
from crawlfleet.crawling.extract.document import REPAIRED_BYTES_MAX, guard_html, parse_xml
from crawlfleet.crawling.extract.encoding import WITHIN, codec_of, declared_label, decode
from crawlfleet.crawling.extract.extractor import RuleExtractor, check_rule
from crawlfleet.crawling.extract.follow import CANDIDATES_MAX, META_BYTES_MAX
from crawlfleet.crawling.extract.limits import UNITS_MAX, Meter, UnreadableError
from crawlfleet.crawling.extract.links import (
    LINKS_MAX,
    Addresses,
    LinkFilter,
    ended,
    page_number,
    site_of,
    within,
)
from crawlfleet.crawling.extract.nesting import DEPTH_MAX, Elements, walk
from crawlfleet.crawling.extract.repair import repaired_xml
from crawlfleet.crawling.records.coverage import (
    LONGEST_NAME,
    MOST_FIELDS,
    countable,
    coverage_of,
    together,
)
from crawlfleet.crawling.records.redis import MOST_VERSIONS
from crawlfleet.crawling.trials.pages import try_page, try_rule
