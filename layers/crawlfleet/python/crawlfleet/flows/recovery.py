"""Recovery (SPEC.md A5, A9): what is persisted but not queued goes back into the queue.

What passed its time to live unprocessed is counted before it disappears.

MongoDB is the truth, so whatever Redis lost is found here. Repeats do no harm: the claim decides.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from crawlfleet.flows.configuration import biz_of
from crawlfleet.model.biz import Tree
from crawlfleet.model.times import from_ms, to_ms
from crawlfleet.policy.scaling import queued_before
from crawlfleet.ports import RequestQueue, RequestStore

#: A submission gets this long from MongoDB to Redis before it counts as lost on the way.
SLACK_SECONDS: Final = 5.0
#: Leases that ended are taken back by the queue itself; recovery steps in when it did not.
OVERDUE: Final = timedelta(seconds=30)
#: With less time left than one lane of a silent node may cost, no other lane is begun.
MARGIN_SECONDS: Final = 30.0
#: Entries queued again in one round for one lane, and in one call.
BATCH: Final = 100_000
CHUNK: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPorts:
    """What recovery needs of the world."""

    store: RequestStore
    queue: RequestQueue
    warn: Callable[[str, Exception], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What one round did, over all lanes."""

    requeued: int = 0
    expired: int = 0


def recover(
    ports: RecoveryPorts, tree: Tree, now: datetime, time_left: Callable[[], float]
) -> Recovered:
    """One round over every lane. A lane that fails, however it does, is left for the next round.

    A node that does not answer costs seconds a lane, so the round ends when less than
    :data:`MARGIN_SECONDS` are left, and each minute's round begins with another lane.
    """
    requeued = expired = 0
    lanes = tree.lanes()
    first = int(now.timestamp() // 60) % len(lanes) if lanes else 0
    for lane in (*lanes[first:], *lanes[:first]):
        if time_left() < MARGIN_SECONDS:
            break
        _, biz = biz_of(tree, lane.tenant, lane.biz)
        try:
            expired += ports.store.expire(lane, biz, now)
            depth = ports.queue.depth(lane)
            before = from_ms(int(queued_before(depth, now, SLACK_SECONDS) * 1000))
            entries = ports.store.unqueued(lane, biz, before=before, now=now - OVERDUE, limit=BATCH)
            # Those overdue may be in the queue since an earlier round, where nobody works: the same
            # bound keeps them from being queued in every round.
            missing = [entry for entry in entries if entry.ts < to_ms(before)]
            # Each call puts its entries before all others, so the oldest go last; whoever dies on
            # the way leaves the oldest out, and those are what the next round looks for.
            for start in reversed(range(0, len(missing), CHUNK)):
                ports.queue.requeue(lane, missing[start : start + CHUNK])
            requeued += len(missing)
        except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
            ports.warn(f"{lane.tenant}/{lane.biz} could not be recovered", error)
    return Recovered(requeued=requeued, expired=expired)
