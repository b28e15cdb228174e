"""Holds on real Redis: never two readers of a channel, whatever is lost, doubled or late."""

from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.kit.examples import examples
from tests.kit.streams import LEASE_SECONDS, OFFER_SECONDS, ReaderHold, RedisHolds, hold_key

BEGIN = datetime(2026, 11, 23, tzinfo=UTC)
NUMBERS = count()


class Time:
    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return BEGIN + timedelta(seconds=self.seconds)


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def holds(any_redis, time):
    return RedisHolds(any_redis, clock=time)


@pytest.fixture
def channel(holds, time, tenant):
    """A channel that Redis has known for a lease."""
    name = f"{tenant}/x"
    assert holds.take(name, "w0") == (None, LEASE_SECONDS)
    time.seconds += LEASE_SECONDS
    return name


def test_a_channel_is_one_workers_until_it_is_released(holds, channel, time):
    fence, _ = holds.take(channel, "w1")
    assert holds.take(channel, "w2") == (None, OFFER_SECONDS)

    assert holds.keep(channel, "w1", fence)
    assert holds.take(channel, "w2") == (None, LEASE_SECONDS)
    assert not holds.keep(channel, "w2", fence)
    assert not holds.keep(channel, "w1", fence - 1)

    holds.release(channel, "w1", fence)
    assert not holds.keep(channel, "w1", fence)
    assert holds.take(channel, "w2").fence > fence


def test_an_offer_that_is_acknowledged_too_late_is_refused(holds, channel, time):
    fence, _ = holds.take(channel, "w1")
    time.seconds += OFFER_SECONDS

    assert not holds.keep(channel, "w1", fence)
    assert holds.take(channel, "w2").fence > fence


def test_a_reader_that_dies_is_followed_after_a_lease(holds, channel, time):
    fence, _ = holds.take(channel, "w1")
    holds.keep(channel, "w1", fence)
    time.seconds += LEASE_SECONDS - 0.5

    assert holds.take(channel, "w2") == (None, 0.5)
    time.seconds += 0.5
    assert holds.take(channel, "w2").fence is not None


def test_who_was_followed_cannot_release_the_hold_of_another(holds, channel, time):
    first, _ = holds.take(channel, "w1")
    time.seconds += OFFER_SECONDS
    second, _ = holds.take(channel, "w2")
    holds.keep(channel, "w2", second)

    holds.release(channel, "w1", first)

    assert holds.keep(channel, "w2", second)


def test_what_redis_has_lost_is_granted_to_nobody_for_a_lease(holds, channel, time, any_redis):
    fence, _ = holds.take(channel, "w1")
    holds.keep(channel, "w1", fence)
    any_redis.together(("UNLINK", hold_key(channel)))

    assert holds.take(channel, "w2") == (None, LEASE_SECONDS)
    assert not holds.keep(channel, "w1", fence)
    time.seconds += LEASE_SECONDS
    assert holds.take(channel, "w2").fence > fence


def test_a_hold_that_another_server_granted_is_kept_and_no_other_is_granted_for_a_lease(
    holds, channel, time, any_redis
):
    fence, _ = holds.take(channel, "w1")
    holds.keep(channel, "w1", fence)
    any_redis.together(("HSET", hold_key(channel), "run", "another"))

    assert holds.keep(channel, "w1", fence)
    holds.release(channel, "w1", fence)
    assert holds.take(channel, "w2") == (None, LEASE_SECONDS)


def test_by_the_servers_own_clock_a_new_channel_waits_for_a_lease(any_redis, tenant):
    holds = RedisHolds(any_redis)

    fence, seconds = holds.take(f"{tenant}/own", "w1")

    assert fence is None
    assert 0 < seconds <= LEASE_SECONDS
    [left] = any_redis.together(("PTTL", hold_key(f"{tenant}/own")))
    assert 0 < left <= 86_400_000


class Holding(RuleBasedStateMachine):
    """Readers, whose messages are lost, doubled and late, over a Redis that loses what it has."""

    def __init__(self, connection, tenant):
        super().__init__()
        self.time = Time()
        self.redis = connection
        self.holds = RedisHolds(connection, clock=self.time)
        self.channel = f"{tenant}/machine{next(NUMBERS)}"
        self.readers = {name: ReaderHold() for name in ("w1", "w2")}
        self.late = []
        self.copy = None
        self.holds.take(self.channel, "w1")
        self.time.seconds += LEASE_SECONDS
        self.a_worker_takes_and_acknowledges("w1")

    names = st.sampled_from(["w1", "w2"])
    fates = st.sampled_from(["answered", "answered", "answered", "answer lost", "late", "doubled"])

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 3.7, 4.0, 9.0]))
    def time_passes(self, seconds):
        self.time.seconds += seconds

    @rule(name=names)
    def a_worker_takes_and_acknowledges(self, name):
        self.a_worker_takes(name, "answered")
        self.a_worker_keeps(name, "answered")

    @rule(name=names, fate=fates)
    def a_worker_takes(self, name, fate):
        if self.readers[name].fence is not None:
            return
        taken = self.holds.take(self.channel, name)
        if fate == "doubled":
            self.holds.take(self.channel, name)
        if taken.fence is not None and fate != "answer lost":
            self.readers[name].offered(taken.fence)

    @rule(name=names, fate=fates)
    def a_worker_keeps(self, name, fate):
        asked_at = self.time.seconds
        fence = self.readers[name].ask(asked_at)
        if fence is None:
            return
        if fate == "late":
            self.late.append((name, fence, asked_at))
            return
        is_kept = self.holds.keep(self.channel, name, fence)
        if fate == "doubled":
            self.holds.keep(self.channel, name, fence)
        if fate != "answer lost":
            self.readers[name].answered(fence, asked_at, is_kept=is_kept)

    @rule()
    def late_messages_arrive(self):
        for name, fence, asked_at in self.late:
            is_kept = self.holds.keep(self.channel, name, fence)
            self.readers[name].answered(fence, asked_at, is_kept=is_kept)
        self.late.clear()

    @rule(name=names)
    def a_worker_hands_over(self, name):
        fence = self.readers[name].fence
        self.readers[name].dropped()
        if fence is not None:
            self.holds.release(self.channel, name, fence)

    @rule(name=names)
    def a_worker_dies_and_comes_back(self, name):
        self.readers[name] = ReaderHold()

    @rule(name=names)
    def redis_loses_it(self, name):
        self.redis.together(("UNLINK", hold_key(self.channel)))
        self.a_worker_takes_and_acknowledges(name)

    @rule(name=names)
    def the_other_one_wants_it_after_a_lease(self, name):
        self.time_passes(LEASE_SECONDS)
        self.a_worker_takes_and_acknowledges(name)

    @rule()
    def redis_is_copied(self):
        [found] = self.redis.together(("HGETALL", hold_key(self.channel)))
        self.copy = {key.decode(): value.decode() for key, value in found.items()}

    @rule()
    def redis_fails_over_to_the_copy(self):
        if not self.copy:
            return
        fields = [word for pair in (self.copy | {"run": "another"}).items() for word in pair]
        self.redis.together(
            ("UNLINK", hold_key(self.channel)), ("HSET", hold_key(self.channel), *fields)
        )

    @invariant()
    def never_two_read(self):
        reading = [name for name, it in self.readers.items() if it.may_read(self.time.seconds)]
        assert len(reading) <= 1

    def teardown(self):
        """Whatever was before: when all are quiet, one reads soon."""
        for name in self.readers:
            self.readers[name] = ReaderHold()
        self.late.clear()
        self.time_passes(LEASE_SECONDS)
        self.a_worker_takes("w1", "answered")
        if self.readers["w1"].fence is None:  # Redis had lost it, and knows that since now
            self.time_passes(LEASE_SECONDS)
            self.a_worker_takes("w1", "answered")
        self.a_worker_keeps("w1", "answered")
        assert self.readers["w1"].may_read(self.time.seconds)


def test_there_are_never_two_readers_and_never_none_for_long(redis_connection, tenant):
    run_state_machine_as_test(
        lambda: Holding(redis_connection, tenant), settings=examples(2, steps=20)
    )
