"""An in-memory fake keeps dead letters: the dead requests of the fake request store."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

import msgspec

from tests.fakes.request_state import Kept, KeptState, place, typed
from tests.kit.config import Biz
from tests.kit.dead_letters import DeadLetterFilter, DeadLetterPage, host_of
from tests.kit.kernel import QueueKey, RequestId, to_ms
from tests.kit.requests import Entry, State

#: Dead letters that one look goes through.
SCAN: Final = 10_000


class MemoryDeadLetters:
    """In-memory ``MongoDeadLetters``; a search scans up to ``scan`` requests."""

    def __init__(self, state: KeptState, scan: int = SCAN) -> None:
        self._state = state
        self._scan = scan

    def find(
        self,
        queue_key: QueueKey,
        biz: Biz,
        dead_letters: DeadLetterFilter,
        *,
        after: tuple[int, str] | None,
        limit: int,
        now: datetime,
    ) -> DeadLetterPage:
        floor = None if after is None else place(after[0], typed(after[1]))
        with self._state.lock:
            dead = sorted(
                (_place(kept), kept)
                for kept in self._state.of(queue_key).requests.values()
                if kept.state == State.DEAD and _in_time(kept, dead_letters)
            )
            rest = [kept for where, kept in dead if floor is None or where > floor]
            looked_at = rest[: self._scan]
            matching = (kept for kept in looked_at if _matches(kept, dead_letters))
            found = list(islice(matching, limit + 1))
            reached = looked_at[-1] if len(rest) > self._scan else None
            if len(found) > limit:
                found = found[:limit]
                reached = found[-1]
            return DeadLetterPage(
                dead_letters=tuple(kept.tracked() for kept in found),
                reached=None if reached is None else _position(reached),
            )

    def replay(
        self,
        queue_key: QueueKey,
        biz: Biz,
        ids: Sequence[RequestId],
        rule_version: Mapping[str, str],
        by: str,
        now: datetime,
    ) -> list[Entry]:
        entries = []
        with self._state.lock:
            mine = self._state.of(queue_key)
            for request_id in dict.fromkeys(ids):
                kept = mine.requests.get(request_id)
                if kept is None or kept.state != State.DEAD:
                    continue
                body = kept.request.body
                version = rule_version.get(body.rule, body.rule_version)
                body = msgspec.structs.replace(body, rule_version=version)
                kept.request = msgspec.structs.replace(kept.request, body=body)
                kept.attempts = 0
                kept.worker = kept.token = kept.due_at = None
                kept.error = kept.reason = kept.answer = None
                kept.note(now, State.PENDING, by, f"replayed with rule version {version}")
                mine.count(kept.request.job, "dead", -1)
                entries.append(kept.request.entry)
        return entries

    def purge(
        self, queue_key: QueueKey, biz: Biz, ids: Sequence[RequestId], by: str, now: datetime
    ) -> int:
        with self._state.lock:
            requests = self._state.of(queue_key).requests
            dead = [i for i in set(ids) if i in requests and requests[i].state == State.DEAD]
            for request_id in dead:
                del requests[request_id]
        return len(dead)


def _in_time(kept: Kept, dead_letters: DeadLetterFilter) -> bool:
    at = kept.request.queued_at
    return (dead_letters.since is None or at >= dead_letters.since) and (
        dead_letters.until is None or at < dead_letters.until
    )


def _matches(kept: Kept, dead_letters: DeadLetterFilter) -> bool:
    body = kept.request.body
    status = 0 if kept.answer is None else kept.answer.status
    return (
        dead_letters.reason in (None, kept.reason)
        and dead_letters.status in (None, status)
        and dead_letters.rule in (None, body.rule)
        and dead_letters.host in (None, host_of(body.url))
        and (dead_letters.job is None or dead_letters.job == kept.request.job)
        and (
            dead_letters.text is None
            or dead_letters.text in (kept.error or "")
            or dead_letters.text in body.url
        )
    )


def _place(kept: Kept) -> tuple[int, int, int, str]:
    return place(to_ms(kept.request.queued_at), kept.request.id)


def _position(kept: Kept) -> tuple[int, str]:
    return to_ms(kept.request.queued_at), str(kept.request.id)
