"""Helpers of the request store suites: a biz, requests, claims, and two stores."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from tests.fakes.ledger import MemoryLedgers
from tests.fakes.recovery import MemoryLeaseRevocation
from tests.fakes.requests import MemoryRequestStore
from tests.kit.config import Biz, Field, Generation, Rule, Spread
from tests.kit.ids import Allot, position, runs
from tests.kit.kernel import LEVELS, QueueKey, RequestId, to_ms
from tests.kit.mongo import MongoLeaseRevocation, MongoLedgers, MongoRequestStore
from tests.kit.mongo_nodes import nodes_at
from tests.kit.requests import (
    Body,
    Claim,
    Correction,
    Done,
    Entry,
    Ledger,
    Record,
    Request,
    RequestFilter,
    State,
)

#: A whole second not long ago: MongoDB's own clock must not find any of it expired.
NOW = datetime.now(UTC).replace(microsecond=0)
MINUTE = timedelta(minutes=1)
LONG_AGO = NOW - timedelta(days=30)


def a_biz(**changes: object) -> Biz:
    """Two nodes, two databases, two shards, unless the test says otherwise."""
    facts: dict = {
        "generations": (a_generation(),),
        "rules": {"detail": Rule(fields={"title": Field(css="h1")})},
    }
    return Biz(**{**facts, **changes})


def a_generation(**changes: object) -> Generation:
    facts: dict = {
        "starts_at": LONG_AGO,
        "nodes": ("east", "west"),
        "databases": ("one", "two"),
        "shards": 2,
        "spread": Spread.RENDEZVOUS,
    }
    return Generation(**{**facts, **changes})


def snowflakes(number: int, at: datetime = NOW, worker: int = 7) -> list[int]:
    """Return ``number`` snowflake ids, from the moment ``at`` on."""
    start = position(to_ms(at))
    return [
        first + offset
        for first, size in runs(worker, Allot(start, start + number))
        for offset in range(size)
    ]


def uuids(number: int, at: datetime) -> list[str]:
    """Version 7: 48 bits of milliseconds, then chance."""
    return [f"{to_ms(at):012x}7{uuid4().hex[:19]}" for _ in range(number)]


def object_ids(number: int, at: datetime) -> list[str]:
    return [f"{to_ms(at) // 1000:08x}{uuid4().hex[:16]}" for _ in range(number)]


def a_request(
    queue_key: QueueKey, request_id: RequestId, at: datetime = NOW, **changes: object
) -> Request:
    body = Body(
        url=f"https://site.example/{request_id}",
        rule="detail",
        rule_version="v1",
        params={"q": "ü"},
        meta={"depth": 2, "score": 0.5, "last": None},
    )
    facts: dict = {
        "id": request_id,
        "tenant": queue_key.tenant,
        "biz": queue_key.biz,
        "queued_at": at,
        "body": body,
    }
    return Request(**{**facts, **changes})


def entries_of(requests: Sequence[Request]) -> list[Entry]:
    return [request.entry for request in requests]


def a_record(claim: Claim, index: int = 0, at: datetime = NOW, **fields: object) -> Record:
    return Record(
        request_id=claim.request.id,
        index=index,
        biz=claim.request.biz,
        url=claim.request.body.url,
        rule="detail",
        rule_version="v1",
        stored_at=at,
        fields=fields or {"title": "a page", "price": 9.5},
    )


def done_with(claim: Claim, *fields: dict, at: datetime = NOW) -> tuple[Claim, Done]:
    records = [a_record(claim, index, at, **one) for index, one in enumerate(fields)]
    return claim, Done(tuple(records))


class Fleet:
    """One queue of a tenant over a store, with the arguments that nearly every call repeats."""

    def __init__(self, store: MongoRequestStore, tenant: str, biz: Biz | None = None) -> None:
        self.store = store
        self.ledgers = ledgers_of(store)
        self.biz = biz or a_biz()
        self.queue_key = QueueKey(tenant, "shop", "main")

    def submit(self, number: int, at: datetime = NOW) -> list[Request]:
        requests = [a_request(self.queue_key, i, at) for i in snowflakes(number, at)]
        assert self.insert(requests).refused == {}
        return requests

    def insert(self, requests: Sequence[Request]):
        return self.store.insert(self.queue_key, self.biz, requests)

    def claim(
        self,
        requests: Sequence[Request],
        token: str = "token",
        now: datetime = NOW,
        until: datetime | None = None,
        worker: str = "worker",
    ) -> list[Claim]:
        until = until or now + MINUTE
        entries = entries_of(requests)
        return self.store.claim(self.queue_key, self.biz, entries, worker, now, until, token)

    def settle(self, outcomes: Sequence, now: datetime = NOW, worker: str = "worker"):
        return self.settled(outcomes, now, worker).lost

    def settled(self, outcomes: Sequence, now: datetime = NOW, worker: str = "worker"):
        return self.store.settle(self.queue_key, self.biz, outcomes, worker, now)

    def renew(self, claims: Sequence[Claim], until: datetime):
        return self.store.renew(self.queue_key, self.biz, claims, until)

    def release(self, claims: Sequence[Claim], why: str = "out of time", now: datetime = NOW):
        self.store.release(self.queue_key, self.biz, claims, "worker", why, now)

    def get(self, request: Request):
        return self.store.get(self.queue_key, self.biz, request.id)

    def cancel(self, request: Request):
        return self.store.cancel(self.queue_key, self.biz, request.id, "a caller", NOW)

    def find(self, *, after=None, limit=1000, now=NOW, **wanted):
        of = RequestFilter(**wanted)
        return self.store.find(self.queue_key, self.biz, of, after=after, limit=limit, now=now)

    def records(self, *, request_id=None, after=None, limit=1000):
        return self.store.records(
            self.queue_key, self.biz, request_id=request_id, after=after, limit=limit
        )

    def totals(self, now: datetime = NOW):
        """Return the counts by state and the number of records; assert that the ledger balances."""
        ledger = self.ledgers.totals(self.queue_key, self.biz, now)
        assert ledger == self.audit(now)
        counts = {int(state): getattr(ledger, state.label) for state in State} | ledger.own
        records = self.store.record_count(self.queue_key, self.biz)
        return {state: number for state, number in counts.items() if number}, records

    def audit(self, now: datetime = NOW, job: str | None = None) -> Ledger:
        """The ledger, term by term, which must balance whenever it is asked for."""
        ledger = self.ledgers.audit(self.queue_key, self.biz, now, job)
        assert ledger.difference == 0, ledger
        return ledger

    def reconcile(self, now: datetime = NOW) -> list[Correction]:
        return self.ledgers.reconcile(self.queue_key, self.biz, now)

    def unqueued(self, *, before=NOW, now=NOW, limit=1000):
        """``before`` is that of all priorities, or of each."""
        before = (before,) * LEVELS if isinstance(before, datetime) else before
        return self.store.unqueued(self.queue_key, self.biz, before=before, now=now, limit=limit)

    def expire(self, now: datetime):
        return self.store.expire(self.queue_key, self.biz, now)

    def index(self, now: datetime = NOW, time_left: float = 60.0):
        return self.store.index(self.queue_key, self.biz, now, lambda: time_left)


def ledgers_of(store: MongoRequestStore) -> MongoLedgers:
    """The ledgers of what is in the store."""
    if isinstance(store, MemoryRequestStore):
        return MemoryLedgers(store.state)
    assert isinstance(store, MongoRequestStore)
    return MongoLedgers(store.nodes)


def revocation_of(store: MongoRequestStore) -> MongoLeaseRevocation:
    """Return the lease revocation that belongs to the store."""
    if isinstance(store, MemoryRequestStore):
        return MemoryLeaseRevocation(store.state)
    assert isinstance(store, MongoRequestStore)
    return MongoLeaseRevocation(store.nodes)


@contextmanager
def a_store(kind: str, uri: str) -> Iterator[MongoRequestStore]:
    """The store of that kind, and an end to its connections."""
    if kind == "memory":
        yield MemoryRequestStore()
        return
    with nodes_at(uri) as nodes:
        yield MongoRequestStore(nodes)
