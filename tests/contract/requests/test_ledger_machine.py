"""Whatever is done to a biz, in whatever order, its ledger balances after it (SPEC.md H1)."""

from collections import Counter
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.contract.store_cases import (
    MINUTE,
    Fleet,
    a_biz,
    a_generation,
    a_request,
    done_with,
    snowflakes,
)
from tests.fakes.requests import MemoryRequestStore
from tests.kit.examples import examples
from tests.kit.implementations import fixture_over
from tests.kit.kernel import RequestId, to_ms
from tests.kit.mongo import MongoRequestStore
from tests.kit.requests import (
    Claim,
    Dead,
    Entry,
    Ledger,
    Request,
    Retry,
    State,
    Transition,
    is_final,
)

TTL = 600
GRACE = 120
JOBS = (None, None, "red", "blue")
#: Two open states of the biz's own, and two final ones.
OWN = {"held": 100, "parked": 101, "reviewed": 1_000, "closed": 1_001}
_LEFT = (State.PENDING, State.WAITING, State.DONE, State.DEAD, State.CANCELLED, *OWN.values())
_ENTERED = (State.PENDING, State.DONE, State.CANCELLED, *OWN.values())
#: Every transition that a biz may configure.
TRANSITIONS = [
    (before, after)
    for before in _LEFT
    for after in _ENTERED
    if before != after
    and {before, after} & {*OWN.values()}
    and not (is_final(before) and not is_final(after))
]
_some = st.integers(0, 2**16)
_how = st.sampled_from(["done", "dead", "retry", "all"])


class LedgerMachine(RuleBasedStateMachine):
    """One queue, and beside it a plain count of the operations on it."""

    store: MongoRequestStore
    sizes: st.SearchStrategy[int]
    #: What the ledgers of all runs have had: a machine that reaches nothing proves nothing.
    reached: ClassVar[Counter[str]]

    @initialize()
    def begin(self) -> None:
        one = a_generation(nodes=("east",), databases=("one",), shards=2)
        biz = a_biz(generations=(one,), ttl_seconds=TTL, expiry_grace_seconds=GRACE, states=OWN)
        self.fleet = Fleet(self.store, f"t{uuid4().hex[:12]}", biz)
        # Not the cases' NOW: a long run comes here when that is past the biz's ten minutes.
        self.now = datetime.now(UTC).replace(microsecond=0)
        self.number = 0
        self.tokens = 0
        self.requests: list[Request] = []
        self.claims: list[Claim] = []
        self.submitted = dict.fromkeys(JOBS, 0)
        #: What is in final states of the biz's own, and what was in them and is removed since.
        self.own_ended: Counter[int] = Counter()
        self.lost = 0
        self.outages = 0
        self.fleet.reconcile(self.now)
        # What chance might pass by in a few runs: something that waits for its next attempt,
        # something that is held, and something that has ended in each way but with time.
        ids = snowflakes(9, self.now, worker=self.number)
        first = [a_request(self.fleet.queue_key, an_id, self.now) for an_id in ids]
        waits, dies, ends, held, unwanted, *own = first
        self.fleet.insert(first)
        self.requests += first
        self.submitted[None] += len(first)
        for request, how in ((waits, "retry"), (dies, "dead"), (ends, "done")):
            self._settle(self.fleet.claim([request], "token0", now=self.now), how)
        self.claims += self.fleet.claim([held], "token0", now=self.now)
        self.fleet.cancel(unwanted)
        for request, after in zip(own, OWN.values(), strict=True):
            self._change([request], State.PENDING, after)

    def _chosen(self, among: list, number: int, seed: int) -> list:
        """Choose among the newest requests, since most of the older ones have ended."""
        newest = among[-150:]
        start = seed % len(newest) if newest else 0
        return [*newest[start:], *newest[:start]][:number]

    @rule(data=st.data(), job=st.sampled_from(JOBS), repeats=st.integers(0, 3), seed=_some)
    def insert(self, data: st.DataObject, job: str | None, repeats: int, seed: int) -> None:
        self.number += 1
        ids = snowflakes(data.draw(self.sizes), self.now, worker=self.number)
        new = [a_request(self.fleet.queue_key, i, self.now, job=job) for i in ids]
        old = self._chosen(self.requests, repeats, seed)

        inserted = self.fleet.insert([*new, *old])

        assert inserted.refused == {}
        assert inserted.existing <= {r.id for r in old}
        # What is gone comes back as new.
        back = [r for r in old if r.id not in inserted.existing]
        self.requests += new
        for request in (*new, *back):
            self.submitted[request.job] += 1

    @precondition(lambda self: self.requests)
    @rule(number=st.integers(1, 30), seed=_some, settled=st.integers(0, 30), how=_how)
    def claim(self, number: int, seed: int, settled: int, how: str) -> None:
        """And end some of what was won; the rest is held, for long perhaps."""
        self.tokens += 1
        wanted = self._chosen(self.requests, number, seed)
        won = self.fleet.claim(wanted, f"token{self.tokens}", now=self.now)
        self._settle(won[:settled], how)
        self.claims += won

    @precondition(lambda self: self.claims)
    @rule(number=st.integers(1, 30), seed=_some, how=_how)
    def settle(self, number: int, seed: int, how: str) -> None:
        """Also with tokens that own nothing any more."""
        claims = {c.request.id: c for c in self._chosen(self.claims, number, seed)}.values()
        self._settle(list(claims), how)

    def _settle(self, claims: list[Claim], how: str) -> None:
        ends = {
            "done": lambda c: done_with(c, {"n": 1}, at=self.now),
            "dead": lambda c: (c, Dead("gone")),
            "retry": lambda c: (c, Retry(self.now + MINUTE, "slow")),
        }
        kinds = [*ends] if how == "all" else [how]
        outcomes = [ends[kinds[n % len(kinds)]](c) for n, c in enumerate(claims)]
        self.fleet.settle(outcomes, self.now)

    @precondition(lambda self: self.claims)
    @rule(number=st.integers(1, 10), seed=_some)
    def release(self, number: int, seed: int) -> None:
        self.fleet.release(self._chosen(self.claims, number, seed), now=self.now)

    @precondition(lambda self: self.requests)
    @rule(seed=_some)
    def cancel(self, seed: int) -> None:
        self.fleet.cancel(self.requests[seed % len(self.requests)])

    @precondition(lambda self: self.requests)
    @rule(among=st.sampled_from(TRANSITIONS), number=st.integers(1, 30), seed=_some)
    def transition(self, among: tuple[int, int], number: int, seed: int) -> None:
        self._change(self._chosen(self.requests, number, seed), *among)

    def _change(self, requests: list[Request], before: int, after: int) -> None:
        fleet, asked = self.fleet, Transition(before=before, after=after, by="api", why="")
        stood = _kept(self.store, fleet, counted=False)

        found = fleet.store.transition(
            fleet.queue_key, fleet.biz, [one.id for one in requests], asked, self.now
        )

        changed = [one for one in found.values() if one.changed]
        assert {one.entry.id: one.state for one in found.values()} == {
            one.id: stood[one.id] for one in requests if one.id in stood
        }
        assert len(changed) == sum(one.state == before and not one.late for one in found.values())
        self.own_ended[before] -= len(changed)
        self.own_ended[after] += len(changed)

    @rule(seconds=st.integers(1, 90))
    def a_while_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule()
    def recovery_runs(self) -> None:
        self.fleet.expire(self.now)
        corrections = self.fleet.reconcile(self.now)
        assert corrections == []
        ended = {*State, *OWN.values()} - {State.LEASED}
        assert self._remove(self.now - timedelta(seconds=TTL + GRACE), ended) == 0

    @precondition(lambda self: self.requests and self.outages < 2)
    @rule()
    def an_outage_of_recovery(self) -> None:
        """Longer than the grace, and MongoDB removes whatever is past its time."""
        self.outages += 1
        self.fleet.expire(self.now)
        self.fleet.reconcile(self.now)
        self.now += timedelta(seconds=TTL + GRACE + 1)
        entries = [Entry(r.id, r.biz, to_ms(r.queued_at)) for r in self.requests]
        assert (
            self.fleet.store.claim(
                self.fleet.queue_key,
                self.fleet.biz,
                entries,
                "w",
                self.now,
                self.now + MINUTE,
                "late",
            )
            == []
        )
        every = {*State, *OWN.values()}
        unprocessed = self._remove(self.now - timedelta(seconds=TTL + GRACE), every)

        self.fleet.expire(self.now)
        corrections = self.fleet.reconcile(self.now)

        assert sum(one.count for one in corrections) == unprocessed
        self.lost += unprocessed

    def _remove(self, until: datetime, states: Collection[int]) -> int:
        """Remove requests as the TTL monitor does; return how many of them were unprocessed."""
        kept = _kept(self.store, self.fleet)
        gone = {
            request.id: kept[request.id]
            for request in self.requests
            if request.queued_at <= until and kept.get(request.id) in states
        }
        if isinstance(self.store, MemoryRequestStore):
            for request_id in gone:
                del self.store.state.of(self.fleet.queue_key).requests[request_id]
        else:
            for shard in _collections(self.store, self.fleet):
                shard.delete_many({"_id": {"$in": list(gone)}})
        return sum(not is_final(state) for state in gone.values())

    @invariant()
    def everything_is_somewhere(self) -> None:
        if not hasattr(self, "fleet"):
            return
        looks = {job: self.fleet.audit(self.now, job) for job in (None, "red", "blue")}
        for job, found in looks.items():
            assert found == self.fleet.ledgers.totals(
                self.fleet.queue_key, self.fleet.biz, self.now, job
            )
            wanted = sum(self.submitted.values()) if job is None else self.submitted[job]
            assert found.submitted == wanted
        there = Ledger(**_there(self.fleet, self.now))
        whole = looks[None]
        assert (whole.pending, whole.leased, whole.waiting) == (
            there.pending,
            there.leased,
            there.waiting,
        )
        assert {flag: whole.own[flag] for flag in OWN.values()} == {
            flag: self.own_ended[flag] if is_final(flag) else there.own[flag]
            for flag in OWN.values()
        }
        assert whole.expired >= self.lost
        counted = {name: getattr(whole, name) for name in whole.__struct_fields__[:-1]}
        own = {name: whole.own[flag] for name, flag in OWN.items()}
        self.reached.update({**counted, **own, "lost": self.lost})


def _there(fleet: Fleet, now) -> dict[str, Any]:
    found = fleet.find(now=now, limit=100_000)
    names = {State.PENDING: "pending", State.LEASED: "leased", State.WAITING: "waiting"}
    own = {flag: sum(t.state == flag for t in found) for flag in OWN.values()}
    return {name: sum(t.state == state for t in found) for state, name in names.items()} | {
        "own": own
    }


def _collections(store, fleet: Fleet) -> list:
    database = store.nodes.database("east", fleet.queue_key.tenant, "one")
    return [database[f"shop.requests_{number:03d}"] for number in range(2)]


def _kept(store, fleet: Fleet, *, counted: bool = True) -> dict[RequestId, int]:
    """Requests that MongoDB keeps: it leaves alone what the ledger has not counted yet."""
    if isinstance(store, MemoryRequestStore):
        kept = store.state.of(fleet.queue_key).requests
        return {request_id: one.state for request_id, one in kept.items()}
    match = {"call": {"$gte": 0}} if counted else {}
    found = (
        one for shard in _collections(store, fleet) for one in shard.find(match, {"flag": True})
    )
    return {one["_id"]: one["flag"] for one in found}


kind_of_store = fixture_over(MongoRequestStore)


@pytest.mark.hypothesis
def test_the_ledger_balances_after_every_step(kind_of_store: MongoRequestStore) -> None:
    real = not isinstance(kind_of_store, MemoryRequestStore)

    class Machine(LedgerMachine):
        store = kind_of_store
        sizes = st.sampled_from([1, 2, 30] if real else [1, 2, 40, 90])
        reached: ClassVar[Counter[str]] = Counter()

    run_state_machine_as_test(
        Machine,
        settings=examples(
            0.2 if real else 0.8,
            steps=25,
            most=60 if real else None,
            derandomize=real,
            # What fails against a real server fails in memory too, and is made small there.
            phases=[Phase.generate] if real else list(Phase),
            suppress_health_check=list(HealthCheck),
        ),
    )

    wanted = {"submitted", "pending", "leased", "waiting", "done", "dead", "cancelled", "expired"}
    assert {name for name, number in Machine.reached.items() if number} == {
        *wanted,
        *OWN,
        "lost",
    }
