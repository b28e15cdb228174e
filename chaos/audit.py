"""The audit: what must hold when all is over, whatever was killed."""

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from typing import Final

import msgspec

from chaos.house import ChaosParts
from chaos.pages import names_on
from chaos.truth import Truth
from crawlfleet.model.ids import RequestId
from crawlfleet.model.request import State
from crawlfleet.wiring.parts import now

#: Downloads repeated for no good reason, over the submissions.
MOST_REPEATED: Final = 0.001
#: Findings of one sort that are told one by one.
_TOLD: Final = 5


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. ``problems`` is empty when all is well."""

    lost: int
    stored_twice: int
    problems: tuple[str, ...]


def audit(
    truth: Truth, parts: ChaosParts, accepted: Set[RequestId], pages: Mapping[RequestId, int]
) -> Audit:
    """Judge the store, the queue and the ledger against what was submitted and what the site has."""
    requests = list(truth.requests())
    ends = Counter({r["_id"]: _times_done(r) for r in requests})
    here = Counter(r["_id"] for r in requests)
    undone = {r["_id"]: State(r["flag"]).label for r in requests if r["flag"] != State.DONE}
    lost = [an_id for an_id in accepted if an_id not in here or an_id in undone]
    twice = [an_id for an_id, count in ends.items() if count > 1 or here[an_id] > 1]
    problems = [
        *_some("lost", [f"{i} ({undone.get(i, 'nowhere')})" for i in lost]),
        *_some("done more than once", twice),
        *_some("stored and never accepted", [i for i in here if i not in accepted]),
    ]
    missing, surplus = _records(truth, accepted, pages)
    problems += [*_some("records missing", missing), *_some("records too many", surplus)]
    problems += [*_ledger(parts, len(accepted)), *_queue(parts)]
    return Audit(lost=len(lost), stored_twice=len(twice) + len(surplus), problems=tuple(problems))


def _times_done(request: Mapping[str, object]) -> int:
    log = request.get("log", ())
    return sum(line["flag"] == State.DONE for line in log) if isinstance(log, list) else 0


def _records(
    truth: Truth, accepted: Set[RequestId], pages: Mapping[RequestId, int]
) -> tuple[list[str], list[str]]:
    """What each page has, against what is stored; a record under another key counts as well."""
    wanted = Counter(name for an_id in accepted for name in names_on(pages[an_id]))
    found = Counter(str(record["fields"].get("name")) for record in truth.records())
    return list((wanted - found).elements()), list((found - wanted).elements())


def _ledger(parts: ChaosParts, accepted: int) -> Iterator[str]:
    world = parts.world
    states, _ = parts.store.totals(world.lane, world.biz, now())
    expected = {int(State.DONE): accepted}
    found = {state: count for state, count in states.items() if count}
    if found != expected:
        yield f"the totals are {found} where {expected} were accepted"


def _queue(parts: ChaosParts) -> Iterator[str]:
    depth = parts.queue.depth(parts.world.lane)
    if depth.queued or depth.leased or depth.delayed:
        yield f"the queue is not empty: {depth}"


def _some(what: str, found: list[str] | list[RequestId]) -> Iterator[str]:
    if found:
        more = f" and {len(found) - _TOLD} more" if len(found) > _TOLD else ""
        yield f"{what}: {len(found)}: {', '.join(map(str, found[:_TOLD]))}{more}"
