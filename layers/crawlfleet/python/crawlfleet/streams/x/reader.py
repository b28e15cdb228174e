"""Read X's filtered stream: its rules kept right, its faults waited out, its gaps filled.

1. Before each connection the rules at X are made what the filters of the channel need; while it
   stands they are changed in place when filters change, as often as X lets us (``CHANGE_SECONDS``).
2. The plan allows one connection: another one, perhaps our own that X has not noticed the end of,
   is waited out by the steps of the documentation.
3. What was missed between two connections is searched for first, rule by rule, from the last post
   on. Search leaves reposts out, and X may be behind with it: what comes twice has the same id.
   Where a plan has recovery X sends what was missed itself (``backfill_minutes``).

Posts come in no order, so the cursor is the highest id that was read: ids of posts rise by time.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from typing import Any, Final

from crawlfleet.kernel.errors import FetchError, ServerFaultError
from crawlfleet.kernel.time import Clock
from crawlfleet.streams.filters import Filter
from crawlfleet.streams.http.connection import OpenStream
from crawlfleet.streams.http.loop import Fault, LineStream
from crawlfleet.streams.items import Batch, StreamItem, Withdrawn
from crawlfleet.streams.packing import NOTHING, RuleLimits, repack
from crawlfleet.streams.x.api import XApi
from crawlfleet.streams.x.posts import before, order_of, read_object, read_page
from crawlfleet.streams.x.rules import change, wanted

#: A keep-alive comes every 20 s: without one X tells its readers to connect anew.
SILENT_SECONDS: Final = 20.0
#: X takes 100 changes of rules in 15 minutes; an addition and a deletion are two.
CHANGE_SECONDS: Final = 20.0
#: After a failed change; the stream goes on meanwhile.
AGAIN_SECONDS: Final = 60.0
#: Pages of search that a gap may cost, of 100 posts each; what is beyond them is not read.
MOST_PAGES: Final = 100
MAX_LINE_BYTES: Final = 1_000_000
#: Posts come by so much later than others that were written after them.
LATE_SECONDS: Final = 30.0
#: Characters of a query of the search.
SEARCH: Final = RuleLimits(characters=512)
GAP: Final = "gap"
TOO_LONG: Final = "too_long"


class XReader:
    """The reader of one channel of X; ``filters`` gives those of its subscriptions as they are now.

    Args:
        name: The channel's.
        api: X.
        filters: By subscription.
        limits: What the plan allows.
        is_mended: Tells whether a refused token has been replaced.
        backfill_minutes: What the plan recovers by itself; 0 has gaps searched for.
        tell: Gets each fault of the connection.
        note: Gets, in words, what rules could not be had.
    """

    def __init__(
        self,
        name: str,
        api: XApi,
        filters: Callable[[], Mapping[str, Filter]],
        limits: RuleLimits,
        is_mended: Callable[[FetchError], Coroutine[Any, Any, bool]],
        *,
        clock: Clock,
        backfill_minutes: int = 0,
        silent_seconds: float = SILENT_SECONDS,
        tell: Callable[[Fault], None] = lambda _: None,
        note: Callable[[str], None] = lambda _: None,
        pause: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._api, self._filters, self._limits = name, api, filters, limits
        self._clock, self._note, self._steady = clock, note, steady
        self._silent_seconds, self._backfill_minutes = silent_seconds, backfill_minutes
        #: The clauses that the rules bring, and when they may be changed again.
        self._brought: list[str] = []
        self._change_at = float("-inf")
        self._stream = LineStream(
            self._connect,
            self._read,
            is_mended,
            silent_seconds=silent_seconds,
            max_line_bytes=MAX_LINE_BYTES,
            tell=tell,
            missed=None if backfill_minutes else self._missed,
            tend=self._tend,
            pause=pause,
            steady=steady,
        )

    def read(self, cursor: str, may_read: Callable[[], bool]) -> AsyncGenerator[Batch, None]:
        """Read on from a cursor, for as long as it may; who asks on has accepted what came."""
        return self._stream.batches(cursor, may_read)

    async def _connect(self, cursor: str) -> OpenStream:
        await self._make_rules()
        parameters: dict[str, str] = {}
        if cursor and self._backfill_minutes:
            parameters["backfill_minutes"] = str(self._backfill_minutes)
        return await self._api.open(parameters, self._silent_seconds)

    async def _tend(self) -> None:
        """Change the rules in place where filters have changed; the stream goes on all the same."""
        if self._steady() < self._change_at:
            return
        if wanted(self._filters(), self._limits).clauses == self._brought:
            return
        try:
            await self._make_rules()
        except FetchError as error:
            self._change_at = self._steady() + max(
                AGAIN_SECONDS, getattr(error, "asked_seconds", 0)
            )
            self._note(f"rules could not be changed: {error}")

    async def _make_rules(self) -> None:
        needed = wanted(self._filters(), self._limits)
        for one in needed.unfit:
            self._note(f"subscription {one} needs longer rules than X takes")
        made = change(await self._api.rules(), needed.clauses, self._limits)
        if made:
            for said in await self._api.change(made):
                self._note(f"X refused a rule: {said}")
        if made.missing:
            self._note(f"the plan has no room for {made.missing} rules")
        self._brought = needed.clauses
        self._change_at = self._steady() + CHANGE_SECONDS

    async def _missed(self, cursor: str) -> AsyncGenerator[Batch, None]:
        """Search for what was missed since a cursor, which stays until all of it is read."""
        if not cursor:
            return
        queries = repack(NOTHING, (one for one in self._brought if _is_short(one)), SEARCH)
        left, highest, since = MOST_PAGES, cursor, before(cursor, LATE_SECONDS)
        dropped = Counter({GAP: sum(1 for one in self._brought if not _is_short(one))})
        for number in queries.packing.rules:
            token = ""
            while left:
                left -= 1
                query = queries.packing.text(number)
                try:
                    page, token = await self._api.search(query, since, token)
                except FetchError as error:
                    self._note(f"posts that were missed could not be searched for: {error}")
                    dropped[GAP] += 1
                    break
                items = read_page(page, self._name, self._clock())
                highest = max([highest, *(one.id for one in items)], key=order_of)
                yield Batch(cursor=cursor, items=items)
                if not token:
                    break
            else:
                dropped[GAP] += 1
        yield Batch(cursor=highest, dropped={kind: n for kind, n in dropped.items() if n})

    def _read(self, lines: list[bytes], cursor: str, too_long: int) -> Iterator[Batch]:
        dropped = Counter({TOO_LONG: too_long} if too_long else {})
        items: list[StreamItem] = []
        withdrawn: list[Withdrawn] = []
        fault, now = "", self._clock()
        for line in lines:
            answer = read_object(line, self._name, now)
            if answer.item is not None:
                items.append(answer.item)
                cursor = max(cursor, answer.item.id, key=order_of)
            if answer.withdrawn is not None:
                withdrawn.append(answer.withdrawn)
            if answer.dropped:
                dropped[answer.dropped] += 1
            if answer.fault:
                fault = answer.fault
                break
        yield Batch(
            cursor=cursor, items=tuple(items), withdrawn=tuple(withdrawn), dropped=dict(dropped)
        )
        if fault:
            raise ServerFaultError(f"X ended the stream: {fault}")


def _is_short(clause: str) -> bool:
    return len(clause) <= SEARCH.characters
