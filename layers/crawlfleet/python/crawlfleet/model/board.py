"""Jobs that wait for a worker, as the board has them (SPEC.md B4-B6, D2).

The board knows nothing of demands and probes: what a job wants, and what an applicant has, are
documents that those who put them there can read.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeAlias

import msgspec

from crawlfleet.model.plan import DEFAULT_PRIORITY

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


class OfferState(StrEnum):
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
    def is_unanswered(self) -> bool:
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
    state: OfferState
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
