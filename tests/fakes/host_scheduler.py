"""The host scheduler of the in-memory fake: slots, shares and permits as Lua grants them.

An entry is a value; an ask or a report makes a new one of it. These functions do what
``crawling/politeness/lua/reserve_slots.lua`` and ``report_host.lua`` do (they explain the law),
number for number, to which the contract tests hold both. Times are whole microseconds.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from tests.fakes.host_counts import HostCounts, lately
from tests.kit.kernel import from_ms
from tests.kit.politeness import (
    DEMAND_SECONDS,
    FLEETING_SECONDS,
    HORIZON_SECONDS,
    MILLION,
    PERMIT_SECONDS,
    HostAsk,
    HostGrant,
    HostState,
    back_off_of,
    micros,
)

HORIZON_US: Final = round(HORIZON_SECONDS * MILLION)
PERMIT_US: Final = round(PERMIT_SECONDS * MILLION)
DEMAND_US: Final = round(DEMAND_SECONDS * MILLION)
#: A grant stands for so long.
GRACE_US: Final = MILLION
#: What an answer is taken to need before any was measured.
GUESS_US: Final = MILLION
#: An ask that got less may be repeated in no less than this, and where it waits for permits in half
#: an answer's time, within bounds.
SOON_US: Final = 50_000
PERMIT_SOON_US: Final = 200_000
PERMIT_LATE_US: Final = MILLION
#: Tenants that are remembered at a host at once. Whoever comes beyond them waits.
MAX_TENANTS: Final = 128
#: A host that nobody asks for is forgotten after this, but not while a slot or a back-off is due;
#: one that nothing slows sooner.
IDLE_US: Final = 3_600 * MILLION
FLEETING_US: Final = round(FLEETING_SECONDS * MILLION)


class TenantEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant at a host.

    ``last`` is its latest slot, ``interval`` what lies between its slots. Its share begins again at
    ``share_at``. Others were why it got less than it asked for at ``unmet_at``, and it would have
    as many permits as ``want``. It got a slot at ``served_at``. Of what several want it has its
    ``share``.
    """

    last: int = 0
    interval: int = 1
    share_at: int = 0
    unmet_at: int = 0
    want: int = 0
    concurrency: int = 1
    served_at: int = 0
    share: int = 1


class Permit(msgspec.Struct, frozen=True):
    """Downloads that a worker may have in flight for a tenant, and until when."""

    count: int
    granted_at: int
    until: int


class Strain(msgspec.Struct, frozen=True):
    """Overload of an origin: until when, how often in a row, up to what interval it doubles it."""

    until: int = 0
    overload: int = 0
    slow: int = 0


class HostEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A host; permits by worker and tenant.

    ``last`` is the latest slot of all and ``gap`` its interval. ``answer`` is how long an answer
    takes, ``pace`` the interval that comes of it (0 for none). ``strains`` are by tenant, those of
    all under "", and ``paces`` what answers take through a tenant's proxies, with what comes of it.
    ``report_host.lua`` explains these. ``counts`` are for people alone.
    """

    last: int = 0
    gap: int = 0
    answer: int = 0
    pace: int = 0
    strains: dict[str, dict[str, Strain]] = {}
    paces: dict[str, tuple[int, int]] = {}
    counts: HostCounts = HostCounts()
    tenants: dict[str, TenantEntry] = {}
    permits: dict[tuple[str, str], Permit] = {}


def strain_of(host: HostEntry, whose: str, origin: str) -> Strain:
    """Get the overload of an origin; of "" the worst of all."""
    found = [one for name, one in host.strains.get(whose, {}).items() if origin in {"", name}] or [
        Strain()
    ]
    return Strain(
        max(one.until for one in found),
        max(one.overload for one in found),
        max(one.slow for one in found),
    )


class _Offer(msgspec.Struct, kw_only=True):
    """The slots for an ask, as far as it was computed.

    The tenant's share is used up to ``share_from``, and by ``meter`` more with each slot. Without
    other tenants it would get ``alone`` of what it asked for.
    """

    count: int
    start: int
    interval: int
    why: str = ""
    ready: int = 0
    share_from: int = 0
    meter: int = 0
    alone: int = 0


def reserve(host: HostEntry, ask: HostAsk, worker: str, now: int) -> tuple[HostEntry, HostGrant]:
    """Grant an ask its slots; return the host as it is then, too."""
    host = swept(host, now, ask.tenant)
    if ask.tenant not in host.tenants and len(host.tenants) >= MAX_TENANTS:
        return host, _granted(ask, _Offer(count=0, start=now, interval=1, why="share"), 0, now)
    own = host.tenants.get(ask.tenant, TenantEntry())
    own = replace(own, concurrency=ask.concurrency, share=ask.share)
    rivals = {
        name: one
        for name, one in host.tenants.items()
        if name != ask.tenant and one.unmet_at + DEMAND_US > now
    }
    kept = keeps(host, worker, ask.tenant, ask.running, ask.concurrency, now)
    offer = _slots(host, ask, own, rivals, now)
    theirs = sum(
        permit.count
        for (of, tenant), permit in host.permits.items()
        if tenant == ask.tenant and of != worker
    )
    permits, lacking = kept, 0
    back_off_until = max(one.until for one in _strains(host, ask))
    if now < back_off_until:
        offer.count = offer.alone = 0
        offer.why = "back-off"
        offer.ready = back_off_until - now
    else:
        permits, lacking = _permits(host, ask, own, rivals, worker, kept, theirs, offer, now)
    count = offer.count
    own = replace(
        own,
        last=offer.start + (count - 1) * offer.interval if count else own.last,
        interval=offer.interval,
        share_at=offer.share_from + count * offer.meter if count else own.share_at,
        unmet_at=now if count < offer.alone else own.unmet_at,
        want=theirs + permits + lacking,
        served_at=now if count else own.served_at,
    )
    before = host.permits.get((worker, ask.tenant))
    granted_at = now if count else before.granted_at if before else 0
    permits_left = dict(host.permits)
    permits_left.pop((worker, ask.tenant), None)
    if permits:
        permits_left[worker, ask.tenant] = Permit(permits, granted_at, now + PERMIT_US)
    host = replace(
        host,
        last=own.last if count else host.last,
        gap=offer.interval if count else host.gap,
        tenants={**host.tenants, ask.tenant: own},
        permits=permits_left,
    )
    return host, _granted(ask, offer, permits, now)


def _strains(host: HostEntry, ask: HostAsk) -> list[Strain]:
    return [strain_of(host, whose, ask.origin) for whose in ("", ask.tenant)]


def _slots(
    host: HostEntry, ask: HostAsk, own: TenantEntry, rivals: dict[str, TenantEntry], now: int
) -> _Offer:
    """Count the slots by the host's rate and the tenant's share of it."""
    _, own_pace = host.paces.get(ask.tenant, (0, 0))
    interval = usual = max(1, micros(ask.interval_seconds), host.pace, own_pace)
    for strain in _strains(host, ask):
        if strain.slow:
            interval = max(interval, min(usual << min(strain.overload, 20), strain.slow))
    start = max(now, host.last + min(host.gap, interval), own.last + interval)
    for name, one in host.tenants.items():
        if name != ask.tenant:
            start = max(start, one.last + min(one.interval, interval))
    latest = now + HORIZON_US
    count = 0 if start > latest else (latest - start) // interval + 1
    alone = (latest - max(now, min(own.last + interval, latest + interval))) // interval + 1
    offer = _Offer(
        count=min(count, ask.count), start=start, interval=interval, alone=min(alone, ask.count)
    )
    if count < ask.count:
        offer.why = "rate"
    offer.meter, offer.share_from = interval, max(now, own.share_at)
    if rivals:
        shortest = min(interval, *(one.interval for one in rivals.values()))
        offer.meter = max(interval, -(-shortest * _shares(own, rivals) // own.share))
        offer.share_from = min(offer.share_from, latest + offer.meter)
        share = (latest - offer.share_from) // offer.meter + 1
        if share < offer.count:
            offer.why = "share"
            # No other tenant has taken it by now, so it does not count as this tenant's share.
            extra = share <= 0 and start <= now
            offer.count = 1 if extra else max(0, share)
            offer.meter = 0 if extra else offer.meter
    following = start + offer.count * interval
    ready = following - now - HORIZON_US // 2
    if offer.why == "share":
        share_at = offer.share_from + offer.count * offer.meter
        ready = min(max(ready, share_at - now - HORIZON_US // 2), following - now)
    offer.ready = max(SOON_US, ready)
    return offer


def _permits(
    host: HostEntry,
    ask: HostAsk,
    own: TenantEntry,
    rivals: dict[str, TenantEntry],
    worker: str,
    kept: int,
    theirs: int,
    offer: _Offer,
    now: int,
) -> tuple[int, int]:
    """Cut the offer down to what permits allow; return them, and how many slots that cost."""
    by_tenant: dict[str, int] = {}
    for (of, tenant), permit in host.permits.items():
        if (of, tenant) != (worker, ask.tenant):
            by_tenant[tenant] = by_tenant.get(tenant, 0) + permit.count
    most = max(
        ask.concurrency,
        *(
            one.concurrency
            for name, one in host.tenants.items()
            if name != ask.tenant and by_tenant.get(name, 0) > 0
        ),
        0,
    )
    room = alone = min(most - sum(by_tenant.values()), ask.concurrency - theirs)
    if rivals:
        whole = _shares(own, rivals)
        share = max(1, most * own.share // whole)
        lack = sum(min(max(1, most * one.share // whole), one.want) for one in rivals.values())
        room = min(room, max(share, most - lack) - theirs)
        starving = sum(
            not by_tenant.get(name, 0)
            and one.want > 0
            and one.unmet_at + HORIZON_US >= now
            and one.served_at < own.served_at
            for name, one in rivals.items()
        )
        room = min(room, most - sum(by_tenant.values()) - starving)
    answer = max(host.answer, host.paces.get(ask.tenant, (0, 0))[0]) or GUESS_US
    fits = _fits(room, answer, ask.running) if room >= kept else 0
    offer.alone = min(offer.alone, _fits(ask.concurrency - theirs, answer, ask.running))
    lacking = 0
    if fits < offer.count:
        lacking = offer.count - fits
        offer.count = fits
        offer.why = "share" if room < alone else "concurrency"
        offer.ready = max(PERMIT_SOON_US, min(PERMIT_LATE_US, answer // 2))
    return max(kept, min(room, ask.running + offer.count)), lacking


def _shares(own: TenantEntry, rivals: dict[str, TenantEntry]) -> int:
    return own.share + sum(one.share for one in rivals.values())


def _fits(permits: int, answer: int, running: int) -> int:
    """Count the slots that so many permits can serve within the horizon, besides those in use."""
    if permits <= 0:
        return 0
    return max(0, max(permits, -(-permits * HORIZON_US // answer)) - running)


def keeps(
    host: HostEntry, worker: str, tenant: str, running: int, concurrency: int, now: int
) -> int:
    """Count the permits that a worker with ``running`` downloads may still be using."""
    before = host.permits.get((worker, tenant))
    if before is None:  # Redis may have lost it
        return min(running, concurrency)
    if now - before.granted_at < GRACE_US:
        return before.count
    return min(before.count, running)


def swept(host: HostEntry, now: int, asking: str = "") -> HostEntry:
    """Drop what is over, and moments that a clock set back has made too late.

    Nothing is granted beyond the horizon, no permit for longer than :data:`PERMIT_US`, and nothing
    was seen that is yet to come: else the dead would hold their permits, and tenants that are gone
    would have their share, until the clock is again where it was.
    """
    latest = now + HORIZON_US
    permits = {
        key: Permit(one.count, min(one.granted_at, now), min(one.until, now + PERMIT_US))
        for key, one in host.permits.items()
        if one.until > now
    }
    holding = {tenant for _, tenant in permits}
    tenants = {}
    for name, one in host.tenants.items():
        known = replace(
            one,
            last=min(one.last, latest),
            unmet_at=min(one.unmet_at, now),
            served_at=min(one.served_at, now),
        )
        over = (
            known.last + known.interval <= now
            and known.share_at <= now
            and known.unmet_at + DEMAND_US <= now
            and name not in holding
        )
        if not over or name == asking:
            tenants[name] = known
    return replace(host, last=min(host.last, latest), tenants=tenants, permits=permits)


def kept_until(host: HostEntry, now: int) -> int:
    """Get until when the host is kept if no more asks come."""
    due = max(now, host.last + host.gap)
    for one in host.tenants.values():
        due = max(due, one.last + one.interval)
    for known in host.strains.values():
        due = max(due, *(one.until for one in known.values()), 0)
    return due + (IDLE_US if host.pace or host.strains else FLEETING_US)


def state_of(host: HostEntry, name: str, now: int, tenant: str = "") -> HostState:
    """Get the state of a host; with what that tenant alone goes by."""
    host = swept(host, now)
    holding = {tenant for _, tenant in host.permits}
    following = host.last + host.gap
    found, window = lately(host.counts, now)
    counting = {
        tenant
        for tenant, one in host.tenants.items()
        if tenant in holding or one.unmet_at + DEMAND_US > now
    }
    strains = [
        (origin, one.until, one.overload)
        for whose in dict.fromkeys(("", tenant))
        for origin, one in host.strains.get(whose, {}).items()
    ]
    return HostState(
        host=name,
        running=sum(one.count for one in host.permits.values()),
        interval_seconds=host.pace / MILLION,
        answer_seconds=host.answer / MILLION,
        **back_off_of(name, strains, now),
        next_at=from_ms(following // 1_000) if following > now else None,
        tenants=tuple(sorted(counting)),
        window_seconds=window,
        answered=found.answered,
        failed=found.failed,
        overloads=found.overloads,
        spent_seconds=found.spent / MILLION,
        intervals={
            tenant: one.interval / MILLION
            for tenant, one in sorted(host.tenants.items())
            if tenant in counting or one.last + one.interval > now
        },
    )


def _granted(ask: HostAsk, offer: _Offer, permits: int, now: int) -> HostGrant:
    short = offer.count < ask.count
    return HostGrant(
        host=ask.host,
        count=offer.count,
        wait_seconds=(offer.start - now) / MILLION if offer.count else 0.0,
        interval_seconds=offer.interval / MILLION,
        permits=permits,
        ready_seconds=(offer.ready or HORIZON_US // 2) / MILLION if short else 0.0,
        why=offer.why if short else "",
    )
