"""Names tests use of recrawling: policy, history of pages and their service."""

from crawlfleet.crawling.recrawl import policy as recrawl
from crawlfleet.crawling.recrawl.mongo import BY_SPARED, MongoVisits
from crawlfleet.crawling.recrawl.policy import (
    META_ROOM,
    PageContent,
    condition,
    next_visit,
    put_off,
    validators_of,
    with_room,
)
from crawlfleet.crawling.recrawl.service import (
    GRACE,
    Recrawl,
    get_visit,
    prepare,
    seen,
    totals,
    undue,
)
from crawlfleet.requests.visits import Recollection
