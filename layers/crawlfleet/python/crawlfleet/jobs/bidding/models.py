"""How workers apply for jobs, and which of them gets one (SPEC.md B4, B5, B6).

Jobs that wait for a worker, as the board has them (SPEC.md B4-B6, D2).

The board knows nothing of demands and probes: what a job wants, and what an applicant has, are
documents that those who put them there can read.

What a worker's way to a site is known by, and why it may not be known now (SPEC.md B4).
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeAlias

import msgspec

from crawlfleet.fleet.models import Remaining
from crawlfleet.jobs.spiders.models import LinkNeeds
from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What the way to a site was like: one request for the test link, or why there was none.

    ``seconds`` until the first byte, connecting included; ``bytes_per_second`` of the body. Both
    are None where the site gave no answer, and ``fault`` then says why in words for people.
    """

    at: datetime
    seconds: float | None = None
    bytes_per_second: float | None = None
    fault: str | None = None


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


#: Tenant, biz and name of a job.
JobKey: TypeAlias = tuple[str, str, str]


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it is put on the board.

    Attributes:
        document: What workers have to know of it to apply.
        priority: Its job's, 0 to 10.
        weight: Its biz's, as it was when this was offered: a tenant whose jobs are of 2 gets twice
            as many awarded as one whose are of 1.
        pool: The pool whose workers alone may have it; None is any.
        lowered: How often its demand was lowered.
        since: When the job came: a board that is filled again has the order that it had. None is
            when it is offered; what the board tells always has it.
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
    """What a job on the board waits for: an application, the award, the acknowledgement."""

    WAITING = "waiting"
    APPLIED = "applied"
    AWARDED = "awarded"


class WhyNot(StrEnum):
    """Why a worker that has looked at a job does not apply for it.

    It lacks what the job wants, or would not if it did nothing else; or the job's site gave it no
    answer, or what the way there is like could not be found out, which is not the site's doing.
    """

    LACKS = "lacks"
    BUSY = "busy"
    AWAY = "away"
    UNJUDGED = "unjudged"

    @property
    def is_link_fault(self) -> bool:
        """Whether the way to the job's site is what keeps the worker, whatever the job wants."""
        return self in {WhyNot.AWAY, WhyNot.UNJUDGED}


class Decline(msgspec.Struct, frozen=True, kw_only=True):
    """A worker does not apply for a job that was lowered so often; ``why`` is for people."""

    kind: WhyNot
    lowered: int
    why: str


class Note(Decline, frozen=True, kw_only=True):
    """What a pool's workers said of a job last, at ``at``, and have without a break ``since``.

    They say the same as long as they find no answer, or the kind and the demand are the same.
    """

    since: datetime
    at: datetime

    @property
    def lasted(self) -> timedelta:
        """From the first look that found it so to the latest one."""
        return self.at - self.since


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How a job stands on the board.

    Attributes:
        version: Another one after every change: what an award names.
        until: When its wait for an application, its window, or its winner's time ends.
        applications: How many have applied; 0 once it is awarded.
        worker: The winner, once it is awarded, under the award's ``number``.
        why_not: By pool, why a worker that has looked at it last did not apply.
    """

    offer: Offer
    state: ListingState
    version: int
    until: datetime
    applications: int = 0
    worker: str | None = None
    number: int | None = None
    why_not: dict[str, Note] = {}


class Bid(msgspec.Struct, frozen=True, kw_only=True):
    """An application: who applies, and what it says of itself."""

    worker: str
    document: bytes


class Offered(StrEnum):
    """What came of an offer: ``begun`` is that a worker has acknowledged that very job just now."""

    OFFERED = "offered"
    STANDING = "standing"
    BEGUN = "begun"
    FULL = "full"


class Applied(StrEnum):
    """What came of an application.

    ``busy``: the worker has another one open, or has won a job. ``gone``: the job is not to be had
    any more. ``full``: enough have applied for it.
    """

    APPLIED = "applied"
    BUSY = "busy"
    GONE = "gone"
    FULL = "full"


class ProbeKey(msgspec.Struct, frozen=True, kw_only=True):
    """Ways that are taken to be alike: one biz's downloads, from one pool, to one origin.

    ``origin`` is scheme, host and port, as of kernel.urls.origin_of.
    """

    tenant: str
    biz: str
    pool: str
    origin: str


class UnknownLink(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing is known of the way now, and that is not the site's doing or not its last word.

    ``why`` is for people; it is worth asking again in ``again_seconds``.
    """

    why: str
    again_seconds: float
