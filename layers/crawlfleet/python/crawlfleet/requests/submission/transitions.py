"""Transitions: a biz's own states, which its owner changes requests to and from (SPEC.md A1).

A transition names the state that is expected and the one that is wanted; the biz's document has
those that there may be. Repeated, it finds what it has done, so it may be sent again.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.lookup import biz_of, queue_key_of
from crawlfleet.kernel import errors
from crawlfleet.kernel.errors import CrawlfleetError, Problem
from crawlfleet.kernel.ids import RequestId, State, parse_id
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.validation import named
from crawlfleet.requests.models import Entry, Tracked
from crawlfleet.requests.mongo.store import MongoRequestStore
from crawlfleet.requests.mongo.transitions import Transited, Transition
from crawlfleet.requests.queue.redis.queue import RedisQueue
from crawlfleet.requests.submission.tracking import flag_of, state_label
from crawlfleet.requests.submission.waking import Waker, WakeReservations, wake_if_idle

#: What the timeline says where the caller gives no reason.
_ASKED: Final = "changed by a call"


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one request: its state now, or the error that left it as it was.

    ``repeated``: it was in that state already.
    """

    id: RequestId
    state: int | None = None
    repeated: bool = False
    error: CrawlfleetError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transitions:
    """Change requests into their biz's own states, and out of them."""

    store: MongoRequestStore
    queue: RedisQueue
    workers: WakeReservations
    waker: Waker

    def change_one(
        self,
        tree: Tree,
        tenant: str,
        biz_name: str,
        text: str,
        before: str,
        after: str,
        *,
        by: str,
        why: str,
        now: datetime,
    ) -> Tracked:
        """Change one request; return it as it then stands.

        Raises:
            InvalidRequestError: the biz has no such transition, or that is no id.
            NotFoundError: there is none of that id.
            ConflictError: it is in another state than ``before``, or too old to be worked on.
        """
        queue_key, biz = biz_of(tree, tenant, biz_name)
        asked = _asked(biz, before, after, by, why)
        [answer] = self._change(queue_key, biz, [parse_id(text)], asked, now)
        if answer.error is not None:
            raise answer.error
        found = self.store.get(queue_key, biz, answer.id)
        if found is None:
            raise _unknown(answer.id)
        return found

    def change(
        self,
        tree: Tree,
        tenant: str,
        biz_name: str,
        texts: Sequence[str],
        before: str,
        after: str,
        *,
        by: str,
        why: str,
        now: datetime,
    ) -> list[Answered]:
        """Change those of these requests that are in the state ``before``; answer each.

        Raises:
            InvalidRequestError: the biz has no such transition, or one of the ids is none, or is
                there twice; nothing is changed.
        """
        queue_key, biz = biz_of(tree, tenant, biz_name)
        asked = _asked(biz, before, after, by, why)
        return self._change(queue_key, biz, _ids(texts), asked, now)

    def _change(
        self,
        queue_key: QueueKey,
        biz: Biz,
        ids: Sequence[RequestId],
        asked: Transition,
        now: datetime,
    ) -> list[Answered]:
        found = self.store.transition(queue_key, biz, ids, asked, now)
        if asked.after == State.PENDING:
            again = [(one.pool, one.entry) for one in found.values() if one.changed]
            if not serve_next(self.queue, self.workers, self.waker, queue_key, again):
                self.store.note_unqueued(queue_key, now)
        return [_answered(biz, asked, one, found.get(one)) for one in ids]


def serve_next(
    queue: RedisQueue,
    workers: WakeReservations,
    waker: Waker,
    queue_key: QueueKey,
    pending: Iterable[tuple[str | None, Entry]],
) -> bool:
    """Queue requests that are pending again, by pool, where they are served next; wake a worker.

    The tick starts workers of pools. False where Redis did not take them all: the caller notes it,
    so that recovery looks there.
    """
    by_pool: dict[str | None, list[Entry]] = defaultdict(list)
    for pool, entry in pending:
        by_pool[pool].append(entry)
    try:
        for pool, entries in by_pool.items():
            queue.requeue(queue_key_of(queue_key, pool), entries)
        if None in by_pool:
            wake_if_idle(workers, waker)
    except errors.StoreUnavailableError as error:
        warn("pending again, to be queued by recovery", error)
        return False
    return True


def _asked(biz: Biz, before: str, after: str, by: str, why: str) -> Transition:
    """Find the transition in the biz's document.

    Raises:
        InvalidRequestError: it has none of these states, or not this transition; says which it has.
    """
    flags = flag_of(biz, before, "from_state"), flag_of(biz, after, "to_state")
    if after not in biz.transitions.get(before, ()):
        if before in biz.transitions:
            there = f"it may become {named(biz.transitions[before], after)}"
            raise errors.InvalidRequestError.of("to_state", f"{before} may not become it; {there}")
        there = named(biz.transitions, before) or "none"
        message = f"no transition of this biz begins there; its transitions begin at {there}"
        raise errors.InvalidRequestError.of("from_state", message)
    return Transition(before=flags[0], after=flags[1], by=by, why=why or _ASKED)


def _ids(texts: Sequence[str]) -> list[RequestId]:
    places: dict[RequestId, int] = {}
    problems: list[Problem] = []
    for index, text in enumerate(texts):
        place = f"requests[{index}]"
        try:
            request_id = parse_id(text, place)
        except errors.InvalidRequestError as error:
            problems.extend(error.problems)
            continue
        if places.setdefault(request_id, index) != index:
            problems.append(Problem(place, f"is that of requests[{places[request_id]}]"))
    if problems:
        raise errors.InvalidRequestError(problems)
    return list(places)


def _answered(
    biz: Biz, asked: Transition, request_id: RequestId, found: Transited | None
) -> Answered:
    if found is None:
        return Answered(id=request_id, error=_unknown(request_id))
    if found.changed or found.state == asked.after:
        return Answered(id=request_id, state=asked.after, repeated=not found.changed)
    if found.state == asked.before and found.late:
        said = f"request {request_id} cannot be worked on any more: its time to live has passed"
    else:
        state, before = state_label(biz, found.state), state_label(biz, asked.before)
        said = f"request {request_id} is {state}, not {before}"
    return Answered(id=request_id, error=errors.ConflictError(said))


def _unknown(request_id: RequestId) -> errors.NotFoundError:
    return errors.NotFoundError(f"there is no request {request_id}")
