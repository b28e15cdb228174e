"""Make the sample of a queue of what was read of it (SPEC.md A10, A11)."""

from datetime import datetime

import msgspec

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.documents.stage import own_or
from crawlfleet.config.lookup import biz_of
from crawlfleet.fleet.autoscaler import latest_first
from crawlfleet.fleet.models import QueueSample
from crawlfleet.fleet.status import finish_seconds, is_late
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import to_ms
from crawlfleet.requests.models import Ledger
from crawlfleet.requests.queue import stats


class QueueReading(msgspec.Struct, frozen=True):
    """A queue as Redis has it, with submissions and outcomes by their second."""

    depth: stats.Depth
    load: stats.Load
    submitted: dict[int, int]
    processed: dict[int, int]


class LedgerReading(msgspec.Struct, frozen=True):
    """A biz's ledger, and why its records could not be counted, if so."""

    totals: Ledger
    records: int | None = None
    why_no_records: Exception | None = None


def queue_sample(
    tree: Tree,
    queue_key: QueueKey,
    queue: QueueReading | None,
    book: LedgerReading | None,
    audited: Ledger | None,
    now: datetime,
) -> QueueSample:
    """Return the sample of a queue; of what could not be read, it has nothing."""
    _, biz = biz_of(tree, queue_key.tenant, queue_key.biz)
    totals = None if book is None else book.totals
    seen = QueueSample(
        queue_key=queue_key,
        ledger=audited or totals,
        difference=None if audited is None else audited.difference,
        records=None if book is None else book.records,
        planned_seconds=biz.planned_seconds,
    )
    if queue is None:
        return seen
    second, depth = to_ms(now) // 1000, queue.depth
    oldest = 0.0 if depth.oldest_ts is None else max(0.0, (to_ms(now) - depth.oldest_ts) / 1000)
    processed = stats.rates(queue.processed, second)
    longest = own_or(
        biz.thresholds.oldest_waiting_seconds, tree.stage.thresholds.oldest_waiting_seconds
    )
    late = is_late(
        oldest_seconds=oldest,
        longest_seconds=longest,
        queued=depth.queued,
        per_second=processed.per_60s,
        planned_seconds=biz.planned_seconds,
        submitted=latest_first(queue.submitted, second),
    )
    return msgspec.structs.replace(
        seen,
        depth=depth,
        load=queue.load,
        oldest_seconds=oldest,
        submitted=stats.rates(queue.submitted, second),
        processed=processed,
        submitted_seconds=stats.before(queue.submitted, second),
        processed_seconds=stats.before(queue.processed, second),
        retries=depth.delayed,
        finish_seconds=finish_seconds(depth.queued, processed.per_60s),
        late=late,
    )
