"""Hand leased requests to the runners, or back: to their host's list, to others, to nobody."""

import asyncio
import math
from collections import defaultdict
from collections.abc import Sequence

from crawlfleet.crawling.politeness.client import Waiting
from crawlfleet.crawling.politeness.hop_guard import HopGuards
from crawlfleet.jobs.cancellation import CANCELLATION_SECONDS
from crawlfleet.jobs.models import JobKey
from crawlfleet.kernel.hosts import origin_of
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.leased import LeasedRequest
from crawlfleet.worker.in_flight import by_queue
from crawlfleet.worker.leases import Leases
from crawlfleet.worker.session import Session
from crawlfleet.worker.telemetry import Telemetry


class Dispatcher:
    """Takes charge of leased requests. Used from the event loop only; none of it raises."""

    def __init__(self, session: Session, hop_guards: HopGuards, leases: Leases) -> None:
        self._in_flight = session.in_flight
        self._report = session.report
        self._threaded = session.threaded
        self._scheduler = hop_guards.scheduler
        self._robots = hop_guards.robots
        self._leases = leases
        # Sites whose rules are being learnt.
        self._learning: set[asyncio.Task[None]] = set()

    def begin(self, leased: Sequence[LeasedRequest]) -> None:
        """Queue what has its slot; learn the rules of the others' sites, then get their slots.

        What a quota has ended has its outcome, and waits to be settled.
        """
        unknown: dict[tuple[QueueKey, int, str], list[LeasedRequest]] = defaultdict(list)
        for one in leased:
            if not self._in_flight.add(one):
                continue
            if one.ended is not None:
                self._in_flight.end(one, one.ended)
            elif one.slot_at is None or one.to_learn:
                key = one.queue_key, id(one.biz), origin_of(one.claim.request.body.url)
                unknown[key].append(one)
            else:
                self._scheduler.add(one)
        for part in unknown.values():
            task = asyncio.create_task(self._learn(part))
            self._learning.add(task)
            task.add_done_callback(self._learning.discard)

    @property
    def tasks(self) -> tuple[asyncio.Task[None], ...]:
        """The tasks that learn the rules of sites now."""
        return tuple(self._learning)

    async def close(self) -> None:
        """Fetch no robots.txt any more."""
        await self._robots.close()

    async def _learn(self, leased: Sequence[LeasedRequest]) -> None:
        """Learn the rules of the site that all these are of, then get them their slots.

        One that has its slot gives it for the robots.txt, if that must be fetched.
        """
        first = min(leased, key=lambda one: math.inf if one.slot_at is None else one.slot_at)
        try:
            await self._robots.learn(first)
        except Exception as error:  # noqa: BLE001  each finds that out for itself in its slot
            warn("a site's rules could not be learnt", error)
        leased = [one for one in leased if one in self._in_flight]
        granted = [one for one in leased if one.slot_at is not None]
        rest = [one for one in leased if one.slot_at is None]
        try:
            granted += await self._threaded(self._leases.admit, first.queue_key, first.biz, rest)
        except Exception as error:  # noqa: BLE001  they were handed back, or their leases end
            warn("requests could not get slots", error)
            self._leases.back_off(first.queue_key)
        for one in set(leased).difference(granted):
            self._in_flight.drop(one)
        for one in granted:
            if one in self._in_flight:
                self._scheduler.add(one)

    async def defer(self, leased: LeasedRequest, waiting: Waiting) -> None:
        """Have a request wait for a slot at its host."""
        try:
            await self._threaded(self._leases.defer, leased.queue_key, leased.biz, [waiting])
        except Exception as error:  # noqa: BLE001  whoever has it when its lease ends goes on
            warn("a request could not be deferred; its lease will end", error)
        self._in_flight.drop(leased)

    async def hand_back(self, leased: Sequence[LeasedRequest], why: str) -> None:
        """Release requests that have not begun, for others to have at once."""
        # Before anything is awaited: no runner may begin what is another's a moment later.
        for one in leased:
            self._in_flight.drop(one)
        for (queue_key, _), part in by_queue(leased).items():
            claims = [one.claim for one in part]
            try:
                await self._threaded(self._leases.release, queue_key, part[0].biz, claims, why)
                self._report.handed_back += len(part)
            except Exception as error:  # noqa: BLE001  the others are to be handed back too
                warn("requests could not be handed back; their leases will end", error)


class CancellationWatcher:
    """Lets go the requests of jobs that are being cancelled (SPEC.md C2). Used from the event loop.

    It hears of them each second; renewing leases finds what it did not hear of. What has not begun
    is not begun, a download or a reading in the middle is stopped, and nothing of it is stored.
    What is leased of such a job afterwards is let go at once. In MongoDB these requests are
    cancelled, or the cancelling makes them so; should that never happen, their leases end and they
    are somebody's again.
    """

    def __init__(self, session: Session, leases: Leases, telemetry: Telemetry) -> None:
        self._session = session
        self._cancellations = session.services.cancelling.cancellations
        self._in_flight = session.in_flight
        self._leases = leases
        self._telemetry = telemetry
        self._steady = session.services.steady
        self._reached = 0
        # Until when each counts as being cancelled, by the steady clock.
        self._jobs: dict[JobKey, float] = {}

    async def run(self) -> None:
        """Look each second, for ever; others wait for the permits of what is let go."""
        while True:
            if await self._look():
                await self._telemetry.report_hosts()
            await self._steady.sleep(self._session.services.pauses.cancellations)

    async def kept(self, leased: Sequence[LeasedRequest]) -> Sequence[LeasedRequest]:
        """Return those that are to be worked on of what was just leased; let go the others."""
        if not self._jobs:
            return leased
        now = self._steady.now()
        gone = {one for one in leased if self._jobs.get(_job_of(one), now) > now}
        if not gone:
            return leased
        await self._let_go([one for one in leased if one in gone])
        return [one for one in leased if one not in gone]

    async def _look(self) -> bool:
        """Ask which jobs are being cancelled and let go their requests; False if there are none."""
        try:
            heard = await self._session.threaded(self._cancellations.announced, self._reached)
        except Exception as error:  # noqa: BLE001  the renewal of the leases finds them gone
            warn("jobs that are being cancelled could not be heard of", error)
            return False
        self._reached = heard.reached
        for job in heard.requoted:
            self._session.spending.terms.note(job)
        now = self._steady.now()
        self._jobs = {job: until for job, until in self._jobs.items() if until > now}
        self._jobs |= dict.fromkeys(heard.jobs, now + CANCELLATION_SECONDS)
        if not self._jobs:
            return False
        leased = [one for one in self._in_flight.all() if _job_of(one) in self._jobs]
        await self._let_go(leased)
        return bool(leased)

    async def _let_go(self, leased: Sequence[LeasedRequest]) -> None:
        # Before anything is awaited: no runner may begin one of them meanwhile.
        for one in leased:
            self._in_flight.drop(one)
            self._session.stopper.stop(one)
        self._session.report.cancelled += len(leased)
        for (queue_key, _), part in by_queue(leased).items():
            claims = [one.claim for one in part]
            try:
                await self._session.threaded(self._leases.forget, queue_key, claims)
            except Exception as error:  # noqa: BLE001  Redis forgets them when the leases end
                warn("leases of a cancelled job could not be ended", error)


def _job_of(leased: LeasedRequest) -> JobKey:
    # What has no job is of none that has a name.
    return leased.queue_key.tenant, leased.queue_key.biz, leased.claim.request.job or ""
