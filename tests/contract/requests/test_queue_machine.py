"""The queue's contract as a state machine: memory, real Redis and a model in lockstep.

After any step a worker may vanish, be late, or say again what it has said; a filling may be broken
off anywhere and begun anew by another, and Redis may lose everything. What was enqueued and neither
finished nor cleared is somewhere; once a filling is complete, all that is owed is.
"""

from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.contract.queue_model import Model
from tests.fakes.queue import MemoryQueue
from tests.fakes.recovery import MemoryLeaseBook, MemoryQueueRebuild
from tests.kit.examples import examples
from tests.kit.kernel import Ageing, QueueKey, to_ms
from tests.kit.queue import (
    RedisLeaseBook,
    RedisQueue,
    RedisQueueRebuild,
    level_keys,
    new_token,
    redis_keys,
)
from tests.kit.redis import RedisConnection
from tests.kit.requests import Entry

BEGINNING = datetime(2026, 3, 1, 12, tzinfo=UTC)
# Few, so that they repeat; of all kinds, so that they sort in unlike ways; two of one millisecond.
# Of the usual priority, and of others.
KNOWN = [
    Entry(one, "docs", to_ms(BEGINNING) + ts, *priority)
    for one, ts, *priority in [
        *[(7, 1), (10, 2), (2**62, 2), ("0a" * 12, 4), ("f" * 32, 5), (8, 6), (9, 7)],
        *[(11, 1, 0), (12, 9_000, 0), ("1" * 32, 9_000, 10), (13, 20_000, 10), (14, 3, 4)],
    ]
]
AGEING = Ageing(interval_seconds=4, beta=0.5, clamp=64)
ENTRIES = st.lists(st.sampled_from(KNOWN), max_size=5)
WHICH = st.lists(st.integers(0, 11), min_size=1, max_size=6)
WORKERS = st.sampled_from(["w1", "w11", "eu.w1", "w*"])
LATE = st.sampled_from([0, 0, 0, 1, 2, 3])
TERMS = st.integers(1, 20)
TWICE = st.booleans()
HOSTS = st.sampled_from(["a.example", "b.example", "[::1]", ""])


def at(seconds):
    return BEGINNING + timedelta(seconds=seconds)


def seconds(ms):
    return round(ms / 1000 - BEGINNING.timestamp())


class Twin:
    """One adapter's queue, lease book and rebuild, in the model's terms."""

    def __init__(self, queue_key, queue, book, rebuild, lose):
        self.queue_key, self.queue, self.book, self.rebuild = queue_key, queue, book, rebuild
        self.lose = lose

    def enqueue(self, entries):
        return self.queue.enqueue(self.queue_key, entries, BEGINNING)

    def requeue(self, entries):
        return self.queue.requeue(self.queue_key, entries)

    def lease(self, token, many, now, until):
        return self.queue.lease(self.queue_key, token, many, at(now), at(until), AGEING)

    def renew(self, token, entries, until):
        return self.queue.renew(self.queue_key, token, entries, at(until))

    def finish(self, token, entries):
        return self.queue.finish(self.queue_key, token, entries, len(entries), BEGINNING)

    def give_back(self, token, entries):
        return self.queue.give_back(self.queue_key, token, entries)

    def return_unconfirmed(self, token, until):
        return self.queue.return_unconfirmed(self.queue_key, token, at(until))

    def delay(self, token, entries):
        return self.queue.delay(self.queue_key, token, [(one, at(due)) for one, due in entries])

    def depth(self):
        found = self.queue.depth(self.queue_key)
        return (found.queued, found.deferred, found.leased, found.delayed)

    def oldest(self):
        return self.queue.depth(self.queue_key).oldest_ts

    def load(self, now):
        (found,) = self.queue.loads([self.queue_key], at(now))
        following = None if found.next_ts is None else seconds(found.next_ts)
        return (found.ready, found.leased, following)

    def defer(self, token, hosts):
        reported = [(host, at(due), entries) for host, due, entries in hosts]
        return self.queue.defer(self.queue_key, token, reported)

    def deferred(self, now, limit):
        found = self.queue.deferred(self.queue_key, at(now), limit)
        return [(one.host, one.count, seconds(one.ready_ts)) for one in found]

    def lease_deferred(self, token, hosts, until):
        reported = [(host, count, at(due)) for host, count, due in hosts]
        return self.queue.lease_deferred(self.queue_key, token, reported, at(until), AGEING)

    def held(self, worker=None):
        found = self.book.leases(self.queue_key, worker)
        assert len(found) == len(set(found))
        return set(found)

    def relist(self, token, entries, until):
        return self.book.relist(self.queue_key, token, entries, at(until))

    def clear(self, nonce):
        return self.rebuild.clear(self.queue_key, nonce)

    def fill(self, nonce, entries, reached):
        return self.rebuild.fill(self.queue_key, nonce, entries, reached)

    def fill_delayed(self, nonce, entries):
        due = [(one, at(due)) for one, due in entries]
        return self.rebuild.fill_delayed(self.queue_key, nonce, due)

    def filled(self, nonce):
        return self.rebuild.filled(self.queue_key, nonce)

    def mark(self):
        found = self.rebuild.epoch(self.queue_key)
        return (found.nonce, found.reached)


def in_memory(queue_key, clock):
    queue = MemoryQueue(clock=clock)
    return Twin(queue_key, queue, MemoryLeaseBook(queue), MemoryQueueRebuild(queue), queue.flush)


def on_redis(connection: RedisConnection, queue_key, clock):
    def lose():
        lists = connection.client.scan_iter(f"cf:{{{queue_key.tenant}:{queue_key.biz}}}:at_host:*")
        connection.client.delete(*redis_keys(queue_key), *level_keys(queue_key), *lists)

    book, rebuild = RedisLeaseBook(connection), RedisQueueRebuild(connection)
    return Twin(queue_key, RedisQueue(connection, clock=clock), book, rebuild, lose)


class QueueMachine(RuleBasedStateMachine):
    """``owed`` is what the store has: what is to be done, and from when on."""

    def __init__(self, connection: RedisConnection, queue_key: QueueKey) -> None:
        super().__init__()
        self.model = Model()
        self.now = 0
        self.twins = [in_memory(queue_key, self.clock), on_redis(connection, queue_key, self.clock)]
        self.owed: dict[Entry, int | None] = {}
        self.batches = [(new_token("nobody", "n", 0), list(KNOWN))]
        self.fillings: list[tuple[str, list[Entry], list[tuple[Entry, int]]]] = []
        self.numbers = count(1)

    def clock(self):
        return at(self.now)

    def ask(self, method, *arguments, twice=False):
        """The same of all three, perhaps once more; returns what the first time was answered."""
        answers = []
        for _ in range(1 + twice):
            more = (to_ms(at(self.now)), AGEING) if method.startswith("lease") else ()
            expected = getattr(self.model, method)(*arguments, *more)
            answers.append(expected)
            for twin in self.twins:
                assert getattr(twin, method)(*arguments) == expected, (method, twin)
        return answers[0]

    def batch(self, late, which):
        """Return some entries of the latest or an older lease, in any order, perhaps repeated.

        The other's holder may long be dead, or frozen and thawed.
        """
        token, entries = self.batches[-1 - late % len(self.batches)]
        return token, [entries[n % len(entries)] for n in which]

    @initialize()
    def there_is_work(self):
        self.enqueue(KNOWN[:4], twice=False)

    @rule(seconds=st.integers(0, 15))
    def time_passes(self, seconds):
        self.now += seconds

    # ---- submissions and recovery

    @rule(entries=ENTRIES, twice=TWICE)
    def enqueue(self, entries, twice):
        self.ask("enqueue", entries, twice=twice)
        self.owed.update(dict.fromkeys(entries))

    @rule(entries=ENTRIES, twice=TWICE)
    def requeue(self, entries, twice):
        self.ask("requeue", entries, twice=twice)
        self.owed.update(dict.fromkeys(entries))

    # ---- workers

    @rule(worker=WORKERS, many=st.integers(1, 5), term=TERMS, vanishes=st.booleans())
    def lease(self, worker, many, term, vanishes):
        token = new_token(worker, "n", next(self.numbers))
        found = self.ask("lease", token, many, self.now, self.now + term)
        self.owed.update(dict.fromkeys(found))
        if found and not vanishes:
            self.batches.append((token, found))

    @rule(late=LATE, many=st.integers(1, 5), term=TERMS)
    def lease_once_more_under_the_same_token(self, late, many, term):
        token, entries = self.batches[-1 - late % len(self.batches)]
        found = self.ask("lease", token, many, self.now, self.now + term)
        self.owed.update(dict.fromkeys(found))
        entries.extend(found)

    @rule(late=LATE, which=WHICH, term=TERMS, twice=TWICE)
    def renew_what_is_held(self, late, which, term, twice):
        token, entries = self.batch(late, which)
        self.ask("renew", token, entries, self.now + term, twice=twice)

    @rule(late=LATE, which=WHICH, term=TERMS, twice=TWICE)
    def relist_what_is_owned(self, late, which, term, twice):
        """The store says that the token owns them: Redis may have lost them, or have them still."""
        token, entries = self.batch(late, which)
        others = self.model.somewhere() - {one for of, one in self.model.leases if of == token}
        owned = [one for one in entries if one in self.owed and one not in others]
        self.ask("relist", token, owned, self.now + term, twice=twice)

    @rule(late=LATE, which=WHICH, twice=TWICE)
    def finish(self, late, which, twice):
        token, entries = self.batch(late, which)
        held = [one for one in entries if (token, one) in self.model.leases]
        assert self.ask("finish", token, entries, twice=twice) == len(set(held))
        for entry in held:
            self.owed.pop(entry, None)

    @rule(late=LATE, which=WHICH, twice=TWICE)
    def give_back(self, late, which, twice):
        token, entries = self.batch(late, which)
        self.ask("give_back", token, entries, twice=twice)

    @rule(worker=WORKERS, many=st.integers(0, 5), term=TERMS, twice=TWICE)
    def lease_of_which_the_answer_is_lost(self, worker, many, term, twice):
        token = new_token(worker, "n", next(self.numbers))
        moved = self.ask("lease", token, many, self.now, self.now + term)
        assert self.ask("return_unconfirmed", token, self.now + term, twice=twice) == len(moved)
        self.owed.update(dict.fromkeys(moved))

    @rule(late=LATE, which=WHICH, seconds=st.integers(0, 20), twice=TWICE)
    def delay(self, late, which, seconds, twice):
        token, entries = self.batch(late, which)
        due = [(one, self.now + seconds + n % 3) for n, one in enumerate(entries)]
        held = {one for one in entries if (token, one) in self.model.leases}
        self.ask("delay", token, due, twice=twice)
        self.owed.update({one: self.model.delayed[one] for one in held})

    # ---- hosts

    @rule(
        late=LATE,
        which=WHICH,
        hosts=st.lists(HOSTS, min_size=1, max_size=3),
        wait=st.integers(0, 20),
        twice=TWICE,
    )
    def defer(self, late, which, hosts, wait, twice):
        token, entries = self.batch(late, which)
        parts = [
            (host, self.now + wait + n, entries[n :: len(hosts)]) for n, host in enumerate(hosts)
        ]
        held = {one for one in entries if (token, one) in self.model.leases}
        assert self.ask("defer", token, parts, twice=twice) == len(held)
        self.owed.update(dict.fromkeys(held))

    @rule(
        worker=WORKERS,
        hosts=st.lists(st.tuples(HOSTS, st.integers(0, 3), st.integers(0, 20)), max_size=4),
        term=TERMS,
        vanishes=st.booleans(),
    )
    def lease_deferred(self, worker, hosts, term, vanishes):
        token = new_token(worker, "n", next(self.numbers))
        reported = [(host, many, self.now + wait) for host, many, wait in hosts]
        found = self.ask("lease_deferred", token, reported, self.now + term)
        entries = [entry for part in found.values() for entry in part]
        self.owed.update(dict.fromkeys(entries))
        if entries and not vanishes:
            self.batches.append((token, entries))

    @rule(late=LATE, host=HOSTS, many=st.integers(1, 3), term=TERMS)
    def lease_deferred_under_a_token_that_has_more(self, late, host, many, term):
        token, entries = self.batches[-1 - late % len(self.batches)]
        reported = [(host, many, self.now + 5)]
        found = self.ask("lease_deferred", token, reported, self.now + term)
        self.owed.update(dict.fromkeys(found[host]))
        entries.extend(found[host])

    @rule(worker=WORKERS)
    def reap(self, worker):
        """A dead worker's leases go back at once."""
        by_token: dict[str, list[Entry]] = {}
        for token, entry in sorted(self.ask("held", worker), key=str):
            by_token.setdefault(token, []).append(entry)
        for token, entries in by_token.items():
            assert self.ask("give_back", token, entries) == len(entries)
        assert self.ask("held", worker) == set()

    # ---- Redis and its filling

    @rule()
    def redis_loses_everything(self):
        self.ask("lose")

    @rule(twice=TWICE)
    def begin_a_filling(self, twice):
        nonce = f"f:{next(self.numbers)}"
        self.ask("clear", nonce, twice=twice)
        leased = {entry for _, entry in self.model.leases}
        missing = sorted(self.owed.keys() - leased, key=lambda one: one.ts)
        pending = [one for one in missing if self.owed[one] is None]
        waiting = [(one, due) for one in missing if (due := self.owed[one]) is not None]
        self.fillings.append((nonce, pending, waiting))

    @precondition(lambda self: self.fillings)
    @rule(late=LATE, many=st.integers(0, 4), of_waiting=st.integers(0, 2), twice=TWICE)
    def go_on_filling(self, late, many, of_waiting, twice):
        """Continue the latest queue rebuild, or an overtaken one, which must change nothing."""
        nonce, pending, waiting = self.fillings[-1 - late % len(self.fillings)]
        part, pending[:many] = pending[:many], []
        self.ask("fill", nonce, part, part[-1].ts if part else 0, twice=twice)
        due, waiting[:of_waiting] = waiting[:of_waiting], []
        self.ask("fill_delayed", nonce, due, twice=twice)

    @precondition(lambda self: self.fillings)
    @rule(late=LATE, twice=TWICE)
    def end_a_filling(self, late, twice):
        nonce, pending, waiting = self.fillings[-1 - late % len(self.fillings)]
        self.ask("fill", nonce, list(pending), 9)
        pending.clear()
        self.ask("fill_delayed", nonce, list(waiting))
        waiting.clear()
        self.ask("filled", nonce, twice=twice)

    # ---- what always holds

    @invariant()
    def all_three_hold_the_same(self):
        self.ask("depth")
        self.ask("load", self.now)
        self.ask("deferred", self.now, 44)
        self.ask("held")
        self.ask("mark")

    @invariant()
    def nothing_is_deferred_that_is_older_than_what_recovery_is_reported(self):
        reported, oldest = {twin.oldest() for twin in self.twins}, self.model.oldest()
        assert len(reported) == 1
        (low,) = reported
        if self.model.deferred_for:
            assert low <= oldest
        else:
            assert low == oldest

    @invariant()
    def all_that_is_owed_is_somewhere_once_the_queue_is_whole(self):
        if self.model.rebuild is not None and self.model.rebuild.complete:
            assert self.owed.keys() <= self.model.somewhere()

    def teardown(self):
        """Serve every entry that is left and compare them with the model's."""
        expected = self.model.somewhere()
        self.now += 10_000
        served: set[Entry] = set()
        while deferred := self.ask("deferred", self.now, 44):
            reported = [(host, 100, self.now) for host, _, _ in deferred]
            found = self.ask("lease_deferred", f"host.n.{len(served)}", reported, self.now)
            served.update(entry for part in found.values() for entry in part)
        assert self.model.oldest() == self.twins[1].oldest()
        while found := self.ask("lease", f"last.n.{len(served)}", 100, self.now, self.now + 99_999):
            served.update(found)
        assert served == expected


@pytest.mark.hypothesis
@pytest.mark.parametrize(("where", "weight"), [("redis", 0.6), ("cluster", 0.2)])
def test_memory_and_redis_keep_what_the_model_keeps(request, tenant, where, weight):
    connection = request.getfixturevalue(f"{where}_connection")
    queues = count()

    run_state_machine_as_test(
        lambda: QueueMachine(connection, QueueKey(tenant, f"b{next(queues)}", "main")),
        settings=examples(weight, steps=40),
    )
