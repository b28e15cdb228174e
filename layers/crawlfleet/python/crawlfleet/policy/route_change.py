"""Whether a biz's routes may change so: an id already given must stay findable (SPEC.md A4).

A request is found by the generation that was in force when its id was made (DESIGN.md 3), so what
has started is history and history is not edited. A new generation starts only after every router
has had the time to learn of it; else two of them would write the same moment's ids by two routes.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

import msgspec

from crawlfleet.errors import Problem
from crawlfleet.model.biz import Biz, Generation
from crawlfleet.model.seed import Span

#: How far ahead a new generation must start: several polls of the revision, and the clocks' error.
LEAD: Final = timedelta(seconds=30)

_DAY: Final = 86_400.0
#: The longest segment of each span, in seconds; one in which the clock is shifted is a little
#: longer.
_SPANS: Final = {
    Span.HOUR: 3_600.0,
    Span.DAY: _DAY,
    Span.WEEK: 7 * _DAY,
    Span.MONTH: 31 * _DAY,
}
#: Pages that are read again come up to a tenth of their interval later.
_SPREAD: Final = 1.1


def change_problems(old: Biz, new: Biz, now: datetime) -> list[Problem]:
    """What forbids replacing ``old``, which is in force, by ``new``; each is valid by itself."""
    return list(_problems(old, new, now))


def ended_at(biz: Biz, index: int) -> datetime | None:
    """When nothing of a generation is left, by the TTLs of ``biz``; None for never.

    The last generation never ends, nor does any whose records or seeds are kept for ever. Seeds
    that were offered for a later time, or wait in a backlog, are not foreseen here: they have no
    TTL, and who removes a generation looks first whether there are any.
    """
    seeds = _seeds_seconds(biz)
    if index + 1 >= len(biz.generations) or biz.records_ttl_seconds is None or seeds is None:
        return None
    seconds = max(
        biz.ttl_seconds * 2,  # what routing.live_shards allows for
        biz.ttl_seconds + biz.expiry_grace_seconds,
        biz.records_ttl_seconds + biz.ttl_seconds,  # a record may be made as late as the TTL
        seeds,
        _visits_seconds(biz),
    )
    return biz.generations[index + 1].starts_at + timedelta(seconds=seconds)


def _seeds_seconds(biz: Biz) -> float | None:
    """For how long seeds of the last segment that began under a generation may be there.

    They are handed out, end with their requests, and are kept from the segment's end on.
    """
    if biz.seeds.span is Span.FOREVER:
        return None
    span = _SPANS.get(biz.seeds.span) or biz.seeds.span_seconds or _DAY
    return span + _DAY + biz.ttl_seconds + biz.seeds.archive_days * _DAY


def _visits_seconds(biz: Biz) -> float:
    """How long until every page that is read again by itself has moved to the next generation.

    Where that is not done, a visit that is not found costs a download and nothing else.
    """
    if biz.recrawl is None or not biz.recrawl.schedule:
        return 0.0
    return max(biz.recrawl.first_seconds, biz.recrawl.max_seconds) * _SPREAD + biz.ttl_seconds


def _problems(old: Biz, new: Biz, now: datetime) -> Iterator[Problem]:
    if new.collection != old.collection:
        yield Problem(
            "collection", f"may not change from {old.collection}: stored requests are found there"
        )
    fixed = now + LEAD
    kept = {generation.starts_at: generation for generation in new.generations}
    for index, generation in enumerate(old.generations):
        if generation.starts_at > fixed or kept.get(generation.starts_at) == generation:
            continue
        if _has_ended(old, new, index, now):
            continue
        yield _history_problem(generation, new, now)
    known = {generation.starts_at for generation in old.generations}
    for index, generation in enumerate(new.generations):
        if generation.starts_at <= fixed and generation.starts_at not in known:
            yield Problem(
                f"generations[{index}].starts_at",
                "must be later than "
                f"{_written(fixed)}: a new generation starts at least {LEAD.seconds} s from now,"
                " so that every router knows it first",
            )


def _has_ended(old: Biz, new: Biz, index: int, now: datetime) -> bool:
    """Whether the generation has ended by both documents: a shorter TTL frees nothing at once."""
    by_new = msgspec.structs.replace(
        old,
        ttl_seconds=new.ttl_seconds,
        expiry_grace_seconds=new.expiry_grace_seconds,
        records_ttl_seconds=new.records_ttl_seconds,
        seeds=new.seeds,
        recrawl=new.recrawl,
    )
    ends = (ended_at(old, index), ended_at(by_new, index))
    return all(end is not None and end < now for end in ends)


def _history_problem(generation: Generation, new: Biz, now: datetime) -> Problem:
    written = _written(generation.starts_at)
    for index, candidate in enumerate(new.generations):
        if candidate.starts_at == generation.starts_at:
            return Problem(
                f"generations[{index}]",
                f"started at {written} and may not change: ids made under it are found by it;"
                " add a generation that starts later instead",
            )
    started = "started at" if generation.starts_at <= now else "is about to start at"
    if new.records_ttl_seconds is None:
        until = "while records are kept for ever (records_ttl_seconds is not set)"
    elif _seeds_seconds(new) is None:
        until = "while seeds are kept for ever (seeds.span is forever)"
    else:
        until = "before the TTL of what was stored under it has passed"
    return Problem("generations", f"the one that {started} {written} may not be removed {until}")


def _written(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
