"""The two queues do the same: whatever is asked of both, in any order, both answer alike."""

from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.fakes.queue import MemoryQueue
from tests.kit.examples import examples
from tests.kit.kernel import QueueKey
from tests.kit.queue import RedisQueue
from tests.kit.redis import RedisConnection
from tests.kit.requests import Entry

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
# Few ids, so that entries repeat; of all kinds, so that they sort in unlike ways.
IDS = st.sampled_from([7, 10, 2**62, "0a" * 12, "f" * 32])
WHICH = st.lists(st.integers(0, 5), max_size=6)
ENTRIES = st.lists(st.builds(Entry, IDS, st.just("docs"), st.just(1)), max_size=6)
TOKENS = st.sampled_from(["a", "b:c"])
SECONDS = st.integers(0, 20)


class FakeAndReal(RuleBasedStateMachine):
    def __init__(self, real: RedisQueue, queue_key: QueueKey) -> None:
        super().__init__()
        self.both = (MemoryQueue(), real)
        self.queue_key = queue_key
        self.now = NOW
        self.leased: list[Entry] = [Entry(7, "docs", 1)]

    def ask(self, method: str, *arguments: object) -> object:
        memory, real = (getattr(one, method)(self.queue_key, *arguments) for one in self.both)
        assert memory == real
        return memory

    def some(self, which: list[int]) -> list[Entry]:
        """Return some entries of the latest lease, perhaps repeated."""
        return [self.leased[n % len(self.leased)] for n in which]

    def later(self, seconds: int) -> datetime:
        return self.now + timedelta(seconds=seconds)

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: int) -> None:
        self.now = self.later(seconds)

    @rule(entries=ENTRIES)
    def enqueue(self, entries: list[Entry]) -> None:
        self.ask("enqueue", entries, self.now)

    @rule(entries=ENTRIES)
    def requeue(self, entries: list[Entry]) -> None:
        self.ask("requeue", entries)

    @rule(token=TOKENS, how_many=st.integers(0, 5), seconds=SECONDS)
    def lease(self, token: str, how_many: int, seconds: int) -> None:
        found = self.ask("lease", token, how_many, self.now, self.later(seconds))
        self.leased = found or self.leased

    @rule(token=TOKENS, which=WHICH, seconds=SECONDS)
    def renew(self, token: str, which: list[int], seconds: int) -> None:
        self.ask("renew", token, self.some(which), self.later(seconds))

    @rule(token=TOKENS, which=WHICH, processed=st.integers(0, 5))
    def finish(self, token: str, which: list[int], processed: int) -> None:
        self.ask("finish", token, self.some(which), processed, self.now)

    @rule(token=TOKENS, which=WHICH)
    def give_back(self, token: str, which: list[int]) -> None:
        self.ask("give_back", token, self.some(which))

    @rule(token=TOKENS, seconds=SECONDS)
    def return_unconfirmed(self, token: str, seconds: int) -> None:
        self.ask("return_unconfirmed", token, self.later(seconds))

    @rule(token=TOKENS, which=WHICH, seconds=SECONDS)
    def delay(self, token: str, which: list[int], seconds: int) -> None:
        due = [(entry, self.later(seconds + n % 3)) for n, entry in enumerate(self.some(which))]
        self.ask("delay", token, due)

    @invariant()
    def both_hold_the_same(self) -> None:
        self.ask("depth")
        self.ask("per_second", self.now)
        self.ask("rates", self.now)


@pytest.mark.hypothesis
def test_the_fake_and_the_real_store_answer_alike(redis_connection, tenant):
    queues = count()

    run_state_machine_as_test(
        lambda: FakeAndReal(
            RedisQueue(redis_connection), QueueKey(tenant, f"b{next(queues)}", "main")
        ),
        settings=examples(0.6, steps=40),
    )


def test_a_token_that_takes_back_its_own_ended_lease_among_others_has_it_once(
    redis_url: str, tenant: str
) -> None:
    """Found by the machine: the order in which several ended leases of one entry are taken."""
    first, second = Entry(2**62, "docs", 1), Entry(7, "docs", 1)
    now, queue_key = datetime(2026, 1, 1, tzinfo=UTC), QueueKey(tenant, "docs", "main")
    found = []
    with RedisConnection(redis_url) as connection:
        for queue in (MemoryQueue(), RedisQueue(connection)):
            queue.enqueue(queue_key, [first], now)
            queue.lease(queue_key, "b:c", 1, now, now + timedelta(seconds=1))
            queue.enqueue(queue_key, [second, first], now)
            queue.lease(queue_key, "a", 2, now, now)
            later = now + timedelta(seconds=1)
            found.append(queue.lease(queue_key, "b:c", 3, later, later))

    assert found == [[first, second]] * 2
