"""Leases are revoked, in memory and in a real MongoDB."""

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import NamedTuple

import pymongo.monitoring
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.contract.store_cases import (
    MINUTE,
    NOW,
    Fleet,
    a_biz,
    a_generation,
    a_request,
    done_with,
    entries_of,
    snowflakes,
    uuids,
)
from tests.kit.broken_servers import closed_port
from tests.kit.examples import examples
from tests.kit.implementations import Backend, backend_over
from tests.kit.kernel import QueueKey, StoreUnavailableError, to_ms
from tests.kit.mongo import BY_POOL, MongoLeaseRevocation, MongoRequestStore, Waits
from tests.kit.mongo_nodes import NodesOnOneServer, nodes_at
from tests.kit.requests import Entry, QueueEpoch, Request, Retry, State

MS = timedelta(milliseconds=1)
#: A node that is away need not be waited for as long as the product does.
SOON = Waits(selection=0.3)


class Both(NamedTuple):
    """A queue, and recovery's view of the same store."""

    fleet: Fleet
    revocation: MongoLeaseRevocation

    def revoke(self, requests: list[Request], worker: str = "worker") -> int:
        entries = entries_of(requests)
        return self.revocation.revoke(
            self.fleet.queue_key, self.fleet.biz, entries, worker, "recovery", "worker is dead", NOW
        )

    def pending(self, *, since=0, before=NOW + MINUTE, now=NOW, limit=1000) -> list[Entry]:
        return self.revocation.pending(
            self.fleet.queue_key, self.fleet.biz, since=since, before=before, now=now, limit=limit
        )

    def pages(self, limit: int) -> list[list[Entry]]:
        """Every page, as a queue is filled from them."""
        found: list[list[Entry]] = []
        since = 0
        while page := self.pending(since=since, limit=limit):
            found.append(page)
            since = page[-1].ts + 1
        return found


backend = backend_over(MongoRequestStore, MongoLeaseRevocation)


@pytest.fixture
def both(backend: Backend, tenant: str) -> Both:
    return Both(Fleet(backend[MongoRequestStore], tenant), backend[MongoLeaseRevocation])


def test_revoked_requests_are_pending_again_and_say_who_revoked_them(both: Both) -> None:
    requests = both.fleet.submit(20)
    both.fleet.claim(requests)

    assert both.revoke(requests) == 20

    for request in requests:
        tracked = both.fleet.get(request)
        assert (tracked.state, tracked.attempts, tracked.due_at) == (State.PENDING, 1, None)
        last = tracked.timeline[-1]
        assert (last.state, last.by, last.why) == (State.PENDING, "recovery", "worker is dead")


def test_the_old_worker_can_do_nothing_more(both: Both) -> None:
    requests = both.fleet.submit(6)
    claims = both.fleet.claim(requests)
    both.revoke(requests)
    ids = {r.id for r in requests}

    assert both.fleet.settle([done_with(c, {"n": 1}) for c in claims]) == ids
    assert both.fleet.renew(claims, NOW + MINUTE) == ids
    both.fleet.release(claims)

    assert both.fleet.totals() == ({State.PENDING: 6}, 0)
    assert {both.fleet.get(r).attempts for r in requests} == {1}
    assert both.fleet.get(requests[0]).timeline[-1].why == "worker is dead"


def test_the_next_worker_owns_them_and_the_attempt_that_was_cut_off_counts(both: Both) -> None:
    requests = both.fleet.submit(6)
    both.fleet.claim(requests)
    both.revoke(requests)

    claims = both.fleet.claim(requests, "next", worker="next")

    assert {c.attempt for c in claims} == {2}
    assert both.revoke(requests) == 0  # the dead worker owns nothing of these any more
    assert both.fleet.settle([done_with(c, {"n": 1}) for c in claims], worker="next") == set()


def test_only_what_the_worker_owns_is_taken(both: Both) -> None:
    mine, others, waiting, done, queued = (both.fleet.submit(2, NOW + n * MS) for n in range(5))
    both.fleet.claim(mine)
    both.fleet.claim(others, "other", worker="other")
    claims = both.fleet.claim(waiting + done, "third")
    both.fleet.settle([(c, Retry(NOW + MINUTE, "later")) for c in claims[:2]])
    settled = both.fleet.settle([done_with(c) for c in claims[2:]])

    taken = both.revoke(mine + others + waiting + done + queued)

    assert settled == set()
    assert taken == 2
    assert both.fleet.totals()[0] == {
        State.PENDING: 4,
        State.LEASED: 2,
        State.WAITING: 2,
        State.DONE: 2,
    }
    assert both.revoke(mine) == 0


def test_an_entry_of_another_biz_or_of_another_tenant_is_none(both: Both) -> None:
    requests = both.fleet.submit(3)
    both.fleet.claim(requests)
    elsewhere = QueueKey("other", both.fleet.queue_key.biz, "main")
    foreign = [Entry(r.id, "else", to_ms(NOW)) for r in requests]
    entries = entries_of(requests)

    def revoke(queue_key: QueueKey, some: list[Entry]) -> int:
        return both.revocation.revoke(queue_key, both.fleet.biz, some, "worker", "r", "w", NOW)

    assert revoke(elsewhere, entries) == 0
    assert revoke(both.fleet.queue_key, foreign) == 0
    assert revoke(both.fleet.queue_key, []) == 0
    assert both.fleet.totals()[0] == {State.LEASED: 3}


def test_pending_requests_come_oldest_first_and_nothing_else(both: Both) -> None:
    late = both.fleet.submit(5, NOW + MS)
    early = both.fleet.submit(5, NOW - MINUTE)
    both.fleet.claim(late[:1])
    both.fleet.cancel(early[0])

    wanted = entries_of([*early[1:], *late[1:]])

    assert both.pending() == wanted
    assert both.pending(since=to_ms(NOW)) == wanted[4:]
    assert both.pending(since=to_ms(NOW + MS)) == wanted[4:]
    assert both.pending(since=to_ms(NOW + 2 * MS)) == []
    assert both.pending(before=NOW + MS) == wanted[:4]
    ttl = timedelta(seconds=both.fleet.biz.ttl_seconds)
    assert both.pending(now=NOW - MINUTE + ttl) == wanted[4:]


def test_integer_ids_come_before_others_of_their_millisecond(both: Both) -> None:
    requests = [a_request(both.fleet.queue_key, i) for i in [*uuids(3, NOW), *snowflakes(3)]]
    both.fleet.insert(requests)

    found = [entry.id for entry in both.pending()]

    assert found == [*sorted(r.id for r in requests[3:]), *sorted(r.id for r in requests[:3])]


def test_a_page_ends_with_its_last_millisecond_however_many_share_it(both: Both) -> None:
    first, crowd, last = (both.fleet.submit(n, NOW + k * MS) for k, n in enumerate((3, 60, 2)))

    pages = both.pages(limit=5)

    assert [e for page in pages for e in page] == entries_of([*first, *crowd, *last])
    assert 1 < len(pages) <= 3
    assert all(page[-1].ts < following[0].ts for page, following in pairwise(pages))


@examples(0.12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    crowds=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    limit=st.integers(1, 20),
    number=st.integers(1, 10**6),
)
def test_pages_hold_each_request_once_in_order_and_end(
    both: Both, crowds: list[int], limit: int, number: int
) -> None:
    fleet = Fleet(both.fleet.store, f"{both.fleet.queue_key.tenant[:8]}{number}", both.fleet.biz)
    mine = Both(fleet, both.revocation)
    stored = {e.id for page in mine.pages(1000) for e in page}
    for index, crowd in enumerate(crowds):
        at = NOW + index * MS
        requests = [a_request(fleet.queue_key, i, at) for i in uuids(crowd, at)]
        fleet.insert(requests)
        stored |= {r.id for r in requests}

    found = [entry for page in mine.pages(limit) for entry in page]

    assert sorted(e.id for e in found) == sorted(stored)
    assert found == sorted(found, key=lambda e: (e.ts, e.id))


def test_what_waits_comes_with_the_time_it_is_due_soonest_first(both: Both) -> None:
    requests = both.fleet.submit(6)
    claims = both.fleet.claim(requests)
    both.fleet.settle([(c, Retry(NOW + (9 - n) * MINUTE, "x")) for n, c in enumerate(claims[:5])])
    entries = {c.request.id: c.entry for c in claims}
    wanted = [
        (entries[c.request.id], NOW + (9 - n) * MINUTE)
        for n, c in reversed(list(enumerate(claims[:5])))
    ]

    def waiting(limit: int, now=NOW):
        return both.revocation.waiting(both.fleet.queue_key, both.fleet.biz, now=now, limit=limit)

    assert waiting(100) == wanted
    assert waiting(2) == wanted[:2]
    assert waiting(100, NOW + timedelta(seconds=both.fleet.biz.ttl_seconds)) == []


def test_an_epoch_is_remembered_for_its_queue_alone(both: Both) -> None:
    queue_key, revocation = both.fleet.queue_key, both.revocation
    tenant, biz = queue_key.tenant, queue_key.biz
    epoch = QueueEpoch(server="run-1", nonce="n1", reached=17)
    revocation.remember_epoch(queue_key, epoch)
    revocation.remember_epoch(QueueKey(tenant, biz, "fast"), QueueEpoch(server="run-2"))

    assert revocation.remembered_epoch(queue_key) == epoch
    assert revocation.remembered_epoch(QueueKey("other", biz, "main")) is None
    assert revocation.remembered_epoch(QueueKey(tenant, "other", "main")) is None
    revocation.remember_epoch(queue_key, QueueEpoch(server="run-3", nonce="n3"))
    assert revocation.remembered_epoch(queue_key) == QueueEpoch(server="run-3", nonce="n3")


def test_one_node_away_leaves_its_own_requests_out(mongo_uri: str, tenant: str) -> None:
    with nodes_at(mongo_uri) as nodes:
        fleet = Fleet(MongoRequestStore(nodes), tenant)
        requests = fleet.submit(60)
        waiting = fleet.submit(60, NOW + MS)
        fleet.settle([(c, Retry(NOW, "x")) for c in fleet.claim(waiting)])

    def only_east(node: str) -> str:
        return mongo_uri if node == "east" else f"mongodb://{address}/"

    with closed_port() as address:
        half = NodesOnOneServer(only_east, home=lambda: "east", waits=SOON)
        both = Both(Fleet(MongoRequestStore(half), tenant), MongoLeaseRevocation(half))
        try:
            there = both.pending()
            due = both.revocation.waiting(fleet.queue_key, fleet.biz, now=NOW, limit=100)
            both.fleet.claim(requests)
            taken = both.revoke(requests)
        finally:
            half.close()

    assert 10 < len(there) < 50
    assert 10 < len(due) < 50
    assert taken == len(there)


@pytest.mark.parametrize(
    "call",
    [
        lambda b: b.revoke([a_request(b.fleet.queue_key, 1)]),
        lambda b: b.pending(),
        lambda b: b.revocation.waiting(b.fleet.queue_key, b.fleet.biz, now=NOW, limit=5),
        lambda b: b.revocation.remembered_epoch(b.fleet.queue_key),
        lambda b: b.revocation.remember_epoch(b.fleet.queue_key, QueueEpoch(server="s")),
    ],
    ids=["revoke", "pending", "waiting", "remembered_epoch", "remember_epoch"],
)
def test_every_node_away_is_an_error(tenant: str, call: Callable[[Both], object]) -> None:
    biz = a_biz(generations=(a_generation(nodes=("east",), databases=("one",), shards=1),))
    with closed_port() as address:
        nodes = NodesOnOneServer(f"mongodb://{address}/", home=lambda: "east", waits=SOON)
        both = Both(Fleet(MongoRequestStore(nodes), tenant, biz), MongoLeaseRevocation(nodes))
        try:
            with pytest.raises(StoreUnavailableError):
                call(both)
        finally:
            nodes.close()


def test_filling_reads_the_index_and_no_document(mongo_uri: str, tenant: str) -> None:
    """Explain the queries on the server and count the keys and documents that they read."""
    biz = a_biz(generations=(a_generation(nodes=("east",), databases=("one",), shards=1),))
    asked: list[dict] = []

    class Listener(pymongo.monitoring.CommandListener):
        def started(self, event):
            if event.command_name == "find":
                asked.append(dict(event.command))

        def succeeded(self, event):
            pass

        def failed(self, event):
            pass

    with nodes_at(mongo_uri, Listener()) as nodes:
        both = Both(Fleet(MongoRequestStore(nodes), tenant, biz), MongoLeaseRevocation(nodes))
        both.fleet.submit(500)
        claims = both.fleet.claim(both.fleet.submit(20, NOW + MS))
        assert both.fleet.index() == []
        both.fleet.settle([(c, Retry(NOW, "x")) for c in claims])
        asked.clear()
        both.pending(limit=10)
        both.revocation.waiting(both.fleet.queue_key, biz, now=NOW, limit=10)
        # Whether anything is bound for a pool: the index that tells is not there, and none built.
        assert [one["hint"] for one in asked].count(BY_POOL) == 1
        read = []
        for command in (one for one in asked if one["hint"] != BY_POOL):
            find = {k: v for k, v in command.items() if not k.startswith(("$", "lsid", "txn"))}
            find = {k: v for k, v in find.items() if k not in ("maxTimeMS", "singleBatch")}
            reported = nodes.client("east")[nodes.database("east", tenant, "one").name].command(
                "explain", find, verbosity="executionStats"
            )
            stats = reported["executionStats"]
            read.append((stats["totalKeysExamined"], stats["totalDocsExamined"]))

    # A share is a quarter more than its part of the page, and one.
    # Who of them has another priority than the usual one is asked of an index that knows of none.
    assert read == [(14, 0), (500, 0), (0, 0), (10, 10)]
