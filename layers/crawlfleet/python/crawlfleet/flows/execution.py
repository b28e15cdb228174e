"""The work of a submission (SPEC.md A7): lease, claim, fetch, extract, store, finish.

One worker is four coroutines around one set of held requests::

    feeder    leases batches from the queue, claims them in the store, fills ``todo``
    runners   take from ``todo``, download, extract; one outcome a request
    settler   stores records and outcomes in batches, then finishes, delays or drops the leases
    keeper    renews leases, beats the heart

It runs until there has been nothing to do for a while, or the Lambda's time is nearly out; then it
hands back what it holds. Whatever it fails to write, its leases end and another worker does it
again. An exception that nobody foresaw costs the request it concerns, never the coroutine.
"""

import asyncio
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final, ParamSpec, TypeVar

from crawlfleet.errors import CrawlfleetError, ExtractError, StoreError
from crawlfleet.flows.configuration import biz_of
from crawlfleet.flows.holding import Held, Holding, by_lane
from crawlfleet.model.biz import Biz, FleetLimits
from crawlfleet.model.ids import RequestId
from crawlfleet.model.lane import Lane
from crawlfleet.model.outcome import Dead, Done, Outcome, Retry
from crawlfleet.model.record import Record
from crawlfleet.model.request import Claim, Entry
from crawlfleet.model.rule import Rule
from crawlfleet.model.times import from_ms, to_ms
from crawlfleet.model.worker import WorkReport
from crawlfleet.policy.retry import after_failure, cut_off
from crawlfleet.ports import (
    Clock,
    ConfigCentre,
    Extractor,
    Fetcher,
    RequestQueue,
    RequestStore,
    RuleStore,
    Workers,
)

#: With this much of the Lambda's time left no more is leased and waiting work is handed back.
HAND_BACK: Final = timedelta(seconds=25)
#: With this much left downloads that still run are given up.
GIVE_UP: Final = timedelta(seconds=10)
#: Outcomes are stored when there are this many, or the oldest is this old.
SETTLE_COUNT: Final = 100
SETTLE_SECONDS: Final = 0.2
#: Pauses between looks at an empty queue, and after a part did not answer.
POLL_SECONDS: Final = 0.1
TROUBLE_SECONDS: Final = 1.0
#: A lane whose requests cannot be claimed is left alone for this long: others have work too.
REST_SECONDS: Final = 5.0
BEAT_SECONDS: Final = 3.0
#: Reading pages holds the event loop. After this long in one go, whoever else is due gets it.
SPELL_SECONDS: Final = 0.25
#: No page is read while outcomes that are still to be written take more than about this.
HEAVY_BYTES: Final = 64_000_000
#: What a record takes beside its text.
RECORD_BYTES: Final = 500
#: How often the account of the phases is written.
ACCOUNT_SECONDS: Final = 5.0

#: Calls of the parts that run at once: lease and claim, settle, renew, beat, account.
THREADS: Final = 5

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkPorts:
    """What a worker needs of the world. ``remaining`` is the Lambda's time left, in seconds."""

    config: ConfigCentre
    queue: RequestQueue
    store: RequestStore
    rules: RuleStore
    workers: Workers
    fetcher: Fetcher
    extractor: Extractor
    clock: Clock
    remaining: Callable[[], float]
    jitter: Callable[[], float]
    warn: Callable[[str, Exception], None]


class Worker:
    """One consumer invocation. Make it, await :meth:`run` once, read the report."""

    def __init__(self, ports: WorkPorts, worker: str) -> None:
        self._ports = ports
        self._id = worker
        self._limits: FleetLimits = ports.config.current().stage.fleet
        self._report = WorkReport(worker=worker)
        self._phases: dict[Lane, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._holding = Holding()
        self._todo: asyncio.Queue[Held | None] = asyncio.Queue()
        self._settled = asyncio.Event()
        # Not the loop's own pool: name look-ups wait there, and a slow name server must not keep
        # leases from being renewed.
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="parts")
        # Lambda may run one invocation twice, under one id; their leases must not be one.
        self._stem = f"{worker}.{secrets.token_hex(4)}"
        self._leases = 0
        self._turn = 0
        self._resting: dict[Lane, float] = {}
        self._spell = 0.0

    async def run(self) -> WorkReport:
        """Work until idle or nearly out of time; returns what was done."""
        started = time.perf_counter()
        await self._call(self._ports.workers.beat, self._id, self._ports.clock())
        runners = [asyncio.create_task(self._runner()) for _ in range(self._limits.concurrency)]
        settler = asyncio.create_task(self._settler())
        keeper = asyncio.create_task(self._keeper())
        try:
            self._report.stopped_because = await self._feeder()
            await self._drain(runners)
        finally:
            for task in (*runners, keeper, settler):
                task.cancel()
            await asyncio.gather(*runners, keeper, settler, return_exceptions=True)
            await self._settle(list(self._holding.outcomes()))
            await self._hand_back(self._holding.all(), "handed back: the worker ends")
            await self._account()
            await self._call(self._ports.workers.leave, self._id)
            self._threads.shutdown(wait=False)
        self._report.seconds = time.perf_counter() - started
        return self._report

    # ---- feeder --------------------------------------------------------------------------------

    async def _feeder(self) -> str:
        """Keep ``todo`` filled; returns why no more is taken."""
        idle_since: float | None = None
        while self._ports.remaining() > HAND_BACK.total_seconds():
            if self._todo.qsize() >= self._limits.batch or self._holding.full(self._limits):
                await self._pause(POLL_SECONDS / 10)
                continue
            try:
                taken = await self._threaded(self._take)
            except Exception as error:  # noqa: BLE001  one lane's fault must not stop the others
                self._ports.warn("no work could be leased", error)
                await self._pause(TROUBLE_SECONDS)
                continue
            for held in taken:
                if self._holding.add(held):
                    self._todo.put_nowait(held)
            if taken:
                idle_since = None
                continue
            if self._holding:
                idle_since = None
            elif idle_since is None:
                idle_since = time.perf_counter()
            elif time.perf_counter() - idle_since >= self._limits.idle_seconds:
                if await self._may_leave():
                    return "idle"
                idle_since = None
            await self._pause(POLL_SECONDS)
        return "time"

    async def _may_leave(self) -> bool:
        # Leave first, then look again: a submission that saw this worker alive is then seen here.
        await self._call(self._ports.workers.leave, self._id)
        lanes = self._ports.config.current().lanes()
        try:
            loads = await self._threaded(self._ports.queue.loads, lanes, self._ports.clock())
        except Exception as error:  # noqa: BLE001  the tick finds what this one cannot see
            self._ports.warn("whether there is more work is not known", error)
            return True
        if not any(load.ready for load in loads):
            return True
        await self._call(self._ports.workers.beat, self._id, self._ports.clock())
        return False

    def _take(self) -> list[Held]:
        """Lease and claim one batch from the next lane that has any; runs in a thread."""
        tree = self._ports.config.current()
        lanes = tree.lanes()
        if not lanes:
            return []
        started = time.perf_counter()
        loads = self._ports.queue.loads(lanes, self._ports.clock())
        self._turn += 1
        for step in range(len(lanes)):
            place = (self._turn + step) % len(lanes)
            if not loads[place].ready or self._resting.get(lanes[place], 0.0) > started:
                continue
            lane, biz = biz_of(tree, lanes[place].tenant, lanes[place].biz)
            self._leases += 1
            token = f"{self._stem}.{self._leases}"
            now = self._ports.clock()
            until = from_ms(to_ms(now + timedelta(seconds=self._limits.lease_seconds)))
            entries = self._ports.queue.lease(lane, token, self._limits.batch, now, until)
            if entries:
                leased = time.perf_counter()
                self._phases[lane]["lease"] += leased - started
                try:
                    taken = self._claim(lane, biz, token, entries)
                except Exception:
                    self._resting[lane] = time.perf_counter() + REST_SECONDS
                    raise
                self._phases[lane]["claim"] += time.perf_counter() - leased
                self._turn = place
                return taken
        return []

    def _claim(self, lane: Lane, biz: Biz, token: str, entries: Sequence[Entry]) -> list[Held]:
        now = self._ports.clock()
        until = from_ms(to_ms(now + timedelta(seconds=self._limits.lease_seconds)))
        try:
            claims = self._ports.store.claim(lane, biz, entries, self._id, now, until, token)
        except Exception:
            self._ports.queue.give_back(lane, token, entries)
            raise
        self._report.leased += len(claims)
        won = {claim.entry.id for claim in claims}
        if len(claims) < len(entries):
            # Gone, final, or somebody else's: the entry was a repeat and is dropped.
            dropped = [entry for entry in entries if entry.id not in won]
            self._report.skipped += len(dropped)
            self._ports.queue.finish(lane, token, dropped, 0, now)
        try:
            return [Held(lane, biz, claim, self._rule(lane, claim)) for claim in claims]
        except Exception:
            self._release(lane, biz, claims, "handed back: its rule could not be looked up")
            raise

    def _rule(self, lane: Lane, claim: Claim) -> Rule | None:
        body = claim.request.body
        return self._ports.rules.frozen(lane, body.rule, body.rule_version)

    # ---- runners -------------------------------------------------------------------------------

    async def _runner(self) -> None:
        while (held := await self._todo.get()) is not None:
            if self._holding.start(held):
                self._holding.end(held, await self._attempt(held))
                self._settled.set()

    async def _attempt(self, held: Held) -> Outcome:
        """Download and extract one request: every failure becomes an outcome."""
        body, biz, phases = held.claim.request.body, held.biz, self._phases[held.lane]
        now = self._ports.clock
        if (reason := cut_off(held.claim.attempt, biz.retry)) is not None:
            return Dead(reason)
        if held.rule is None:
            return Dead(f"rule {body.rule!r} version {body.rule_version} is not known any more")
        started = time.perf_counter()
        try:
            page = await self._ports.fetcher.fetch(body, biz.fetch)
            fetched = time.perf_counter()
            # A polite worker waits for its turn at a host: that is not the host being slow.
            phases["fetch"] += page.seconds
            phases["wait"] += max(0.0, fetched - started - page.seconds)
            self._report.bytes += len(page.body)
            await self._turn_to_read()
            reading = time.perf_counter()
            try:
                found = self._ports.extractor.extract(held.rule, page)
            except ExtractError as error:
                return Dead(f"ExtractError: {error}"[:500], page.status, page.body[:2_000])
            finally:
                phases["extract"] += self._has_read(time.perf_counter() - reading)
        except CrawlfleetError as error:
            return after_failure(error, held.claim.attempt, biz.retry, now(), self._ports.jitter())
        except Exception as error:  # noqa: BLE001  a page or a rule provoked what nobody foresaw
            self._ports.warn("a request failed in a way nobody foresaw", error)
            return Dead(f"{type(error).__name__}: {error}"[:500])
        held.weight = len(page.body) + len(found) * RECORD_BYTES
        stored_at = from_ms(to_ms(now()))
        return Done(
            tuple(
                Record(
                    request_id=held.claim.request.id,
                    index=index,
                    biz=held.lane.biz,
                    url=page.url,
                    rule=body.rule,
                    rule_version=body.rule_version,
                    stored_at=stored_at,
                    fields=fields,
                )
                for index, fields in enumerate(found)
            ),
            page.status,
        )

    async def _turn_to_read(self) -> None:
        while True:
            if self._holding.weight > HEAVY_BYTES:
                await self._pause(POLL_SECONDS)
            elif self._spell > SPELL_SECONDS:
                await asyncio.sleep(0)
            else:
                return

    def _has_read(self, seconds: float) -> float:
        """Add to what the event loop was held for; it starts from nothing in the loop's next round.

        A hundred pages that arrive at once and take seconds each would else keep the leases from
        being renewed until all are read, and other workers would read them again.
        """
        if not self._spell:
            asyncio.get_running_loop().call_soon(self._breathe)
        self._spell += seconds
        return seconds

    def _breathe(self) -> None:
        self._spell = 0.0

    # ---- settler -------------------------------------------------------------------------------

    async def _settler(self) -> None:
        while True:
            await self._settled.wait()
            if self._holding.ended < SETTLE_COUNT:
                await asyncio.sleep(SETTLE_SECONDS)
            self._settled.clear()
            if not await self._settle(list(self._holding.outcomes())):
                await asyncio.sleep(TROUBLE_SECONDS)
                self._settled.set()

    async def _settle(self, ended: Sequence[tuple[Held, Outcome]]) -> bool:
        """Store outcomes lane by lane; False when the store did not answer, to be tried again."""
        outcomes = dict(ended)
        well = True
        for (lane, _), part in by_lane(outcomes).items():
            started = time.perf_counter()
            try:
                pairs = [(held.claim, outcomes[held]) for held in part]
                lost = await self._threaded(self._store, lane, part[0].biz, pairs)
            except StoreError as error:
                self._ports.warn("outcomes could not be stored yet", error)
                well = False
                continue
            except Exception as error:  # noqa: BLE001  one of them must not keep the others waiting
                well &= await self._settle_apart(part, outcomes, error)
                continue
            for held, (claim, outcome) in zip(part, pairs, strict=True):
                if held.claim is not claim:  # it was claimed anew meanwhile: written next time
                    self._settled.set()
                elif self._holding.drop(held):
                    self._count(outcome, lost=claim.request.id in lost)
            self._phases[lane]["store"] += time.perf_counter() - started
        return well

    async def _settle_apart(
        self, part: Sequence[Held], outcomes: dict[Held, Outcome], error: Exception
    ) -> bool:
        """Store each outcome alone; the one that cannot be stored becomes a dead letter."""
        self._ports.warn("outcomes cannot be stored as they are", error)
        if len(part) > 1:
            return all([await self._settle([(held, outcomes[held])]) for held in part])
        (held,) = part
        if isinstance(outcomes[held], Dead):
            self._holding.drop(held)  # not even that: it is left to its lease
            return True
        dead = Dead(f"cannot be stored: {type(error).__name__}: {error}"[:500])
        self._holding.end(held, dead)
        return await self._settle([(held, dead)])

    def _store(
        self, lane: Lane, biz: Biz, outcomes: Sequence[tuple[Claim, Outcome]]
    ) -> set[RequestId]:
        """Write outcomes to the truth, then to the index; runs in a thread."""
        now = self._ports.clock()
        lost = self._ports.store.settle(lane, biz, outcomes, self._id, now)
        finished: dict[str, list[Entry]] = defaultdict(list)
        delayed: dict[str, list[tuple[Entry, datetime]]] = defaultdict(list)
        for claim, outcome in outcomes:
            if claim.request.id in lost:
                continue
            if isinstance(outcome, Retry):
                delayed[claim.token].append((claim.entry, outcome.due_at))
            else:
                finished[claim.token].append(claim.entry)
        try:
            for token, entries in finished.items():
                self._ports.queue.finish(lane, token, entries, len(entries), now)
            for token, pairs in delayed.items():
                self._ports.queue.delay(lane, token, pairs)
        except Exception as error:  # noqa: BLE001
            # The truth is written. The index forgets these entries when their leases end.
            self._ports.warn("leases could not be finished", error)
        return lost

    def _count(self, outcome: Outcome, *, lost: bool) -> None:
        report = self._report
        if lost:
            report.lost += 1
        elif isinstance(outcome, Done):
            report.done += 1
            report.records += len(outcome.records)
        elif isinstance(outcome, Retry):
            report.retried += 1
        else:
            report.dead += 1

    # ---- keeper --------------------------------------------------------------------------------

    async def _keeper(self) -> None:
        renew_every = self._limits.lease_seconds / 3
        renewed = accounted = time.perf_counter()
        while True:
            await self._pause(BEAT_SECONDS)
            held: list[Held] = []
            if time.perf_counter() - renewed >= renew_every:
                renewed = time.perf_counter()
                held = self._holding.all()
            # All in one go: while pages are read, each return to the event loop takes a while.
            for one, claim in await self._threaded(self._keep, held):
                self._report.lost += one.claim is claim and self._holding.drop(one)
            if time.perf_counter() - accounted >= ACCOUNT_SECONDS:
                accounted = time.perf_counter()
                await self._account()

    def _keep(self, held: Sequence[Held]) -> list[tuple[Held, Claim]]:
        """Beat, and renew the leases; returns what is another's now. Runs in a thread."""
        now = self._ports.clock()
        self._safely(self._ports.workers.beat, self._id, now)
        until = from_ms(to_ms(now + timedelta(seconds=self._limits.lease_seconds)))
        gone: list[tuple[Held, Claim]] = []
        for (lane, _), part in by_lane(held).items():
            claims = [one.claim for one in part]
            try:
                lost = self._renew(lane, part[0].biz, claims, until)
            except Exception as error:  # noqa: BLE001  the others' leases are to be renewed too
                self._ports.warn("leases could not be renewed", error)
                continue
            gone += [pair for pair in zip(part, claims, strict=True) if pair[1].request.id in lost]
        return gone

    def _renew(
        self, lane: Lane, biz: Biz, claims: Sequence[Claim], until: datetime
    ) -> set[RequestId]:
        lost = self._ports.store.renew(lane, biz, claims, until)
        tokens: dict[str, list[Entry]] = defaultdict(list)
        for claim in claims:
            tokens[claim.token].append(claim.entry)
        for token, entries in tokens.items():
            self._ports.queue.renew(lane, token, entries, until)
        return lost

    # ---- the end -------------------------------------------------------------------------------

    async def _drain(self, runners: Sequence[asyncio.Task[None]]) -> None:
        """Hand back what has not begun, let downloads end while there is time."""
        await self._hand_back(self._holding.waiting(), "handed back: the worker's time is up")
        for _ in runners:
            self._todo.put_nowait(None)
        left = self._ports.remaining() - GIVE_UP.total_seconds()
        if left > 0:
            await asyncio.wait(runners, timeout=left)

    async def _hand_back(self, held: Sequence[Held], why: str) -> None:
        for (lane, _), part in by_lane(held).items():
            claims = [one.claim for one in part]
            try:
                await self._threaded(self._release, lane, part[0].biz, claims, why)
                self._report.handed_back += len(part)
            except Exception as error:  # noqa: BLE001  the others are to be handed back too
                self._ports.warn("work could not be handed back; its leases will end", error)
            for one in part:
                self._holding.drop(one)

    def _release(self, lane: Lane, biz: Biz, claims: Sequence[Claim], why: str) -> None:
        self._ports.store.release(lane, biz, claims, self._id, why, self._ports.clock())
        tokens: dict[str, list[Entry]] = defaultdict(list)
        for claim in claims:
            tokens[claim.token].append(claim.entry)
        for token, entries in tokens.items():
            self._ports.queue.give_back(lane, token, entries)

    async def _account(self) -> None:
        """Add the phases of every lane to the shared account."""
        phases, self._phases = self._phases, defaultdict(lambda: defaultdict(float))
        await self._threaded(self._add_phases, phases)
        for seconds in phases.values():
            for phase, value in seconds.items():
                self._report.phases[phase] = self._report.phases.get(phase, 0.0) + value

    def _add_phases(self, phases: Mapping[Lane, Mapping[str, float]]) -> None:
        for lane, seconds in phases.items():
            self._safely(self._ports.queue.add_phases, lane, dict(seconds))

    # ---- small -----------------------------------------------------------------------------------

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _threaded(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a part without stopping the downloads."""
        call = partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def _call(self, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call something whose failure must not stop the work."""
        await self._threaded(lambda: self._safely(function, *args, **kwargs))

    def _safely(self, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  that is what this is for
            self._ports.warn("a part did not answer", error)
