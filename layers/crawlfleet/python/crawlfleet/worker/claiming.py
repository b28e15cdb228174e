"""Claim leased entries in MongoDB: the requests become the worker's own, or are let go at once."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeAlias

from crawlfleet.config.documents.biz import Biz
from crawlfleet.crawling.recrawl import service as recrawling
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.leased import LeasedRequest
from crawlfleet.requests.models import Claim, Entry
from crawlfleet.worker.session import Session

Release: TypeAlias = Callable[[QueueKey, Biz, Sequence[Claim], str], None]


def claim_entries(
    session: Session,
    queue_key: QueueKey,
    biz: Biz,
    token: str,
    entries: Sequence[Entry],
    until: datetime,
    release: Release,
) -> list[LeasedRequest]:
    """Claim entries; return those that were won, each with its rule. It blocks."""
    # Both leases end at one time: where Redis leases an entry again, MongoDB lets it be claimed.
    services, now = session.services, session.services.clock()
    try:
        claims = services.store.claim(queue_key, biz, entries, session.worker, now, until, token)
    except Exception:
        services.queue.give_back(queue_key, token, entries)
        raise
    session.report.leased += len(claims)
    if len(claims) < len(entries):
        won = {one.entry.id for one in claims}
        _let_go(session, queue_key, biz, token, [e for e in entries if e.id not in won])
    ends_at = services.steady.now() + (until - services.clock()).total_seconds()
    try:
        leased = []
        for one in claims:
            body = one.request.body
            rule = services.rules.get_version(queue_key, body.rule, body.rule_version)
            leased.append(LeasedRequest(queue_key, biz, one, rule, ends_at))
    except Exception:
        release(queue_key, biz, claims, "handed back: its rule could not be looked up")
        raise
    _recall(session, queue_key, biz, leased)
    return leased


def _recall(
    session: Session, queue_key: QueueKey, biz: Biz, leased: Sequence[LeasedRequest]
) -> None:
    """Look up what is known of pages since they were last read, where that matters."""
    if biz.recrawl is None:
        return
    services = session.services
    claims, resolver = [one.claim for one in leased], services.seeding.resolver
    known = recrawling.prepare(services.visits, queue_key, biz, claims, resolver)
    for one in leased:
        one.known = known.get(one.claim.request.id)


def _let_go(
    session: Session, queue_key: QueueKey, biz: Biz, token: str, entries: Sequence[Entry]
) -> None:
    """Drop entries of gone or final requests and repeats; delay those that are another's.

    These come back when its lease ends: that other may be dead, and this the only entry.
    """
    services = session.services
    session.report.skipped += len(entries)
    try:
        busy = services.store.due(queue_key, biz, entries)
    except Exception as error:  # noqa: BLE001  recovery finds what comes to be missing
        warn("entries that are another's could not be looked up", error)
        busy = []
    kept = {entry.id for entry, _ in busy}
    dropped = [entry for entry in entries if entry.id not in kept]
    try:
        services.queue.delay(queue_key, token, busy)
        services.queue.finish(queue_key, token, dropped, 0, services.clock())
    except Exception as error:  # noqa: BLE001  the lease in Redis ends by itself
        warn("entries that were not won could not be let go", error)
