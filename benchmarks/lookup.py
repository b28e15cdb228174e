"""A request by its id through the router, among very many in several shards."""

import random
import time
from typing import Final

import msgspec

from benchmarks.bench import Bench, BenchError, Found
from benchmarks.figures import percentile
from benchmarks.house import BIZ, PAGE_RULE, QUEUE_KEY, TENANT, tree_of
from benchmarks.routing import Router, event
from crawlfleet.apps.context import now
from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.ids import IdKind, RequestId
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.models import Body, Request

BATCH: Final = 10_000
SHARDS: Final = 4
_WARM_UP: Final = 50


def run(bench: Bench) -> Found:
    """Store them, then look some up in random order."""
    bench.addresses.clear()
    router = Router(bench.addresses, tree_of(shards=SHARDS // 2, databases=("docs", "more")))
    choose = random.Random(1)
    try:
        kept: list[RequestId] = []
        for _ in range(0, bench.scale.stored_requests, BATCH):
            ids = _store(router, min(BATCH, bench.scale.stored_requests))
            kept.extend(choose.sample(ids, min(len(ids), bench.scale.lookups // 10)))
            bench.tick("requests for the look-up")
        ledger = router.parts.ledgers.totals(QUEUE_KEY, _biz(router), now())
        if ledger.pending != bench.scale.stored_requests:
            raise BenchError(f"{ledger} is stored")
        wanted = choose.choices(kept, k=bench.scale.lookups)
        for request_id in wanted[:_WARM_UP]:
            look_up(router, request_id)
        times = [look_up(router, request_id) * 1_000 for request_id in wanted]
    finally:
        router.close()
    details = {f"p{percent}": percentile(times, percent) for percent in (50, 90, 99, 99.9)}
    return Found(
        figures={"lookup_p99_ms": details["p99"]}, details={"look-up, milliseconds": details}
    )


def _store(router: Router, count: int) -> list[RequestId]:
    """Requests as a submission stores them, without going through it a thousand times."""
    parts = router.parts
    ids = parts.ids.take(QUEUE_KEY, IdKind.SNOWFLAKE, count)
    queued_at, version = from_ms(to_ms(now())), PAGE_RULE.version
    requests = [
        Request(
            id=an_id,
            tenant=TENANT,
            biz=BIZ,
            queued_at=queued_at,
            body=Body(
                url=f"https://example.org/library/page?{an_id}", rule="page", rule_version=version
            ),
        )
        for an_id in ids
    ]
    inserted = parts.store.insert(QUEUE_KEY, _biz(router), requests)
    if inserted.refused or inserted.existing:
        raise BenchError(f"not stored: {inserted}")
    return ids


def _biz(router: Router) -> Biz:
    return router.parts.config.current().bizs[TENANT][BIZ]


def look_up(router: Router, request_id: RequestId) -> float:
    """Ask for a request as a client does; the seconds that takes."""
    call = event("GET", f"/v1/{BIZ}/requests/{request_id}")
    started = time.perf_counter()
    body = router.call(call, 200)
    took = time.perf_counter() - started
    if msgspec.json.decode(body)["id"] != str(request_id):
        raise BenchError(f"asked for {request_id}, got {body[:200]}")
    return took
