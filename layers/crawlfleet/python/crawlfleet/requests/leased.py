"""The leased request in a worker's hands, and where it stands on its way."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from crawlfleet.config.documents.biz import Biz
from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.kernel.hosts import host_of, origin_of
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.models import Claim
from crawlfleet.requests.outcomes import Outcome
from crawlfleet.requests.visits import Recollection


@dataclass(slots=True)
class Bill:
    """The cost of an attempt under a quota of money, in US dollars.

    ``usd`` is its own once it has ended, ``so_far`` the time of its worker that it has had while it
    is under way. ``idle_usd`` is the time before it in which nothing was: it is in the cost of its
    job, as somebody's it must be.
    """

    usd: float = 0.0
    idle_usd: float = 0.0
    so_far: Callable[[], float] | None = None

    @property
    def now_usd(self) -> float:
        """Return its own cost up to now."""
        return self.usd if self.so_far is None else self.usd + self.so_far()


@dataclass(slots=True, eq=False, repr=False, weakref_slot=True)
class LeasedRequest:
    """Hold one claimed request, its biz as of the claim, and the rule that reads its page.

    ``ends_at`` is when its lease ends, by ``time.monotonic``, as far as MongoDB has said. ``host``
    is the host and tenant whose slot it needs, ``origin`` its scheme, host and port; ``slot_at`` is
    when the slot comes, by ``time.monotonic``, None where it has none; ``permits`` is how many of
    this worker may be under way there at once, ``interval_seconds`` the time between two slots.
    ``to_learn``: the slot may be needed for the site's robots.txt. ``known`` is what is known of
    the page since it was last read. ``weight`` is about how many bytes its outcome takes until that
    is written. ``received`` are the bytes of its page's body; ``take_records`` gets room under its
    quotas for records that are stored while the page is still read, None where it has no quotas.
    ``bill`` is what it costs where a quota of money wants to know.
    ``ended`` is its outcome where a quota ends it before it begins.
    """

    queue_key: QueueKey
    biz: Biz
    claim: Claim
    rule: Rule | Spider | None
    ends_at: float = math.inf
    host: tuple[str, str] = field(init=False)
    origin: str = field(init=False)
    slot_at: float | None = None
    permits: int = 1
    interval_seconds: float = 0.0
    to_learn: bool = False
    known: Recollection | None = None
    weight: int = 0
    received: int = 0
    take_records: Callable[[int], Awaitable[None]] | None = None
    bill: Bill | None = None
    ended: Outcome | None = None

    def __post_init__(self) -> None:
        url = self.claim.request.body.url
        self.host = host_of(url), self.queue_key.tenant
        self.origin = origin_of(url)
