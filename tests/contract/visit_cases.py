"""Visits of a biz that re-crawls, for the stores that keep them."""

from datetime import timedelta
from hashlib import blake2b

from tests.contract.store_cases import NOW, a_biz
from tests.kit.config import RecrawlPolicy
from tests.kit.requests import Validators, Visit

POLICY = RecrawlPolicy(schedule=True)
BIZ = a_biz(recrawl=POLICY)
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


def a_visit(number: int = 0, **changes: object) -> Visit:
    facts: dict = {
        "key": blake2b(str(number).encode(), digest_size=16).hexdigest(),
        "url": f"https://site.example/{number}",
        "rule": "detail",
        "rule_version": "v1",
        "depth": 3,
        "meta": {"list_page": 3, "$a.b": None, "x": "é", "scrapy": '{"callback": "item"}'},
        "visited_at": NOW,
        "changed_at": NOW - HOUR,
        "next_at": NOW + number * SECOND,
        "interval_seconds": 3_600.5,
        "validators": Validators(etag='W/"$x.y"', last_modified="Sun, 01 Mar 2026 11:00:00 GMT"),
        "content": "00ff" * 8,
        "visits": 7,
        "changes": 2,
        "saved": 3,
    }
    return Visit(**{**facts, **changes})
