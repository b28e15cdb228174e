"""Whether what a worker holds is still its own: asked before each page, and looked up in the truth.

A worker that was frozen, or taken for dead, has a list full of what may be others' by now. So has
one whose leases are over because the truth could not be asked to renew them. It asks for no page of
those before it has looked, and a look that got no answer is none: a request waits for the next one,
until its lease is over, and is left to it then.
"""

import asyncio
from collections.abc import Callable

from crawlfleet.flows.heart import Heart
from crawlfleet.flows.holding import Held, Holding
from crawlfleet.flows.leasing import Leasing
from crawlfleet.flows.passages import Threaded
from crawlfleet.flows.pauses import PAUSES, STEADY, SteadyTime
from crawlfleet.model.worker import WorkReport


class Ownership:
    """What one worker knows of its leases. Used from the event loop only.

    Args:
        heart: Says whether others may have taken the worker for dead.
        leasing: Renews leases, and so finds out which are left.
        holding: What is held.
        report: Counts what was lost, and what is left to its lease.
        threaded: Calls a part without stopping the event loop.
        doubt_seconds: Silent for less than this nobody can have taken it for dead.
        warn: Is told what is left to its lease.
        stop: Stops what is under way of what is not ours any more.
        again_seconds: Between two looks that a node did not answer.
        steady: What leases and silences go by.
    """

    def __init__(
        self,
        heart: Heart,
        leasing: Leasing,
        holding: Holding,
        report: WorkReport,
        threaded: Threaded,
        doubt_seconds: float,
        warn: Callable[[str, Exception], None],
        stop: Callable[[Held], None] = lambda _: None,
        again_seconds: float = PAUSES.owned,
        steady: SteadyTime = STEADY,
    ) -> None:
        self._stop = stop
        self._again_seconds = again_seconds
        self._steady = steady
        self._heart = heart
        self._leasing = leasing
        self._holding = holding
        self._report = report
        self._threaded = threaded
        self._doubt_seconds = doubt_seconds
        self._warn = warn
        self._looked_at = self._steady.now()
        self._looking = asyncio.Lock()
        # Of these nobody knows: they were in doubt, and the look got no answer.
        self._unseen: set[Held] = set()

    @property
    def in_doubt(self) -> bool:
        """Whether all that is held may be others' by now."""
        silent = min(self._heart.detached_seconds, self._steady.now() - self._looked_at)
        return self._heart.may_have_lost or silent >= self._doubt_seconds

    async def renew(self, after_seconds: float) -> None:
        """Renew the leases, if that is due or in doubt."""
        if self.in_doubt or self._steady.now() - self._looked_at >= after_seconds:
            async with self._looking:
                await self._look()

    async def still(self, held: Held) -> bool:
        """Whether a request is still this worker's, as far as that can be known.

        The first who asks in doubt looks; all who ask meanwhile wait for the answer, too.
        """
        while self._holding.holds(held) and self._unsure_of(held):
            async with self._looking:
                if self._unsure_of(held) and not self._looked_in_vain(held):
                    await self._look()
                    if held not in self._unseen:
                        break
            if held in self._unseen:
                if self._steady.now() >= held.ends_at:
                    self._leave(held)
                else:
                    await self._steady.sleep(self._again_seconds)
        return self._holding.holds(held)

    def _unsure_of(self, held: Held) -> bool:
        return self.in_doubt or held in self._unseen or self._steady.now() >= held.ends_at

    def _looked_in_vain(self, held: Held) -> bool:
        """Whether that was a moment ago: many may wait for the same node."""
        just_now = self._steady.now() - self._looked_at < self._again_seconds
        return held in self._unseen and just_now and not self.in_doubt

    async def _look(self) -> None:
        """Renew the leases of what is held, and drop what is another's."""
        losses, started, in_doubt = self._heart.losses, self._steady.now(), self.in_doubt
        # In one go: while pages are read, each return to the event loop takes a while.
        kept = await self._threaded(
            self._leasing.keep, self._holding.all(), self._holding.is_settled
        )
        for one, claim in kept.gone:
            # What is done is nobody's any more: of that which is being written the write tells.
            if self._holding.is_settled(one):
                continue
            if one.claim is claim and self._holding.drop(one):
                self._report.lost += 1
                self._stop(one)
        now, before = self._steady.now(), self._unseen
        self._unseen = {
            one
            for one in kept.unseen
            if self._holding.holds(one) and (in_doubt or one in before or now >= one.ends_at)
        }
        # Not before: until then whoever asks is in doubt, and waits.
        self._heart.looked(losses)
        self._looked_at = started

    def _leave(self, held: Held) -> None:
        self._unseen.discard(held)
        self._report.left += self._holding.drop(held)
        over = TimeoutError("its lease is over, and its node could not be asked whose it is")
        self._warn(f"request {held.claim.request.id} is left to its lease", over)
