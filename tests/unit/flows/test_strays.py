"""What waits for bizs that there are not is told of, and stays."""

from msgspec.structs import replace

from crawlfleet.adapters.memory.bizs import MemoryBizs
from crawlfleet.flows.strays import StrayPorts, tell_bizs
from crawlfleet.model.lane import Lane
from crawlfleet.model.request import Entry
from tests.unit.flows.world import DOCS, START, World

NOBODY = Lane(DOCS.tenant, "nobiz", "main")


class Sink:
    """Takes metrics."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def put(self, metrics, dimensions, now) -> None:
        assert not dimensions
        self.values |= {metric.name: metric.value for metric in metrics}


def strays(world: World, bizs: MemoryBizs) -> tuple[StrayPorts, Sink, list[str]]:
    sink, said = Sink(), []
    ports = StrayPorts(bizs=bizs, data=world.data, queue=world.queue, metrics=sink, say=said.append)
    return ports, sink, said


def test_items_for_a_biz_that_there_is_not_are_counted_named_and_kept(world):
    bizs = MemoryBizs()
    ports, sink, said = strays(world, bizs)
    bizs.ask(NOBODY)
    world.data.put(NOBODY, [b"{}", b"{}"])

    assert tell_bizs(ports, world.tree, START) == 2
    assert sink.values == {"StrayItems": 2, "StrayRequests": 0}
    assert f"{DOCS.tenant}/nobiz: 2 items" in said[0]
    assert "CRAWLFLEET_BIZ" in said[0]
    assert world.data.waiting([NOBODY]) == [2]


def test_requests_of_a_biz_that_was_taken_out_are_counted(world):
    ports, sink, said = strays(world, MemoryBizs())
    assert tell_bizs(ports, world.tree, START) == 0
    world.queue.enqueue(DOCS, [Entry(1, DOCS.biz, 1)], START)
    without = {tenant: {} for tenant in world.tree.bizs}

    assert tell_bizs(ports, replace(world.tree, bizs=without), START) == 1
    assert sink.values == {"StrayItems": 0, "StrayRequests": 1}
    assert "1 requests" in said[0]


def test_what_waits_for_bizs_that_there_are_is_no_stray(world):
    ports, sink, said = strays(world, MemoryBizs())
    world.data.put(DOCS, [b"{}"])

    assert tell_bizs(ports, world.tree, START) == 0
    assert sink.values == {"StrayItems": 0, "StrayRequests": 0}
    assert said == []


def test_a_biz_whose_document_is_wrong_is_there(world):
    bizs = MemoryBizs()
    ports, _, said = strays(world, bizs)
    bizs.ask(NOBODY)
    world.data.put(NOBODY, [b"{}"])
    refused = replace(world.tree, refused=frozenset({(NOBODY.tenant, NOBODY.biz)}))

    assert tell_bizs(ports, refused, START) == 0
    assert said == []
