"""Claim, settle, release, renew and the end of leases in any order, against a model."""

from contextlib import ExitStack
from datetime import timedelta
from uuid import uuid4

import pytest
from hypothesis import HealthCheck
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
    NOW,
    Fleet,
    a_biz,
    a_generation,
    a_store,
    done_with,
    entries_of,
    revocation_of,
)
from tests.kit.examples import examples
from tests.kit.requests import FINAL_STATES, Claim, Dead, Retry, State

LEASE = timedelta(seconds=60)


class Machine(RuleBasedStateMachine):
    """The model: of each request its state, who owns it, until when, and how often."""

    kind = "memory"
    uri = ""

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        store = self._stack.enter_context(a_store(self.kind, self.uri))
        one = a_generation(nodes=("east",), databases=("one",), shards=2)
        self.revocation = revocation_of(store)
        self.fleet = Fleet(store, f"m{uuid4().hex[:12]}", a_biz(generations=(one,)))
        self.now = NOW
        self.claims: list[Claim] = []
        self.state: dict = {}
        self.owner: dict = {}
        self.until: dict = {}
        self.attempts: dict = {}
        self.records: dict = {}

    @initialize()
    def submit(self) -> None:
        self.requests = self.fleet.submit(5)
        for r in self.requests:
            self.state[r.id], self.attempts[r.id], self.records[r.id] = State.PENDING, 0, 0

    def owns(self, claim: Claim) -> bool:
        i = claim.request.id
        return self.state[i] == State.LEASED and self.owner[i] == claim.token

    def some(self, picks: list[int]) -> list[Claim]:
        """Claims of now and of long ago, each once."""
        found = [self.claims[-1 - pick % len(self.claims)] for pick in picks]
        return list({c.request.id: c for c in found}.values())

    @rule(
        picks=st.sets(st.integers(0, 4), min_size=1),
        end=st.sampled_from(["lives", "lives", "dies", "asks again"]),
    )
    def claim(self, picks: set[int], end: str) -> None:
        """A worker claims; it may die before it hears what it won, or not hear it and ask again."""
        token = uuid4().hex
        chosen = [self.requests[pick] for pick in picks]
        free = {
            r.id
            for r in chosen
            if self.state[r.id] in (State.PENDING, State.WAITING)
            or (self.state[r.id] == State.LEASED and self.until[r.id] <= self.now)
        }

        won = self.fleet.claim(chosen, token, self.now, self.now + LEASE)
        if end == "asks again":
            won = self.fleet.claim(chosen, token, self.now, self.now + LEASE)

        assert {c.request.id for c in won} == free
        for c in won:
            i = c.request.id
            self.state[i], self.owner[i], self.until[i] = State.LEASED, token, self.now + LEASE
            self.attempts[i] += 1
            assert c.attempt == self.attempts[i]
        if end != "dies":
            self.claims += won

    @rule(picks=st.sets(st.integers(0, 4), min_size=1))
    def reap(self, picks: set[int]) -> None:
        """The worker is taken for dead: what it has is anybody's again, its tokens are void."""
        entries = entries_of([self.requests[pick] for pick in picks])

        count = self.revocation.revoke(
            self.fleet.queue_key, self.fleet.biz, entries, "worker", "watch", "dead", self.now
        )

        owned = [e.id for e in entries if self.state[e.id] == State.LEASED]
        assert count == len(owned)
        for i in owned:
            self.state[i] = State.PENDING

    @rule(picks=st.sets(st.integers(0, 4), min_size=1))
    def look_when(self, picks: set[int]) -> None:
        """Assert that requests that cannot be claimed yet are due when they can be claimed."""
        entries = entries_of([self.requests[pick] for pick in picks])

        due = self.fleet.store.due(self.fleet.queue_key, self.fleet.biz, entries)

        busy = {e.id for e in entries if self.state[e.id] in (State.LEASED, State.WAITING)}
        assert {entry.id for entry, _ in due} == busy
        ends = {e.id: at for e, at in due if self.state[e.id] == State.LEASED}
        assert ends == {i: self.until[i] for i in ends}

    @precondition(lambda self: self.claims)
    @rule(
        picks=st.lists(st.integers(0, 9), min_size=1, max_size=4),
        kinds=st.lists(
            st.sampled_from(["done", "none", "dead", "retry", "bad"]), min_size=4, max_size=4
        ),
        unheard=st.booleans(),
    )
    def settle(self, picks: list[int], kinds: list[str], unheard: bool) -> None:
        """Outcomes are written; their worker may die, or not hear of it and write them again."""
        chosen = list(zip(self.some(picks), kinds, strict=False))
        ends = {
            "done": lambda c: done_with(c, {"n": 1}, {"n": 2}),
            "none": done_with,
            "dead": lambda c: (c, Dead("gone", "PageGone")),
            "retry": lambda c: (c, Retry(self.now, "slow")),
            "bad": lambda c: done_with(c, {"n": 2**70}),
        }

        lost = self.fleet.settle([ends[kind](c) for c, kind in chosen], self.now)

        assert lost == {c.request.id for c, _ in chosen if not self.owns(c)}
        states = {"done": State.DONE, "none": State.DONE, "retry": State.WAITING}
        for c, kind in chosen:
            if c.request.id not in lost:
                self.state[c.request.id] = states.get(kind, State.DEAD)
                self.records[c.request.id] = 2 if kind == "done" else 0
        if unheard:
            again = self.fleet.settle([ends[kind](c) for c, kind in chosen], self.now)
            assert again == {c.request.id for c, _ in chosen}, "nobody owns what has ended"

    @precondition(lambda self: self.claims)
    @rule(picks=st.lists(st.integers(0, 9), min_size=1, max_size=4))
    def renew(self, picks: list[int]) -> None:
        chosen = self.some(picks)

        lost = self.fleet.renew(chosen, self.now + LEASE)

        assert lost == {c.request.id for c in chosen if not self.owns(c)}
        self.until.update(
            {c.request.id: self.now + LEASE for c in chosen if c.request.id not in lost}
        )

    @precondition(lambda self: self.claims)
    @rule(picks=st.lists(st.integers(0, 9), min_size=1, max_size=4))
    def release(self, picks: list[int]) -> None:
        chosen = self.some(picks)

        self.fleet.release(chosen, now=self.now)

        for c in filter(self.owns, chosen):
            self.state[c.request.id] = State.PENDING
            self.attempts[c.request.id] -= 1

    @rule(pick=st.integers(0, 4))
    def cancel(self, pick: int) -> None:
        i = self.requests[pick].id
        if self.state[i] in (State.PENDING, State.WAITING):
            self.state[i] = State.CANCELLED

        assert self.fleet.cancel(self.requests[pick]).state == self.state[i]

    @rule(seconds=st.sampled_from([1, 30, 60, 61]))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @invariant()
    def the_store_says_what_the_model_says(self) -> None:
        if not self.state:
            return
        found = {t.request.id: t for t in self.fleet.find(now=self.now)}
        assert {i: t.state for i, t in found.items()} == self.state
        assert {i: t.attempts for i, t in found.items()} == self.attempts
        assert {i: t.records for i, t in found.items()} == self.records
        kept = [r.request_id for r in self.fleet.records()]
        assert {i: kept.count(i) for i in self.records} == self.records
        assert all(t.due_at is None for t in found.values() if t.state in FINAL_STATES)

    def teardown(self) -> None:
        self._stack.close()


@pytest.mark.hypothesis
@pytest.mark.parametrize(("kind", "weight"), [("memory", 3), ("mongo", 0.35)])
def test_no_order_of_events_breaks_the_promise(
    kind: str, weight: float, request: pytest.FixtureRequest
) -> None:
    uri = request.getfixturevalue("mongo_uri") if kind == "mongo" else ""
    machine = type(f"{kind.title()}Machine", (Machine,), {"kind": kind, "uri": uri})

    run_state_machine_as_test(
        machine,
        settings=examples(weight, steps=25, database=None, suppress_health_check=list(HealthCheck)),
    )
