"""Names tests use of recrawling: policy, history of pages and their service."""

from crawlfleet.adapters.mongo.visits import MongoVisits
from crawlfleet.flows.recrawling import (
    GRACE,
    Recollection,
    RecrawlPorts,
    look_at,
    prepare,
    resubmit,
    resubmit_due,
    seen,
    totals,
)
from crawlfleet.policy import recrawl
from crawlfleet.policy.page_content import PageContent
from crawlfleet.policy.recrawl import (
    META_ROOM,
    condition,
    next_visit,
    put_off,
    validators_of,
    with_room,
)
from crawlfleet.ports import Visits
