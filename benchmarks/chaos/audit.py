"""The audit: what must hold when all is over, whatever was killed."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from benchmarks.chaos.house import ChaosParts
from benchmarks.chaos.pages import names_on
from benchmarks.chaos.stored import StoredRequests, page_of
from benchmarks.chaos.submitter import JOB, Submitter
from crawlfleet.apps.context import now
from crawlfleet.kernel.ids import RequestId, State
from crawlfleet.requests.models import Ledger

#: Downloads repeated for no good reason, over the submissions.
MOST_REPEATED: Final = 0.001
#: Findings of one sort that are listed one by one.
_REPORTED: Final = 5


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of an audit; ``problems`` is empty when all is well."""

    lost: int
    stored_twice: int
    problems: tuple[str, ...]


def audit(stored: StoredRequests, parts: ChaosParts, submitter: Submitter) -> Audit:
    """Judge store, queue and ledgers against what was submitted and what the site has."""
    accepted = submitter.accepted
    requests = list(stored.requests())
    here = Counter(request["_id"] for request in requests)
    undone = {r["_id"]: State(r["flag"]).label for r in requests if r["flag"] != State.DONE}
    lost = [i for i in accepted if i not in here or i in undone]
    twice = [r["_id"] for r in requests if here[r["_id"]] > 1 or _times_done(r) > 1]
    strange = [r["_id"] for r in requests if accepted.get(r["_id"]) != page_of(r)]
    missing, surplus = _records(stored, accepted)
    problems = (
        *_some("lost", [f"{i} ({undone.get(i, 'nowhere')})" for i in lost]),
        *_some("done more than once", twice),
        *_some("stored and never accepted", strange),
        *_some("records missing", missing),
        *_some("records too many", surplus),
        *_ledgers(parts, len(accepted), submitter.in_job),
        *_queue(parts),
    )
    return Audit(lost=len(lost), stored_twice=len(twice) + len(surplus), problems=problems)


def _times_done(request: Mapping[str, object]) -> int:
    log = request.get("log", ())
    return sum(line["flag"] == State.DONE for line in log) if isinstance(log, list) else 0


def _records(
    stored: StoredRequests, accepted: Mapping[RequestId, int]
) -> tuple[list[str], list[str]]:
    """Find missing and surplus records, by the items' names."""
    wanted = Counter(name for page in accepted.values() for name in names_on(page))
    found = Counter(str(record["fields"].get("name")) for record in stored.records())
    return list((wanted - found).elements()), list((found - wanted).elements())


def _ledgers(parts: ChaosParts, accepted: int, in_job: int) -> Iterator[str]:
    """Check each count, of the biz and of the job: all was submitted, all is done."""
    world = parts.world
    for job, count in ((None, accepted), (JOB, in_job)):
        exact = Ledger(submitted=count, done=count)
        for way in (parts.ledgers.totals, parts.ledgers.audit):
            found = way(world.queue_key, world.biz, now(), job)
            if found != exact:
                name = f"{way.__name__} of {f'job {job}' if job else 'the biz'}"
                yield f"the ledger's {name} is {found}, difference {found.difference}"


def _queue(parts: ChaosParts) -> Iterator[str]:
    depth = parts.queue.depth(parts.world.queue_key)
    if depth.queued or depth.leased or depth.delayed:
        yield f"the queue is not empty: {depth}"


def _some(what: str, found: Sequence[str | RequestId]) -> Iterator[str]:
    if found:
        more = f" and {len(found) - _REPORTED} more" if len(found) > _REPORTED else ""
        yield f"{what}: {len(found)}: {', '.join(map(str, found[:_REPORTED]))}{more}"
