"""How workers apply for jobs, and which of them gets one (SPEC.md B4, B5, B6)."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from crawlfleet.model.document import Document
from crawlfleet.model.plan import LinkNeeds
from crawlfleet.model.usage import Probe, Remaining

_Weight = Annotated[float, Meta(ge=0, le=1_000)]


class Weights(Document, frozen=True, kw_only=True):
    """How much each resource that is left counts among applicants; one of 0 does not count."""

    memory: _Weight = 1.0
    cpu: _Weight = 1.0
    bandwidth: _Weight = 1.0


class BiddingTerms(Document, frozen=True, kw_only=True):
    """The ``bidding`` of the stage document; without one jobs wait for no worker.

    Attributes:
        window_seconds: From the first application for a job until it is awarded.
        wait_seconds: For so long a job waits for an application; then its demand is lowered.
        acknowledge_seconds: Within these the winner says that it has begun, or the job goes back.
        margin: By so much of a demand a worker may miss it and still apply.
        weights: What counts among those that are left.
        slower_seconds: Who needs so much longer for the first byte than the best is dropped.
        slower_times: Who is so many times slower in bytes than the best of the others is dropped.
            Who has a way that carries what runs of the job's spider take is never dropped for it.
            SPEC.md B5 has tens of times as its example; the default is 2, chosen on 14 seeds of
            the simulation (benchmarks/assignment.py): with more, jobs went to ways that carried as
            little as 8 % of what was wanted, and one of those ended last of all.
        probe_seconds: A way that was looked at is not looked at again for so long.
        lag_seconds: For so long a job that was won may not show in its winner's readings.
        patience_seconds: For so long workers have to have seen that a job's site gives no answer
            before it is given up, or that those that suit it are busy before it is lowered. For so
            long a job keeps its place while a pool has not come to look at it; then those that have
            decide, and where none has people are told that it waits.
        applicants: A job that so many have applied for is passed over by whoever reads on. Were
            there no such bound, all would apply for the first job, and one be awarded a window.
    """

    window_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.5
    wait_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 30.0
    acknowledge_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 10.0
    margin: Annotated[float, Meta(ge=0, lt=1)] = 0.1
    weights: Weights = Weights()
    slower_seconds: Annotated[float, Meta(gt=0, le=600)] = 0.5
    slower_times: Annotated[float, Meta(gt=1, le=1_000_000)] = 2.0
    probe_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 300.0
    lag_seconds: Annotated[float, Meta(ge=0, le=3_600)] = 10.0
    patience_seconds: Annotated[float, Meta(gt=0, le=604_800)] = 3_600.0
    applicants: Annotated[int, Meta(ge=1, le=100)] = 8


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a job on the board wants, for whoever reads on.

    ``url`` is what is asked for to find out what the way to its site is like; ``link`` what that
    way must be like. What it takes of a worker is what is learnt of ``spider``.
    """

    url: str
    spider: str
    link: LinkNeeds = LinkNeeds()


class Application(msgspec.Struct, frozen=True, kw_only=True):
    """A worker asks for a job, and says what it has left and what its way to the site is like.

    ``lately`` is how many jobs it has won that its readings may not show yet (``lag_seconds``).
    """

    worker: str
    pool: str
    remaining: Remaining
    probe: Probe
    at: datetime
    lately: int = 0


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a worker may apply for a job; ``why_not`` has a sentence for all that keeps it."""

    why_not: tuple[str, ...] = ()

    @property
    def is_fit(self) -> bool:
        """Nothing keeps it from applying."""
        return not self.why_not


class Ranked(msgspec.Struct, frozen=True, kw_only=True):
    """An applicant in an award. ``score`` is None where it was dropped; ``why`` is for people."""

    worker: str
    score: float | None
    why: str


class Award(msgspec.Struct, frozen=True, kw_only=True):
    """Who gets a job, and how all who applied were judged: the winner first, then by score."""

    winner: Application
    ranking: tuple[Ranked, ...]
