"""Whatever writers do, alone and at once, a reader that asks since its position misses nothing."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Barrier
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.kit.examples import examples
from tests.kit.kernel import NotFoundError, QuotaExceededError
from tests.kit.mongo_nodes import NodesOnOneServer
from tests.kit.subscriptions import (
    TOMBSTONE,
    Content,
    MongoSubscriptions,
    Seen,
    StreamKind,
    Subscription,
    after,
)

_names = st.sampled_from("abcdef")
_terms = st.sampled_from(["climate", "energy", "water"])
_changes = st.tuples(_names, _terms | st.none())
_sizes = st.sampled_from([1, 2, 100])


class Reader:
    """A reader of changes, as far as it has come."""

    def __init__(self) -> None:
        self.known: dict[str, Subscription] = {}
        self.seen: Seen | None = None
        #: How often it had to begin afresh, but for the first time.
        self.again = 0

    def reads(self, store: MongoSubscriptions, limit: int) -> bool:
        """Read some; tell whether there is more."""
        changes = store.changed_since(self.seen, limit)
        self.again += changes.afresh and self.seen is not None
        self.known, self.seen = after(self.known, changes), changes.seen
        return changes.more


class Writing(RuleBasedStateMachine):
    """Writers of six subscriptions, and two readers; what stands is noted beside the store."""

    nodes: NodesOnOneServer
    reached: ClassVar[Counter[str]]

    def __init__(self) -> None:
        super().__init__()
        self.nodes.empty_control()
        self.store = MongoSubscriptions(self.nodes)
        self.now = datetime(2026, 11, 23, tzinfo=UTC)
        self.readers = [Reader(), Reader()]

    def _change(self, name: str, term: str | None) -> None:
        """Put a subscription, or end it where there is no term."""
        try:
            if term is None:
                self.store.end("acme", "news", name, self.now)
            else:
                content = Content(kind=StreamKind.NDJSON_STREAM, filter=term, channel="wire")
                self.store.put("acme", "news", name, content, self.now, most=5)
        except NotFoundError:
            self.reached["unknown"] += 1
        except QuotaExceededError:
            self.reached["full"] += 1
        else:
            self.reached["ended" if term is None else "put"] += 1

    @rule(change=_changes)
    def one_changes(self, change: tuple[str, str | None]) -> None:
        self._change(*change)

    @rule(changes=st.lists(_changes, min_size=2, max_size=3), limit=_sizes)
    def some_change_while_a_reader_reads(
        self, changes: list[tuple[str, str | None]], limit: int
    ) -> None:
        gate = Barrier(len(changes) + 1)

        def write(change: tuple[str, str | None]) -> None:
            gate.wait()
            self._change(*change)

        def read() -> None:
            gate.wait()
            for _ in range(3):
                self.readers[0].reads(self.store, limit)

        with ThreadPoolExecutor(len(changes) + 1) as threads:
            done = [threads.submit(write, change) for change in changes]
            done.append(threads.submit(read))
        for one in done:
            one.result()

    @rule()
    def a_day_passes(self) -> None:
        self.now += TOMBSTONE

    @rule(which=st.sampled_from([0, 1]), limit=_sizes)
    def a_reader_reads(self, which: int, limit: int) -> None:
        """Nobody writes: one that has read to the end knows what stands, and nothing else."""
        reader = self.readers[which]
        if not reader.reads(self.store, limit):
            self._must_know(reader)

    def _must_know(self, reader: Reader) -> None:
        stands = self.store.of_biz("acme", "news", None, 100)
        assert reader.known == {one.id: one for one in stands}
        assert len({one.number for one in stands}) == len(stands) <= 5

    def teardown(self) -> None:
        for reader in self.readers:
            while reader.reads(self.store, 2):
                pass
            self._must_know(reader)
            self.reached["again"] += reader.again


@pytest.mark.hypothesis
def test_a_reader_knows_what_stands_whoever_wrote_when(mongo_connection: NodesOnOneServer) -> None:
    class Machine(Writing):
        nodes = mongo_connection
        reached: ClassVar[Counter[str]] = Counter()

    run_state_machine_as_test(
        Machine,
        settings=examples(
            0.5,
            steps=30,
            most=100,
            # Threads: the same steps need not fail again.
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )

    assert Machine.reached["put"]
    assert Machine.reached["ended"]
