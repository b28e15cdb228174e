"""The leased request in a worker's hands, and where it stands on its way."""

import math

from crawlfleet.config.documents.biz import Biz
from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.kernel.hosts import host_of
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.models import Claim, Recollection


class LeasedRequest:
    """Hold one claimed request, its biz as of the claim, and the rule that reads its page.

    ``ends_at`` is when its lease ends, by ``time.monotonic``, as far as MongoDB has said. ``host``
    is the host and tenant whose slot it needs; ``slot_at`` is when that comes, by
    ``time.monotonic``, None where it has none; ``permits`` is how many of this worker may be under
    way there at once, ``interval_seconds`` the time between two slots. ``to_learn``: the slot may
    be needed for the site's robots.txt. ``known`` is what is known of the page since it was last
    read. ``weight`` is about how many bytes its outcome takes until that is written.
    """

    __slots__ = (
        "biz",
        "claim",
        "ends_at",
        "host",
        "interval_seconds",
        "known",
        "permits",
        "queue_key",
        "rule",
        "slot_at",
        "to_learn",
        "weight",
    )

    def __init__(
        self,
        queue_key: QueueKey,
        biz: Biz,
        claim: Claim,
        rule: Rule | Spider | None,
        ends_at: float = math.inf,
    ) -> None:
        self.queue_key = queue_key
        self.biz = biz
        self.claim = claim
        self.rule = rule
        self.ends_at = ends_at
        self.host = host_of(claim.request.body.url), queue_key.tenant
        self.slot_at: float | None = None
        self.permits = 1
        self.interval_seconds = 0.0
        self.to_learn = False
        self.known: Recollection | None = None
        self.weight = 0
