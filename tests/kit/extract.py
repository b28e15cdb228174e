"""Names tests use of extraction: rules, selectors, transforms, links."""

from crawlfleet.extract import RuleExtractor, check_rule, encoding
from crawlfleet.extract.bounds import UnreadableError
from crawlfleet.extract.casts import cast
from crawlfleet.extract.compile import Compiled
from crawlfleet.extract.declared_encoding import WITHIN, declared_label
from crawlfleet.extract.encoding import codec_of, decode
from crawlfleet.extract.follow import CANDIDATES_MAX, META_BYTES_MAX
from crawlfleet.extract.guard import guard_html
from crawlfleet.extract.links import Addresses
from crawlfleet.extract.nesting import DEPTH_MAX, Elements, walk
from crawlfleet.extract.trial import try_rule
from crawlfleet.policy.coverage import (
    LONGEST_NAME,
    MOST_FIELDS,
    MOST_VERSIONS,
    countable,
    coverage_of,
    together,
)
from crawlfleet.policy.following import LINKS_MAX, Way, ended, page_number, site_of, within
from crawlfleet.policy.rule_shape import MAX_DEPTH, MAX_FIELDS, shape_problems
