"""Model bidding for jobs (SPEC.md B4-B6, D2): listings on the board, bids, awards, link probes.

The board knows nothing of demands and probes: what a job wants, and what an applicant has, are
documents that workers and auctions read.
"""

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from crawlfleet.fleet.models import Remaining
from crawlfleet.jobs.models import JobKey, StatedDemand
from crawlfleet.jobs.spiders.models import LinkNeeds
from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one request for a test link: the speed of the link, or its fault.

    ``seconds`` until the first byte, connecting included; ``bytes_per_second`` of the body. Both
    are None where the site gave no answer, and ``fault`` says why, for people.
    """

    at: datetime
    seconds: float | None = None
    bytes_per_second: float | None = None
    fault: str | None = None


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The wants of a listed job, the document of its listing.

    ``url`` is requested to probe the link to its site, ``link`` what that must be like. What the
    job takes of a worker is its own ``demand``, and what that leaves out the demand of ``spider``.
    """

    url: str
    spider: str
    link: LinkNeeds = LinkNeeds()
    demand: StatedDemand | None = None


class Application(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's bid for a job, with what it has left and its link to the site.

    ``lately`` counts the jobs it has won that its readings may not show yet (``lag_seconds``).
    """

    worker: str
    pool: str
    remaining: Remaining
    probe: Probe
    at: datetime
    lately: int = 0


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """The fit of a worker for a job; ``why_not`` has a sentence for all that keeps it away."""

    why_not: tuple[str, ...] = ()

    @property
    def is_fit(self) -> bool:
        """Tell whether it may."""
        return not self.why_not


class Ranked(msgspec.Struct, frozen=True, kw_only=True):
    """An applicant in an award. ``score`` is None where it was dropped; ``why`` is for people."""

    worker: str
    score: float | None
    why: str


class Award(msgspec.Struct, frozen=True, kw_only=True):
    """The winner of a job, and all applicants: the winner first, then by score."""

    winner: Application
    ranking: tuple[Ranked, ...]


class JobListing(msgspec.Struct, frozen=True, kw_only=True):
    """A job on the board; ``document`` is a :class:`Wanted` as JSON.

    ``weight`` is its biz's, as it was when the job was listed: a tenant whose jobs have 2 gets
    twice as many awarded as one whose have 1. The workers of ``pool`` alone may have it, None is
    any. Its demand was ``lowered`` so often. A rebuilt board keeps its order by ``since``, when the
    job came: None is when it is listed, and what the board returns has it.
    """

    tenant: str
    biz: str
    job: str
    document: bytes = b""
    priority: int = DEFAULT_PRIORITY
    weight: int = 1
    pool: str | None = None
    lowered: int = 0
    since: datetime | None = None

    @property
    def key(self) -> JobKey:
        """Tenant, biz and name."""
        return self.tenant, self.biz, self.job


class ListingState(StrEnum):
    """The state of a listed job: it waits for an application, the award, the acknowledgement."""

    WAITING = "waiting"
    APPLIED = "applied"
    AWARDED = "awarded"


class WhyNot(StrEnum):
    """The reason of a worker that has examined a job and does not apply for it.

    It lacks what the job wants, or is too busy with others; or the job's site gave it no answer, or
    the link could not be probed, which is not the site's fault.
    """

    LACKS = "lacks"
    BUSY = "busy"
    AWAY = "away"
    UNJUDGED = "unjudged"

    @property
    def is_link_fault(self) -> bool:
        """Tell whether the link to the job's site is the reason, whatever the job wants."""
        return self in {WhyNot.AWAY, WhyNot.UNJUDGED}


class Decline(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's refusal to bid for a job that was lowered so often; ``why`` is for people."""

    kind: WhyNot
    lowered: int
    why: str


class Note(Decline, frozen=True, kw_only=True):
    """The last refusal of a pool's workers, at ``at``, unchanged ``since``.

    It is unchanged while the link is at fault, or kind and demand stay the same.
    """

    since: datetime
    at: datetime

    @property
    def lasted(self) -> timedelta:
        """The time between the first and the latest refusal of this kind."""
        return self.at - self.since


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The standing of a listed job; ``why_not`` are the last refusals by pool.

    ``version`` changes with everything else: an award names the one it was decided on. ``until``
    ends its wait for an application, its window, or its winner's time. Once it is awarded to
    ``worker``, under the award's ``number``, it has no ``applications``.
    """

    listing: JobListing
    state: ListingState
    version: int
    until: datetime
    applications: int = 0
    worker: str | None = None
    number: int | None = None
    why_not: dict[str, Note] = {}


class Bid(msgspec.Struct, frozen=True, kw_only=True):
    """An application as the board keeps it: an :class:`Application` as JSON."""

    worker: str
    document: bytes


class ListingResult(StrEnum):
    """The result of listing a job: ``begun`` where a worker has just acknowledged its award."""

    LISTED = "offered"
    STANDING = "standing"
    BEGUN = "begun"
    FULL = "full"


class Applied(StrEnum):
    """The result of an application.

    ``busy``: the worker has another one open, or has won a job. ``gone``: the job is not to be had
    any more. ``full``: enough have applied for it.
    """

    APPLIED = "applied"
    BUSY = "busy"
    GONE = "gone"
    FULL = "full"


class ProbeKey(msgspec.Struct, frozen=True, kw_only=True):
    """Key of the links that count as alike: of one biz's downloads, from one pool, to one origin.

    ``origin`` is scheme, host and port, as of kernel.hosts.origin_of.
    """

    tenant: str
    biz: str
    pool: str
    origin: str


class UnknownLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link that could not be probed now, through no fault of the site or for a while.

    ``why`` is for people; a probe is worth repeating in ``again_seconds``.
    """

    why: str
    again_seconds: float
