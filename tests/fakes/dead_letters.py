"""An in-memory fake keeps dead letters: the dead requests of the fake request store."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

import msgspec

from tests.fakes.request_state import Kept, KeptState, place, typed
from tests.kit.config import Biz
from tests.kit.dead_letters import LetterFilter, LetterPage, host_of
from tests.kit.kernel import Lane, RequestId, to_ms
from tests.kit.requests import Entry, State

#: Dead letters that one look goes through.
SCAN: Final = 10_000


class MemoryDeadLetters:
    """In-memory ``DeadLetters``. ``scan`` is how much one look goes through."""

    def __init__(self, state: KeptState, scan: int = SCAN) -> None:
        self._state = state
        self._scan = scan

    def find(
        self,
        lane: Lane,
        biz: Biz,
        letters: LetterFilter,
        *,
        after: tuple[int, str] | None,
        limit: int,
        now: datetime,
    ) -> LetterPage:
        floor = None if after is None else place(after[0], typed(after[1]))
        with self._state.lock:
            dead = sorted(
                (_place(kept), kept)
                for kept in self._state.of(lane).requests.values()
                if kept.state == State.DEAD and _in_time(kept, letters)
            )
            rest = [kept for where, kept in dead if floor is None or where > floor]
            looked_at = rest[: self._scan]
            matching = (kept for kept in looked_at if _matches(kept, letters))
            found = list(islice(matching, limit + 1))
            reached = looked_at[-1] if len(rest) > self._scan else None
            if len(found) > limit:
                found = found[:limit]
                reached = found[-1]
            return LetterPage(
                letters=tuple(kept.tracked() for kept in found),
                reached=None if reached is None else _position(reached),
            )

    def replay(
        self,
        lane: Lane,
        biz: Biz,
        ids: Sequence[RequestId],
        rule_version: Mapping[str, str],
        by: str,
        now: datetime,
    ) -> list[Entry]:
        entries = []
        with self._state.lock:
            mine = self._state.of(lane)
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

    def purge(self, lane: Lane, biz: Biz, ids: Sequence[RequestId], by: str, now: datetime) -> int:
        with self._state.lock:
            requests = self._state.of(lane).requests
            dead = [i for i in set(ids) if i in requests and requests[i].state == State.DEAD]
            for request_id in dead:
                del requests[request_id]
        return len(dead)


def _in_time(kept: Kept, letters: LetterFilter) -> bool:
    at = kept.request.queued_at
    return (letters.since is None or at >= letters.since) and (
        letters.until is None or at < letters.until
    )


def _matches(kept: Kept, letters: LetterFilter) -> bool:
    body = kept.request.body
    status = 0 if kept.answer is None else kept.answer.status
    return (
        letters.reason in (None, kept.reason)
        and letters.status in (None, status)
        and letters.rule in (None, body.rule)
        and letters.host in (None, host_of(body.url))
        and (letters.job is None or letters.job == kept.request.job)
        and (letters.text is None or letters.text in (kept.error or "") or letters.text in body.url)
    )


def _place(kept: Kept) -> tuple[int, int, int, str]:
    return place(to_ms(kept.request.queued_at), kept.request.id)


def _position(kept: Kept) -> tuple[int, str]:
    return to_ms(kept.request.queued_at), str(kept.request.id)
