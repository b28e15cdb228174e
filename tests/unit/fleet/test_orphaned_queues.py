"""Orphaned queues, whose biz does not exist, are reported and kept."""

import dataclasses

import pytest
from msgspec.structs import replace

from tests.fakes.recovery import MemoryBizs
from tests.kit.kernel import QueueKey, StoreUnavailableError
from tests.kit.queue import Depth
from tests.kit.recovery import OrphanedQueues, count_orphaned
from tests.kit.requests import Entry
from tests.kit.worlds.memory import DOCS, START, World

NOBODY = QueueKey(DOCS.tenant, "nobiz", "main")


class Sink:
    """Takes metrics."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def put(self, metrics, dimensions, now) -> None:
        assert not dimensions
        self.values |= {metric.name: metric.value for metric in metrics}


def orphaned(world: World, bizs: MemoryBizs) -> tuple[OrphanedQueues, Sink, list[str]]:
    sink, said = Sink(), []
    ports = OrphanedQueues(
        bizs=bizs, data=world.data, queue=world.queue, metrics=sink, say=said.append
    )
    return ports, sink, said


def test_items_for_a_biz_that_there_is_not_are_counted_named_and_kept(world):
    bizs = MemoryBizs()
    ports, sink, said = orphaned(world, bizs)
    bizs.ask(NOBODY)
    world.data.put(NOBODY, [b"{}", b"{}"])

    assert ports.announce(world.tree, START) == 2
    assert sink.values == {"StrayItems": 2, "StrayRequests": 0}
    assert f"{DOCS.tenant}/nobiz: 2 items" in said[0]
    assert "CRAWLFLEET_BIZ" in said[0]
    assert world.data.waiting([NOBODY]) == [2]


def test_requests_of_a_biz_that_was_taken_out_are_counted(world):
    ports, sink, said = orphaned(world, MemoryBizs())
    assert ports.announce(world.tree, START) == 0
    world.queue.enqueue(DOCS, [Entry(1, DOCS.biz, 1)], START)
    without = {tenant: {} for tenant in world.tree.bizs}

    assert ports.announce(replace(world.tree, bizs=without), START) == 1
    assert sink.values == {"StrayItems": 0, "StrayRequests": 1}
    assert "1 requests" in said[0]


def test_queues_of_configured_bizs_are_not_orphaned(world):
    ports, sink, said = orphaned(world, MemoryBizs())
    world.data.put(DOCS, [b"{}"])

    assert ports.announce(world.tree, START) == 0
    assert sink.values == {"StrayItems": 0, "StrayRequests": 0}
    assert said == []


def test_a_biz_whose_document_is_wrong_is_there(world):
    bizs = MemoryBizs()
    ports, _, said = orphaned(world, bizs)
    bizs.ask(NOBODY)
    world.data.put(NOBODY, [b"{}"])
    refused = replace(world.tree, refused=frozenset({(NOBODY.tenant, NOBODY.biz)}))

    assert ports.announce(refused, START) == 0
    assert said == []


class PartlyAway:
    """A queue on a cluster one of whose nodes is away."""

    def __init__(self, *known: Depth) -> None:
        self._known = known

    def depths(self, queues):
        away = Depth(queued=0, leased=0, delayed=0, away=True)
        return [*self._known, *[away] * (len(queues) - len(self._known))]


THREE = Depth(queued=1, leased=1, delayed=1)
NOTHING = Depth(queued=0, leased=0, delayed=0)


def test_of_queues_that_are_away_nobody_says_that_nothing_waits_in_them(world):
    gone = [NOBODY, QueueKey(DOCS.tenant, "other", "main")]

    with pytest.raises(StoreUnavailableError, match="1 of 2"):
        count_orphaned(gone, world.data, PartlyAway(NOTHING))
    assert count_orphaned(gone, world.data, PartlyAway(NOTHING, NOTHING)) == (0, 0)
    assert count_orphaned([], world.data, PartlyAway()) == (0, 0)


def test_what_is_found_where_others_are_away_is_reported_still(world):
    gone = [NOBODY, QueueKey(DOCS.tenant, "other", "main")]

    assert count_orphaned(gone, world.data, PartlyAway(THREE)) == (0, 3)


def test_what_cannot_be_counted_is_no_metric(world):
    bizs = MemoryBizs()
    ports, sink, said = orphaned(world, bizs)
    bizs.ask(NOBODY)
    bizs.ask(QueueKey(DOCS.tenant, "other", "main"))

    assert replace_queue(ports, PartlyAway(NOTHING)).announce(world.tree, START) == 0
    assert (sink.values, said) == ({}, [])
    assert replace_queue(ports, PartlyAway(THREE)).announce(world.tree, START) == 3
    assert sink.values == {"StrayItems": 0, "StrayRequests": 3}


def replace_queue(ports: OrphanedQueues, queue: PartlyAway) -> OrphanedQueues:
    return dataclasses.replace(ports, queue=queue)
