"""The leases of requests in flight, as far as they are still the worker's own.

They are renewed when a third of their time has gone, and whenever they are in doubt. A worker that
was frozen, or taken for dead, has requests that may be others' by now. So has one whose leases are
over because MongoDB could not be asked to renew them. It asks for no page of those before it has
looked, and a look that got no answer is none: a request waits for the next one, until its lease is
over, and is left to it then.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.leased import LeasedRequest
from crawlfleet.requests.models import Claim
from crawlfleet.worker.heartbeat import Heartbeat
from crawlfleet.worker.in_flight import by_queue, entries_by_token
from crawlfleet.worker.session import Session


class Renewed(NamedTuple):
    """The leases that are another's now, and those that MongoDB could not be asked for."""

    lost: list[tuple[LeasedRequest, Claim]]
    unknown: list[LeasedRequest]


def renew_leases(session: Session, leased: Sequence[LeasedRequest]) -> Renewed:
    """Renew leases; requests that are settled meanwhile may be among the lost, as nobody's.

    It blocks: the event loop calls it in a thread.
    """
    services, now = session.services, session.services.steady.now
    ends_at = now() + session.limits.lease_seconds
    until = session.lease_end()
    lost_pairs: list[tuple[LeasedRequest, Claim]] = []
    unknown: list[LeasedRequest] = []
    patience = services.pauses.redis
    for (queue_key, _), part in by_queue(leased).items():
        pairs = [(one, one.claim) for one in part]
        try:
            claims = [claim for _, claim in pairs]
            lost = services.store.renew(queue_key, part[0].biz, claims, until)
        except Exception as error:  # noqa: BLE001  the others' leases are to be renewed too
            warn("leases could not be renewed", error)
            unknown += part
            continue
        for one in part:
            one.ends_at = ends_at
        if patience > 0:
            still = [pair for pair in pairs if pair[1].request.id not in lost]
            patience -= _renew_in_redis(session, queue_key, still, until)
        lost_pairs += [pair for pair in pairs if pair[1].request.id in lost]
    return Renewed(lost_pairs, unknown)


def _renew_in_redis(
    session: Session,
    queue_key: QueueKey,
    pairs: Sequence[tuple[LeasedRequest, Claim]],
    until: datetime,
) -> float:
    """Renew leases in Redis as in MongoDB; returns the seconds that were waited in vain."""
    services, now = session.services, session.services.steady.now
    started = now()
    whose = {claim.entry.id: one for one, claim in pairs}
    try:
        for token, entries in entries_by_token(claim for _, claim in pairs).items():
            forgotten = services.queue.renew(queue_key, token, entries, until)
            # What has ended since is forgotten for good.
            is_settled = session.in_flight.is_settled
            forgotten = [entry for entry in forgotten if not is_settled(whose[entry.id])]
            # MongoDB says that they are ours: Redis has lost them, and would not know whose
            # they are when this worker is killed. One that was frozen since it asked does not
            # know either: what it listed would belong to nobody any more.
            if forgotten and now() - started < services.pauses.trusted:
                services.book.relist(queue_key, token, forgotten, until)
    except Exception as error:  # noqa: BLE001  MongoDB has it; Redis follows
        warn("leases could not be renewed in Redis", error)
        return now() - started
    return 0.0


class Ownership:
    """The leases of one worker, as far as they are still its own. Used from the event loop only."""

    def __init__(self, session: Session, heartbeat: Heartbeat) -> None:
        self.heartbeat = heartbeat
        self._session = session
        self._in_flight = session.in_flight
        self._again_seconds = session.services.pauses.owned
        # How long the leases in flight are, or will be: after a change some may be shorter.
        self._lease_seconds = session.limits.lease_seconds
        self._steady = session.services.steady
        self._looked_at = self._steady.now()
        self._looking = asyncio.Lock()
        # Of these nobody knows: they were in doubt, and the look got no answer.
        self._unknown: set[LeasedRequest] = set()

    @property
    def in_doubt(self) -> bool:
        """Tell whether all requests in flight may be others' by now."""
        silent = min(self.heartbeat.detached_seconds, self._steady.now() - self._looked_at)
        return self.heartbeat.may_have_lost or silent >= self.heartbeat.doubt_seconds

    async def renew(self) -> None:
        """Renew the leases, if that is due or they are in doubt."""
        least = min(self._lease_seconds, self._session.limits.lease_seconds)
        if self.in_doubt or self._steady.now() - self._looked_at >= least / 3:
            async with self._looking:
                await self._look()

    async def still(self, leased: LeasedRequest) -> bool:
        """Tell whether a request is still this worker's, as far as that can be known.

        The first who asks in doubt looks; all who ask meanwhile wait for the answer, too.
        """
        while leased in self._in_flight and self._unsure_of(leased):
            async with self._looking:
                if self._unsure_of(leased) and not self._looked_in_vain(leased):
                    await self._look()
                    if leased not in self._unknown:
                        break
            if leased in self._unknown:
                if self._steady.now() >= leased.ends_at:
                    self._leave(leased)
                else:
                    await self._steady.sleep(self._again_seconds)
        return leased in self._in_flight

    def _unsure_of(self, leased: LeasedRequest) -> bool:
        return self.in_doubt or leased in self._unknown or self._steady.now() >= leased.ends_at

    def _looked_in_vain(self, leased: LeasedRequest) -> bool:
        """Tell whether a look at it failed a moment ago: many may wait for the same node."""
        just_now = self._steady.now() - self._looked_at < self._again_seconds
        return leased in self._unknown and just_now and not self.in_doubt

    async def _look(self) -> None:
        """Renew the leases of requests in flight, and drop those that are another's."""
        losses, started, in_doubt = self.heartbeat.losses, self._steady.now(), self.in_doubt
        self._lease_seconds = self._session.limits.lease_seconds
        # In one go: while pages are read, each return to the event loop takes a while.
        renewed = await self._session.threaded(renew_leases, self._session, self._in_flight.all())
        for one, claim in renewed.lost:
            # What is done is nobody's any more: of that which is being written the write tells.
            if self._in_flight.is_settled(one):
                continue
            if one.claim is claim and self._in_flight.drop(one):
                self._session.report.lost += 1
                self._session.stopper.stop(one)
        now, before = self._steady.now(), self._unknown
        self._unknown = {
            one
            for one in renewed.unknown
            if one in self._in_flight and (in_doubt or one in before or now >= one.ends_at)
        }
        # Not before: until then whoever asks is in doubt, and waits.
        self.heartbeat.looked(losses)
        self._looked_at = started

    def _leave(self, leased: LeasedRequest) -> None:
        self._unknown.discard(leased)
        self._session.report.left += self._in_flight.drop(leased)
        over = TimeoutError("its lease is over, and its node could not be asked whose it is")
        warn(f"request {leased.claim.request.id} is left to its lease", over)
