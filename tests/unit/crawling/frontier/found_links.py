"""Seeds of a world in memory: pages that link to others, and what became of them."""

from tests.kit.requests import Body, Claim, Done, Entry, Link, Request
from tests.kit.worlds.frontier import url
from tests.kit.worlds.memory import DOCS, START
from tests.kit.worlds.worker import Spy


def linking(**pages):
    """Pages that link to others, by number: ``p1=(2, 3)``."""
    return {
        url(int(name[1:])): f"t -> {' '.join(map(url, targets))}".encode() if targets else b"t"
        for name, targets in pages.items()
    }


def seeds(world, queue_key=DOCS):
    found = world.seeds.find(
        queue_key, world.biz, segment=None, state=None, after=None, limit=9_999
    )
    return {seed.spec.url: seed for seed in found}


def states(world, queue_key=DOCS):
    return {
        int(place.rpartition("/")[2]): seed.state for place, seed in seeds(world, queue_key).items()
    }


def requests(world):
    found = world.store.find(DOCS, world.biz, limit=999, now=world.now)
    return sorted(int(one.request.body.url.rpartition("/")[2]) for one in found)


def a_claim(number, *, seed=None, queue_key=DOCS, **facts):
    body = Body(url=url(number), rule="page", rule_version="v", seed=seed, **facts)
    request = Request(
        id=number,
        tenant=queue_key.tenant,
        biz=queue_key.biz,
        queued_at=START,
        body=body,
        job="a.job",
    )
    return Claim(request=request, entry=Entry(number, "docs", 1), token="t", attempt=1)


def found(*numbers, **facts):
    """A page that was read, with these links."""
    return Done((), links=tuple(Link(url=url(number), depth=1, **facts) for number in numbers))


def spied(world):
    """Ports for seeds, of whose store the calls are known."""
    ports, spy = world.seeding(), Spy(world.seeds)
    object.__setattr__(ports, "seeds", spy)
    return ports, spy
