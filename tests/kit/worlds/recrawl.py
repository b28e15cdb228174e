"""A world in memory whose pages are known."""

from dataclasses import dataclass, field
from datetime import timedelta

from tests.fakes.recrawl import MemoryVisits
from tests.kit.config import RecrawlPolicy
from tests.kit.recrawl import (
    Recrawl,
)
from tests.kit.requests import (
    Request,
    Validators,
    Visit,
)
from tests.kit.worlds.memory import DOCS, START, World, make_biz, make_tree

POLICY = RecrawlPolicy(schedule=True)
DAY = timedelta(days=1)


@dataclass
class Place:
    """A world whose pages are known."""

    world: World = field(default_factory=lambda: World(tree=make_tree(make_biz(recrawl=POLICY))))
    visits: MemoryVisits = field(default_factory=MemoryVisits)
    bounds: dict[str, int] = field(default_factory=dict)

    def know(self, *numbers: int, **changes: object) -> list[Visit]:
        visits = [a_visit(number, **changes) for number in numbers]
        self.visits.saw(DOCS, self.world.biz, visits)
        return visits

    def ports(self, visits: object = None, **changes: object) -> Recrawl:
        return Recrawl(
            submission=self.world.submission(**changes),
            visits=visits or self.visits,  # type: ignore[arg-type]
            **self.bounds,
        )

    def resubmit(self, visits: object = None, **changes: object) -> int:
        world = self.world
        return self.ports(visits, **changes).resubmit(world.tree, DOCS, world.biz, world.now)

    def tick(self, time_left: float = 600.0, **changes: object) -> int:
        world = self.world
        return self.ports(**changes).resubmit_due(world.tree, world.now, lambda: time_left)

    @property
    def requests(self) -> list[Request]:
        return [kept.request for kept in self.world.store.state.of(DOCS).requests.values()]

    @property
    def urls(self) -> list[str]:
        return sorted(request.body.url for request in self.requests)


def url(number: int) -> str:
    return f"https://example.org/{number}"


def a_visit(number: int, **changes: object) -> Visit:
    facts: dict = {
        "key": f"{number:032x}",
        "url": url(number),
        "rule": "page",
        "rule_version": "an old one",
        "depth": 2,
        "visited_at": START - DAY,
        "changed_at": START - DAY,
        "next_at": START,
        "interval_seconds": DAY.total_seconds(),
        "validators": Validators(etag='"1"'),
        "content": "aa",
    }
    return Visit(**(facts | changes))
