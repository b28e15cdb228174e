"""A queue that Redis has lost, in whole or in part, is filled again from the truth (SPEC.md A5).

Redis keeps a mark beside each queue, and MongoDB remembers it. Another mark, or another server
(a restart, a failover to a replica, a restored snapshot), and nothing of the queue can be relied
on: what is there is dropped and everything that is pending or waiting is queued. What workers hold
they go on with; the truth knows that they own it.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

from crawlfleet.config.documents.biz import Biz
from crawlfleet.fleet.recovery.ports import RecoveryPorts
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import to_ms
from crawlfleet.requests.ledger import JournalLine
from crawlfleet.requests.models import QueueEpoch

#: What waits for its next attempt and is listed at once; more of it is found when it is due.
DELAYED: Final = 100_000
#: Clocks differ: what was stamped by one that runs ahead was in the queue too. What is submitted
#: while the queue is being filled may so be queued twice, which the claim sees.
SKEW: Final = timedelta(minutes=5)
#: With less time left the filling is left to the next round, which goes on from there.
MARGIN_SECONDS: Final = 10.0


def is_whole(mark: QueueEpoch, remembered: QueueEpoch | None) -> bool:
    """Whether the queue is the one that was filled last, on the server where that was done."""
    return (
        remembered is not None
        and mark.reached is None
        and mark.nonce is not None
        and (mark.nonce, mark.server) == (remembered.nonce, remembered.server)
    )


def rebuild_if_lost(
    ports: RecoveryPorts,
    queue_key: QueueKey,
    biz: Biz,
    by: str,
    now: datetime,
    time_left: Callable[[], float],
) -> int | None:
    """Fill the lane's queue if it is not what it was; None if it is, else how many were queued.

    A round that ends half-way, or a filler that is killed, leaves a note of how far it has come.
    """
    mark = ports.rebuild.mark(queue_key)
    remembered = ports.revocation.remembered_epoch(queue_key, biz)
    if is_whole(mark, remembered):
        return None
    nonce, since = mark.nonce, mark.reached
    if nonce is None or since is None or not nonce.startswith(_stem(mark)):
        nonce, since = f"{_stem(mark)}{uuid4().hex[:16]}", 0
        ports.rebuild.clear(queue_key, nonce)
    else:
        since += 1
    count, complete = _fill(ports, queue_key, biz, nonce, since, now, time_left)
    if complete and ports.rebuild.filled(queue_key, nonce):
        ports.revocation.remember_epoch(queue_key, biz, QueueEpoch(server=mark.server, nonce=nonce))
    if count or remembered is not None:
        _note(ports, queue_key, by, now, _reason(mark, remembered), count)
    return count


def _fill(
    ports: RecoveryPorts,
    queue_key: QueueKey,
    biz: Biz,
    nonce: str,
    since: int,
    now: datetime,
    time_left: Callable[[], float],
) -> tuple[int, bool]:
    """Queue what is pending from ``since`` on, then what waits; returns how many, and if all."""
    count = 0
    while True:
        if time_left() < MARGIN_SECONDS:
            return count, False
        entries = ports.revocation.pending(
            queue_key, biz, since=since, before=now + SKEW, now=now, limit=ports.fill_chunk
        )
        if not entries:
            break
        reached = entries[-1].ts
        if not ports.rebuild.fill(queue_key, nonce, entries, reached):
            return count, False  # somebody else has begun anew
        count += len(entries)
        since = reached + 1
        if since > to_ms(now + SKEW):
            break
    waiting = ports.revocation.waiting(queue_key, biz, now=now, limit=DELAYED)
    for start in range(0, len(waiting), ports.fill_chunk):
        part = waiting[start : start + ports.fill_chunk]
        if not ports.rebuild.fill_delayed(queue_key, nonce, part):
            return count, False
    return count + len(waiting), True


def _stem(mark: QueueEpoch) -> str:
    """What the nonce of a filling begins with: one begun on another server is no good here."""
    return f"{mark.server[:16]}."


def _reason(mark: QueueEpoch, remembered: QueueEpoch | None) -> str:
    if remembered is None:
        return "its queue had never been filled"
    if mark.reached is not None:
        return "its queue was still being filled"
    if mark.server != remembered.server:
        return "Redis was restarted, or another one answers than held its queue"
    return "Redis had lost its queue"


def _note(
    ports: RecoveryPorts, queue_key: QueueKey, by: str, now: datetime, reason: str, count: int
) -> None:
    why = f"{reason}: queued again from MongoDB"
    try:
        ports.journal.note(
            queue_key, JournalLine(at=now, by=by, kind="filled", why=why, count=count)
        )
    except Exception as error:  # noqa: BLE001  it is done, whoever can read of it
        warn("the journal could not be written", error)
