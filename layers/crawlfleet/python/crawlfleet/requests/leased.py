"""What a worker holds: each request from its claim until its outcome is written."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from crawlfleet.config.documents.biz import Biz, FleetLimits
from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.kernel.hosts import host_of
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.models import Claim, Entry, Recollection
from crawlfleet.requests.outcomes import Outcome

#: Outcomes whose node does not answer are kept up to this many bytes and this many batches; what
#: is beyond is left to its leases, and done again.
DEFERRED_BYTES: Final = 32_000_000
DEFERRED_BATCHES: Final = 4


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


class Taken(NamedTuple):
    """The yield of a look at the queue: requests that are held now, of so many entries."""

    held: list[LeasedRequest]
    entries: int

    def with_more(self, more: "Taken") -> "Taken":
        """Both together."""
        return Taken([*self.held, *more.held], self.entries + more.entries)


NOTHING: Final = Taken([], 0)


class Kept(NamedTuple):
    """The outcome of renewing leases: what is another's now, and what could not be asked for."""

    gone: list[tuple[LeasedRequest, Claim]]
    unseen: list[LeasedRequest]


class InFlight:
    """The held requests of a worker, used from its event loop only."""

    def __init__(self) -> None:
        self._held: dict[LeasedRequest, Outcome | None] = {}
        self._by_id: dict[tuple[QueueKey, RequestId], LeasedRequest] = {}
        self._running: set[LeasedRequest] = set()
        self._deferred: dict[LeasedRequest, None] = {}
        self._written: set[LeasedRequest] = set()
        self._by_queue: dict[str, int] = {}
        self.ended = 0
        self.weight = 0

    def __len__(self) -> int:
        return len(self._held)

    @property
    def running(self) -> int:
        """How many are being downloaded or read."""
        return len(self._running)

    def full(self, limits: FleetLimits) -> bool:
        """Whether more would only wait: in memory here, and out of reach of other workers.

        What is parked does not count: the work of other nodes goes on.
        """
        return len(self._held) - len(self._deferred) >= limits.concurrency + 3 * limits.batch

    def per_queue(self) -> dict[str, int]:
        """How many are held by ``tenant/biz``. May be called from any thread."""
        return dict(self._by_queue)

    def add(self, held: LeasedRequest) -> bool:
        """Take charge of a claimed request; False if it is being worked on here already.

        A worker that was stopped for longer than its leases finds its own work again: that goes on,
        under the new claim.
        """
        known = self._by_id.setdefault((held.queue_key, held.claim.request.id), held)
        if known is not held:
            known.claim, known.ends_at = held.claim, held.ends_at
            return False
        self._held[held] = None
        self._count(held.queue_key, 1)
        return True

    def _count(self, queue_key: QueueKey, change: int) -> None:
        name = f"{queue_key.tenant}/{queue_key.biz}"
        left = self._by_queue.get(name, 0) + change
        if left:
            self._by_queue[name] = left
        else:
            self._by_queue.pop(name, None)

    def defer(self, held: Iterable[LeasedRequest], limits: FleetLimits) -> list[LeasedRequest]:
        """Their outcomes cannot be written now; returns those that there is no room to keep."""
        self._deferred.update(dict.fromkeys(one for one in held if one in self._held))
        room, bytes_left = DEFERRED_BATCHES * limits.batch, DEFERRED_BYTES
        beyond = []
        for one in reversed(self._deferred):
            room, bytes_left = room - 1, bytes_left - one.weight
            if room < 0 or bytes_left < 0:
                beyond.append(one)
        return beyond

    def holds(self, held: LeasedRequest) -> bool:
        """Whether it is ours."""
        return held in self._held

    def start(self, held: LeasedRequest) -> bool:
        """It is being worked on now; False if it is no longer ours to work on."""
        if held not in self._held:
            return False
        self._running.add(held)
        return True

    def end(self, held: LeasedRequest, outcome: Outcome) -> None:
        """It has an outcome, still to be written. Of a request no longer held nothing is kept."""
        self._running.discard(held)
        if held in self._held:
            if self._held[held] is None:
                self.ended += 1
                self.weight += held.weight
            self._held[held] = outcome

    def drop(self, held: LeasedRequest) -> bool:
        """It is no longer ours: written, handed back, or lost to another; False if it was not."""
        self._running.discard(held)
        if held not in self._held:
            return False
        del self._by_id[held.queue_key, held.claim.request.id]
        self._deferred.pop(held, None)
        self._count(held.queue_key, -1)
        if self._held.pop(held) is not None:
            self.ended -= 1
            self.weight -= held.weight
        return True

    @contextmanager
    def writing(self, part: Collection[LeasedRequest]) -> Iterator[None]:
        """Their outcomes are being written within: only that tells whether they were ours."""
        self._written.update(part)
        try:
            yield
        finally:
            self._written.difference_update(part)

    def is_settled(self, held: LeasedRequest) -> bool:
        """Whether its outcome is written or being written. May be called from any thread."""
        return held in self._written or held not in self._held

    def outcomes(self) -> list[tuple[LeasedRequest, Outcome]]:
        """Those that wait to be written."""
        return [(held, outcome) for held, outcome in self._held.items() if outcome is not None]

    def all(self) -> list[LeasedRequest]:
        """Everything held, in the order of the claims."""
        return list(self._held)

    def waiting(self) -> list[LeasedRequest]:
        """Those not yet begun."""
        return [
            h for h, outcome in self._held.items() if outcome is None and h not in self._running
        ]


def by_queue(held: Iterable[LeasedRequest]) -> dict[tuple[QueueKey, int], list[LeasedRequest]]:
    """Grouped by lane and by the configuration that the claim was made under."""
    groups: dict[tuple[QueueKey, int], list[LeasedRequest]] = defaultdict(list)
    for one in held:
        groups[one.queue_key, id(one.biz)].append(one)
    return groups


def entries_by_token(claims: Iterable[Claim]) -> dict[str, list[Entry]]:
    """Their entries, grouped by the token of the lease that they are held by."""
    tokens: dict[str, list[Entry]] = defaultdict(list)
    for claim in claims:
        tokens[claim.token].append(claim.entry)
    return tokens
