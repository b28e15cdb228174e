"""What a worker holds: each request from its claim until its outcome is written."""

import math

from crawlfleet.config.documents.biz import Biz
from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.urls import host_of
from crawlfleet.requests.models import Claim, Recollection


class LeasedRequest:
    """One claimed request, the biz as it was configured at the claim, and what is to read its page.

    ``ends_at`` is when its lease ends, by ``time.monotonic``, as far as the truth has said.
    ``host`` and tenant are whose turn it needs; ``turn_at`` is when that comes, by
    ``time.monotonic``, None where it has none; ``permits`` is how many of this worker may be under
    way there at once, ``interval_seconds`` what lies between two turns. ``to_learn`` says that the
    turn may be needed for its site's robots.txt. ``known`` is what is known of the page since it
    was last read. ``weight`` is about how many bytes its outcome takes until that is written.
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
