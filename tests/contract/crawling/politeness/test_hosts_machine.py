"""Memory and real Redis in lockstep: whatever is asked and told, they answer the same."""

from itertools import count

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.contract.host_cases import Time, in_memory, on_redis
from tests.kit.config import HostLimits
from tests.kit.examples import examples
from tests.kit.politeness import FLEETING_SECONDS, OwnAnswers

WORKERS = st.sampled_from(["w1", "w2", "w3", "eu.w 4"])
TENANTS = st.sampled_from(["acme", "beta", "c-3"])
LIMITS = st.builds(
    HostLimits,
    per_second=st.sampled_from([0.02, 0.5, 1.0, 3.0, 10.0, 1_000.0]),
    concurrency=st.sampled_from([1, 2, 3, 8]),
    adaptive=st.booleans(),
    backoff_seconds=st.sampled_from([0.5, 2.0]),
    max_backoff_seconds=st.sampled_from([1.0, 600.0]),
    max_retry_after_seconds=st.sampled_from([1.0, 86_400.0]),
)


ORIGINS = st.sampled_from(["https://host", "https://host", "http://host", "https://host:81", ""])
OWN = st.just(OwnAnswers()) | st.builds(
    OwnAnswers,
    answered=st.integers(0, 9),
    seconds=st.floats(0, 40),
    overloads=st.sampled_from([0, 0, 1]),
    retry_after_seconds=st.sampled_from([0.0, 3.0, 1e12]),
)
#: Seconds for which each host is remembered, however little is known of it.
REMEMBERED = FLEETING_SECONDS / 2


class HostMachine(RuleBasedStateMachine):
    def __init__(self, connection, host):
        super().__init__()
        self.time = Time()
        self.asked_at = self.time.seconds
        self.streets = [in_memory(host, self.time), on_redis(connection, host, self.time)]

    def both(self, method, *arguments, **named):
        self.asked_at = self.time.seconds
        first, second = (getattr(one, method)(*arguments, **named) for one in self.streets)
        assert first == second, method
        first, second = (one.state for one in self.streets)
        assert first == second
        first, second = (one.seen_by(tenant="beta") for one in self.streets)
        assert first == second
        return first

    @initialize(limits=LIMITS)
    def limits_are_set(self, limits):
        for street in self.streets:
            street.limits = limits

    @rule(limits=LIMITS)
    def limits_change(self, limits):
        self.limits_are_set(limits)

    @rule(seconds=st.sampled_from([0.001, 0.05, 0.3, 1.0, 2.5, 11.0, 31.0, 60.0, 700.0]))
    def time_passes(self, seconds):
        # By its own clock Redis forgets nothing here; so memory is asked before it would.
        while self.time.seconds + seconds > self.asked_at + REMEMBERED:
            step = max(0.0, self.asked_at + REMEMBERED - self.time.seconds)
            self.time.seconds, seconds = self.time.seconds + step, seconds - step
            self.both("ask", count=0)
        self.time.seconds += seconds

    @rule(seconds=st.sampled_from([0.5, 3.0, 100.0]))
    def the_clock_is_set_back(self, seconds):
        self.time.seconds -= seconds

    @rule(
        worker=WORKERS,
        tenant=TENANTS,
        many=st.integers(0, 30),
        running=st.integers(0, 10),
        more=st.none() | st.sampled_from([0.01, 2.0]),
        share=st.sampled_from([1, 1, 3, 100]),
        at=ORIGINS,
    )
    def ask(self, worker, tenant, many, running, more, share, at):
        self.both(
            *("ask", worker, tenant, many, running, more),
            share=share,
            origin=self.origin(at),
        )

    @rule(
        worker=WORKERS,
        tenant=TENANTS,
        running=st.integers(0, 10),
        answered=st.integers(0, 100),
        failed=st.sampled_from([0, 0, 1, 200]),
        seconds=st.floats(0, 40),
        overloads=st.sampled_from([0, 0, 0, 1, 5]),
        retry_after=st.sampled_from([0.0, 0.0, 3.0, 5_000.0, 1e12]),
        own=OWN,
        at=ORIGINS,
    )
    def report(
        self, worker, tenant, running, answered, failed, seconds, overloads, retry_after, own, at
    ):
        self.both(
            "report",
            worker,
            tenant,
            running,
            answered=answered,
            failed=failed,
            seconds=seconds,
            overloads=overloads,
            retry_after_seconds=retry_after,
            own=own,
            origin=self.origin(at),
        )

    def origin(self, at: str) -> str:
        """Of no scheme there is no origin: any of the host is meant, or none."""
        return at and at.replace("host", self.streets[0].host)


@pytest.mark.hypothesis
def test_memory_and_redis_give_the_same_slots(redis_connection, tenant):
    hosts = count()

    run_state_machine_as_test(
        lambda: HostMachine(redis_connection, f"h{next(hosts)}.{tenant}.example"),
        settings=examples(0.6, steps=40),
    )
