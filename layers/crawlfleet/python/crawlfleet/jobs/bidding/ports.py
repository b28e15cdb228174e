"""The board: jobs that wait for a worker, and who has applied for them (SPEC.md B4-B6, D2)."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from crawlfleet.jobs.bidding.models import Applied, Bid, Decline, JobKey, Offer, Offered, Standing


class JobBoard(Protocol):
    """What waits for a worker, in order, and how far each is on its way to one.

    ::

        offer -> waiting -> applied -> awarded -> (acknowledged: not here any more)
                  ^  |lower             |lapse
                  +--+------------------+

    A job's document in MongoDB is the truth, ``placing`` until it is acknowledged; this is an index
    of those, so offering all that are ``placing`` fills a board that was lost. No method waits, and
    times are those that are handed in. Each change is one script: whatever many do at once, a job
    is in one state, and a worker has one application or award open.

    What names a job, an application or a worker that is not there any more has no effect. Documents
    beyond jobs.bidding.listing's bounds are an :class:`InvalidRequestError`.
    """

    def offer(self, offer: Offer, now: datetime, wait: timedelta) -> Offered:
        """Put a job on the board, to wait so long for its first application.

        One that stands there stays as it is, and one that a worker has acknowledged within
        jobs.bidding.listing.BEGUN is not offered again. ``full`` is that its tenant has as many as
        it may, or that too many pools have jobs of their own.
        """
        ...

    def head(self, pool: str, limit: int, first: int = 0) -> list[Offer]:
        """What a worker of the pool reads: jobs without an award, as they are to be served.

        By turns of the tenants, each moved on by its weight, and inside a tenant by rank. ``first``
        skips as many, for who finds nothing that fits; nothing is beyond
        jobs.bidding.listing.DEEPEST.
        """
        ...

    def apply(
        self, worker: str, job: JobKey, application: bytes, now: datetime, window: timedelta
    ) -> Applied:
        """A worker applies; the first application opens the job's window.

        Applied for again by the same worker, the first application stands.
        """
        ...

    def held(self, worker: str) -> Standing | None:
        """The job for which the worker has an application open, or which it has won.

        None where it has neither: another one has won, the award has lapsed, the job is gone.
        """
        ...

    def retract(self, worker: str, now: datetime, wait: timedelta) -> JobKey | None:
        """The worker's open application, or its award, is void: it leaves, or is dead.

        A job without another application waits again for one; one that was awarded is at the head
        of its tenant's queue.
        """
        ...

    def decline(self, pool: str, why: Mapping[JobKey, Decline], now: datetime) -> None:
        """A worker of the pool has looked at jobs and does not apply, and why."""
        ...

    def due_windows(self, now: datetime, limit: int) -> list[JobKey]:
        """Jobs whose window has ended, the longest ago first: to be awarded."""
        ...

    def read(self, job: JobKey) -> tuple[Standing, list[Bid]] | None:
        """How a job stands, with its applications by worker; None where it is not on the board."""
        ...

    def award(
        self, job: JobKey, version: int, worker: str, acknowledge_by: datetime
    ) -> Standing | None:
        """Give the job to an applicant, on what was read as that version.

        It leaves the queue, and the others are free to apply elsewhere. None where the job has
        changed since, or is another's: whoever decides reads it again.
        """
        ...

    def acknowledge(self, worker: str, job: JobKey, number: int, now: datetime) -> bool:
        """The winner has begun: the job leaves the board.

        Repeated within jobs.bidding.listing.BEGUN it is true again. False where the award has
        lapsed, and then nothing of the job may be done.
        """
        ...

    def lapse(self, now: datetime, wait: timedelta, limit: int) -> list[tuple[JobKey, str]]:
        """Awards that nobody acknowledged in time are void: job, and who had it.

        Each is at the head of its tenant's queue again.
        """
        ...

    def due_waits(self, now: datetime, limit: int) -> list[JobKey]:
        """Jobs for which nobody has applied in their wait, the longest ago first."""
        ...

    def lower(self, job: JobKey, lowered: int, now: datetime, wait: timedelta) -> bool:
        """Nobody applied for a job that was ``lowered`` so often: once more, and to the tail.

        False where it was lowered by another, or somebody has applied.
        """
        ...

    def defer(
        self, job: JobKey, lowered: int, now: datetime, wait: timedelta, *, stays: bool = False
    ) -> bool:
        """Nobody applied, and not for what it wants: to the tail, and that as it was.

        One that ``stays`` keeps its place: whoever might suit it has not come to look at it.
        False where it was lowered by another, or somebody has applied.
        """
        ...

    def withdraw(self, job: JobKey) -> bool:
        """The job waits for no worker any more: whoever applied or won is free. False without."""
        ...

    def stands(
        self, tenant: str, biz: str | None, after: JobKey | None, limit: int
    ) -> list[Standing]:
        """Jobs of a tenant, or of one biz of it, by name."""
        ...

    def drop(self, tenant: str, biz: str, limit: int) -> int:
        """Withdraw up to so many jobs of a biz that is gone; how many there were."""
        ...

    def missing(self, jobs: Sequence[JobKey]) -> list[JobKey]:
        """Those of the jobs that are not on the board."""
        ...
