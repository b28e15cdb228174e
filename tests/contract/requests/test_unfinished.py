"""Tests of the report of unfinished requests of a run that is given up, on real servers."""

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest

from benchmarks.unfinished import unfinished
from tests.contract.store_cases import (
    NOW,
    Fleet,
    a_biz,
    a_generation,
    done_with,
    entries_of,
)
from tests.kit.mongo import MongoNodes, MongoRequestStore
from tests.kit.patience import PATIENT
from tests.kit.queue import RedisQueue, new_token

TOKEN = new_token("gone", "1f", 1)


@pytest.fixture
def work(mongo_uri: str, tenant: str) -> Iterator[Fleet]:
    with_one_node = a_biz(generations=(a_generation(nodes=("main",)),))
    nodes = MongoNodes(lambda _: mongo_uri, lambda: "main", waits=PATIENT)
    yield Fleet(MongoRequestStore(nodes), tenant, with_one_node)
    nodes.close()


@pytest.fixture
def reported(work: Fleet, mongo_uri: str, redis_url: str):
    return lambda: unfinished(mongo_uri, redis_url, work.queue_key, work.biz).splitlines()


def test_each_request_is_reported_by_its_state_and_by_where_it_is(work, reported, redis_connection):
    queue = RedisQueue(redis_connection)
    requests = work.submit(8)
    entries = entries_of(requests)
    queue.enqueue(work.queue_key, entries[:6], NOW)
    first = queue.lease(work.queue_key, TOKEN, 4, NOW, NOW + timedelta(hours=1))
    done, held, later, deferred = [one for one in requests if one.entry in first]
    claims = work.claim([done, held, later], TOKEN, NOW, NOW + timedelta(hours=1), "gone")
    work.settle([done_with(claim) for claim in claims if claim.request.id == done.id])
    queue.finish(work.queue_key, TOKEN, [done.entry], 1, NOW)
    queue.delay(work.queue_key, TOKEN, [(later.entry, NOW + timedelta(hours=1))])
    queue.defer(work.queue_key, TOKEN, [("site.example", NOW, [deferred.entry])])

    lines = reported()

    assert lines[:2] == [
        "in MongoDB: 5 pending, 1 done, 2 leased",
        "in Redis: 2 queued, 1 that wait for hosts, 1 leased, of which 0 have ended, 1 delayed",
    ]
    holds = re.compile("worker gone, which has left, holds 1, for [0-9]")
    assert any(holds.match(line) for line in lines)
    groups = [line for line in lines if line.endswith("; of these:")]
    assert groups == [
        "1 leased, delayed; of these:",
        "1 leased, leased to gone (unknown), held; of these:",
        "2 pending, NOWHERE in Redis; of these:",
        "2 pending, queued; of these:",
        "1 pending, waits for its host; of these:",
    ]
    (life,) = [line for line in lines if line.startswith(f"  {held.id}: due in ")]
    assert life.endswith("leased by gone: claimed")


def test_a_lease_that_has_ended_is_reported_as_that(work, reported, redis_connection):
    queue = RedisQueue(redis_connection)
    requests = work.submit(1)
    queue.enqueue(work.queue_key, entries_of(requests), NOW)
    queue.lease(work.queue_key, TOKEN, 1, NOW, NOW - timedelta(seconds=9))

    lines = reported()

    assert "0 queued, 0 that wait for hosts, 1 leased, of which 1 have ended" in lines[1]
    assert "1 pending, leased to gone (unknown), ended; of these:" in lines


def test_a_server_that_does_not_answer_is_reported_and_hides_nothing_else(work, mongo_uri):
    said = unfinished(mongo_uri, "redis://127.0.0.1:1/0", work.queue_key, work.biz)

    assert said.startswith("what is left is unknown: ConnectionError")
