"""A platform in memory that has seeds, and somebody who works on what they become."""

from collections.abc import Callable, Sequence
from datetime import datetime

from msgspec.structs import replace

from tests.fakes.frontier import MemorySeedFilter, MemorySeeds
from tests.kit.config import SeedPolicy, Tree
from tests.kit.frontier import (
    AddResult,
    Seed,
    SeedDispatcher,
    SeedSpec,
    segment_of,
)
from tests.kit.kernel import QueueKey
from tests.kit.requests import Claim, Done, Outcome, State, Tracked
from tests.kit.worlds.memory import DOCS, World, make_biz, make_tree

#: The ports that a seed's journey passes through.
PORTS = ("seeds", "filter", "ids", "store", "queue", "rules", "intake", "workers")


def url(number: int) -> str:
    return f"https://example.org/{number}"


def a_spec(number: int, **changes: object) -> SeedSpec:
    return replace(SeedSpec(url=url(number), rule="page"), **changes)


def seed_tree(**policy: object) -> Tree:
    return make_tree(make_biz(seeds=SeedPolicy(**policy)))  # type: ignore[arg-type]


class SeedWorld(World):
    """World with a seed store and a filter."""

    def __init__(self, **policy: object) -> None:
        super().__init__(tree=seed_tree(**policy))
        self.seeds = MemorySeeds(clock=self.clock)
        self.filter = MemorySeedFilter()

    def filter_place(self) -> tuple[QueueKey, str]:
        """The queue key and the segment of now."""
        return DOCS, segment_of(self.biz.seeds, self.now).name

    def set_policy(self, **policy: object) -> None:
        self.tree = seed_tree(**policy)

    def ports(self, **changes: object) -> SeedDispatcher:
        own = {"seeds": self.seeds, "filter": self.filter}
        own |= {name: changes.pop(name) for name in list(changes) if name not in PORTS[2:]}
        return SeedDispatcher(submission=self.submission(**changes), **own)  # type: ignore[arg-type]

    def add(self, *specs: SeedSpec | int, **changes: object) -> list[AddResult]:
        given = [a_spec(one) if isinstance(one, int) else one for one in specs]
        return self.ports(**changes).add(DOCS, self.biz, given, self.now)

    def dispatch(self, **changes: object) -> int:
        return self.ports(**changes).dispatch(self.tree, DOCS, self.biz, self.now)

    def recheck(self, **changes: object) -> int:
        return self.ports(**changes).recheck(DOCS, self.biz, self.now)

    def kept(self, state: int | None = None) -> list[Seed]:
        return self.seeds.find(DOCS, self.biz, segment=None, state=state, after=None, limit=999)

    def requests(self) -> list[Tracked]:
        return self.store.find(DOCS, self.biz, limit=999, now=self.now)

    def claim(self, until: datetime) -> list[Claim]:
        entries = self.queue.lease(DOCS, "w.n.1", 999, self.now, until)
        return self.store.claim(DOCS, self.biz, entries, "w", self.now, until, "w.n.1")

    def settle(self, outcomes: Sequence[tuple[Claim, Outcome]], *, seeds_end: bool = True) -> None:
        """Store outcomes as a worker does; then ``seeds_end``, unless it dies before that."""
        lost = self.store.settle(DOCS, self.biz, outcomes, "w", self.now).lost
        self.queue.finish(DOCS, "w.n.1", [c.entry for c, _ in outcomes], len(outcomes), self.now)
        stood = [(claim, outcome) for claim, outcome in outcomes if claim.request.id not in lost]
        if seeds_end:
            self.ports().end(DOCS, self.biz, stood, self.now)

    def work(
        self, outcome: Callable[[Claim], Outcome] = lambda _: Done(()), *, seeds_end: bool = True
    ) -> int:
        """Work on all that is queued; how much that was."""
        claims = self.claim(self.now.replace(year=self.now.year + 1))
        self.settle([(claim, outcome(claim)) for claim in claims], seeds_end=seeds_end)
        return len(claims)

    def requeue_pending(self) -> None:
        """Do as recovery does for requests that are stored and not queued."""
        entries = self.store.unqueued(
            DOCS, self.biz, before=[self.now.replace(year=9_000)] * 11, now=self.now, limit=999
        )
        self.queue.requeue(DOCS, entries)

    def done(self) -> list[str]:
        return [t.request.body.url for t in self.requests() if t.state == State.DONE]
