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
from crawlfleet.kernel.queue_key import Lane
from crawlfleet.requests.models import Claim, Entry, Recollection
from crawlfleet.requests.outcomes import Outcome

#: Outcomes whose node does not answer are kept up to this many bytes and this many batches; what
#: is beyond is left to its leases, and done again.
PARKED_BYTES: Final = 32_000_000
PARKED_BATCHES: Final = 4


class Held:
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
        "lane",
        "permits",
        "rule",
        "to_learn",
        "turn_at",
        "weight",
    )

    def __init__(
        self,
        lane: Lane,
        biz: Biz,
        claim: Claim,
        rule: Rule | Spider | None,
        ends_at: float = math.inf,
    ) -> None:
        self.lane = lane
        self.biz = biz
        self.claim = claim
        self.rule = rule
        self.ends_at = ends_at
        self.host = host_of(claim.request.body.url), lane.tenant
        self.turn_at: float | None = None
        self.permits = 1
        self.interval_seconds = 0.0
        self.to_learn = False
        self.known: Recollection | None = None
        self.weight = 0


class Taken(NamedTuple):
    """The yield of a look at the queue: requests that are held now, of so many entries."""

    held: list[Held]
    entries: int

    def with_more(self, more: "Taken") -> "Taken":
        """Both together."""
        return Taken([*self.held, *more.held], self.entries + more.entries)


NOTHING: Final = Taken([], 0)


class Kept(NamedTuple):
    """The outcome of renewing leases: what is another's now, and what could not be asked for."""

    gone: list[tuple[Held, Claim]]
    unseen: list[Held]


class Holding:
    """The held requests of a worker, used from its event loop only."""

    def __init__(self) -> None:
        self._held: dict[Held, Outcome | None] = {}
        self._by_id: dict[tuple[Lane, RequestId], Held] = {}
        self._running: set[Held] = set()
        self._parked: dict[Held, None] = {}
        self._written: set[Held] = set()
        self._by_lane: dict[str, int] = {}
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
        return len(self._held) - len(self._parked) >= limits.concurrency + 3 * limits.batch

    def per_lane(self) -> dict[str, int]:
        """How many are held by ``tenant/biz``. May be called from any thread."""
        return dict(self._by_lane)

    def add(self, held: Held) -> bool:
        """Take charge of a claimed request; False if it is being worked on here already.

        A worker that was stopped for longer than its leases finds its own work again: that goes on,
        under the new claim.
        """
        known = self._by_id.setdefault((held.lane, held.claim.request.id), held)
        if known is not held:
            known.claim, known.ends_at = held.claim, held.ends_at
            return False
        self._held[held] = None
        self._count(held.lane, 1)
        return True

    def _count(self, lane: Lane, change: int) -> None:
        name = f"{lane.tenant}/{lane.biz}"
        left = self._by_lane.get(name, 0) + change
        if left:
            self._by_lane[name] = left
        else:
            self._by_lane.pop(name, None)

    def park(self, held: Iterable[Held], limits: FleetLimits) -> list[Held]:
        """Their outcomes cannot be written now; returns those that there is no room to keep."""
        self._parked.update(dict.fromkeys(one for one in held if one in self._held))
        room, bytes_left = PARKED_BATCHES * limits.batch, PARKED_BYTES
        beyond = []
        for one in reversed(self._parked):
            room, bytes_left = room - 1, bytes_left - one.weight
            if room < 0 or bytes_left < 0:
                beyond.append(one)
        return beyond

    def holds(self, held: Held) -> bool:
        """Whether it is ours."""
        return held in self._held

    def start(self, held: Held) -> bool:
        """It is being worked on now; False if it is no longer ours to work on."""
        if held not in self._held:
            return False
        self._running.add(held)
        return True

    def end(self, held: Held, outcome: Outcome) -> None:
        """It has an outcome, still to be written. Of a request no longer held nothing is kept."""
        self._running.discard(held)
        if held in self._held:
            if self._held[held] is None:
                self.ended += 1
                self.weight += held.weight
            self._held[held] = outcome

    def drop(self, held: Held) -> bool:
        """It is no longer ours: written, handed back, or lost to another; False if it was not."""
        self._running.discard(held)
        if held not in self._held:
            return False
        del self._by_id[held.lane, held.claim.request.id]
        self._parked.pop(held, None)
        self._count(held.lane, -1)
        if self._held.pop(held) is not None:
            self.ended -= 1
            self.weight -= held.weight
        return True

    @contextmanager
    def writing(self, part: Collection[Held]) -> Iterator[None]:
        """Their outcomes are being written within: only that tells whether they were ours."""
        self._written.update(part)
        try:
            yield
        finally:
            self._written.difference_update(part)

    def is_settled(self, held: Held) -> bool:
        """Whether its outcome is written or being written. May be called from any thread."""
        return held in self._written or held not in self._held

    def outcomes(self) -> list[tuple[Held, Outcome]]:
        """Those that wait to be written."""
        return [(held, outcome) for held, outcome in self._held.items() if outcome is not None]

    def all(self) -> list[Held]:
        """Everything held, in the order of the claims."""
        return list(self._held)

    def waiting(self) -> list[Held]:
        """Those not yet begun."""
        return [
            h for h, outcome in self._held.items() if outcome is None and h not in self._running
        ]


def by_lane(held: Iterable[Held]) -> dict[tuple[Lane, int], list[Held]]:
    """Grouped by lane and by the configuration that the claim was made under."""
    groups: dict[tuple[Lane, int], list[Held]] = defaultdict(list)
    for one in held:
        groups[one.lane, id(one.biz)].append(one)
    return groups


def entries_by_token(claims: Iterable[Claim]) -> dict[str, list[Entry]]:
    """Their entries, grouped by the token of the lease that they are held by."""
    tokens: dict[str, list[Entry]] = defaultdict(list)
    for claim in claims:
        tokens[claim.token].append(claim.entry)
    return tokens
