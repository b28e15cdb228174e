"""The contract of what tenants with ceilings have in Redis and MongoDB."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.fakes.ceilings import MemoryCeilings
from tests.kit.ceilings import TERM, MongoSizes, PermitAsk, RedisCeilings
from tests.kit.examples import examples
from tests.kit.implementations import backend_over
from tests.kit.kernel import QueueKey
from tests.kit.queue import RedisQueue
from tests.kit.requests import Entry

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Time:
    """A server's clock that the test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def time():
    return Time()


backend = backend_over(RedisCeilings)


@pytest.fixture
def ceilings(backend, time):
    return backend.make(RedisCeilings, clock=time)


def test_workers_together_never_have_more_in_flight_than_the_ceiling(ceilings, tenant):
    ask = PermitAsk(held=0, wanted=60, in_flight=100)

    counts = [ceilings.permits(tenant, worker, ask).count for worker in ("a", "b", "c")]

    assert counts == [60, 40, 0]


def test_what_a_worker_no_longer_has_is_there_for_others(ceilings, tenant):
    ceilings.permits(tenant, "a", PermitAsk(held=0, wanted=100, in_flight=100))

    assert ceilings.permits(tenant, "a", PermitAsk(held=30)).in_flight == 30
    more = ceilings.permits(tenant, "b", PermitAsk(held=0, wanted=100, in_flight=100))
    assert (more.count, more.in_flight) == (70, 100)


def test_the_permits_of_a_worker_that_died_come_back_after_its_term(ceilings, tenant, time):
    ceilings.permits(tenant, "dead", PermitAsk(held=0, wanted=100, in_flight=100))
    ask = PermitAsk(held=0, wanted=10, in_flight=100)

    time.now += TERM - timedelta(milliseconds=1)
    assert ceilings.permits(tenant, "b", ask).count == 0
    time.now += timedelta(milliseconds=1)
    assert ceilings.permits(tenant, "b", ask).count == 10


def test_a_ceiling_that_was_lowered_takes_nothing_away_and_gives_nothing_more(ceilings, tenant):
    ceilings.permits(tenant, "a", PermitAsk(held=0, wanted=100, in_flight=100))

    lowered = ceilings.permits(tenant, "a", PermitAsk(held=100, wanted=10, in_flight=20))

    assert (lowered.count, lowered.in_flight) == (0, 100)


def test_a_tenants_ceiling_is_nobody_elses(ceilings, tenant):
    ask = PermitAsk(held=0, wanted=10, in_flight=10)
    ceilings.permits(tenant, "a", ask)

    assert ceilings.permits(f"{tenant}x", "a", ask).count == 10


def test_trials_of_a_tenant_go_on_at_once_up_to_its_ceiling(ceilings, tenant, time):
    ask = PermitAsk(held=0, wanted=1, in_flight=2)

    assert [ceilings.trials(tenant, name, ask).count for name in "abc"] == [1, 1, 0]
    ceilings.trials(tenant, "a", PermitAsk(held=0))
    assert [ceilings.trials(tenant, name, ask).count for name in "de"] == [1, 0]
    # One whose end nobody has said ends by itself; and requests in flight are counted apart.
    time.now += TERM
    assert ceilings.trials(tenant, "f", ask).in_flight == 1
    assert ceilings.permits(tenant, "a", ask).in_flight == 1


def test_leases_keep_to_the_rate_and_what_was_not_leased_comes_back(ceilings, tenant, time):
    ask = PermitAsk(held=0, wanted=100, per_second=10.0)

    first = ceilings.permits(tenant, "a", ask)
    assert (first.count, first.wait_seconds) == (10, 0.1)
    assert ceilings.permits(tenant, "b", ask).count == 0
    back = PermitAsk(held=0, wanted=100, unused=4, per_second=10.0)
    assert ceilings.permits(tenant, "a", back).count == 4
    time.now += timedelta(seconds=0.3)
    assert ceilings.permits(tenant, "b", ask).count == 3


def test_submissions_keep_to_the_rate_of_their_tenant(ceilings, tenant, time):
    assert [ceilings.rate(tenant, 1, 2.0, 4) for _ in range(5)] == [0, 0, 0, 0, 0.5]
    time.now += timedelta(seconds=0.5)
    assert ceilings.rate(tenant, 1, 2.0, 4) == 0


asks = st.tuples(
    st.sampled_from("abc"),
    st.builds(
        PermitAsk,
        held=st.integers(0, 30),
        wanted=st.integers(0, 60),
        unused=st.integers(0, 20),
        in_flight=st.none() | st.integers(1, 100),
        per_second=st.none() | st.sampled_from([0.5, 3.0, 40.0]),
    ),
    st.integers(0, 40_000),
)


@examples(2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(asks, max_size=25))
def test_the_script_decides_as_the_model_does(redis_connection, steps):
    """Whatever is asked, whenever; and never are more permitted than the ceiling then in force."""
    time, tenant = Time(), uuid4().hex
    real, model = RedisCeilings(redis_connection, clock=time), MemoryCeilings(clock=time)
    for worker, ask, ms in steps:
        time.now += timedelta(milliseconds=ms)
        found = real.permits(tenant, worker, ask)
        assert found == model.permits(tenant, worker, ask)
        if ask.in_flight is not None and found.count:
            assert found.in_flight <= ask.in_flight


def test_the_bytes_of_queues_are_right_to_a_quarter(redis_connection, queue_key):
    """As the server's memory grew by them, whatever state they are in."""
    queue, ceilings = RedisQueue(redis_connection), RedisCeilings(redis_connection)
    client = redis_connection.client
    queues = [QueueKey(queue_key.tenant, f"biz{n}", "main") for n in range(3)]
    keyed = {"memory": 0}

    def grown() -> int:
        now, before = int(client.info("memory")["used_memory"]), keyed["memory"]
        keyed["memory"] = now
        return now - before

    grown()
    count = 20_000
    first = 7_000_000_000_000_000_000
    for n, one in enumerate(queues):
        entries = [Entry(first + i, one.biz, 1_770_000_000_000 + i) for i in range(count)]
        queue.enqueue(one, entries, NOW)
        if n == 1:
            leased = queue.lease(one, "w", 5_000, NOW, NOW + timedelta(seconds=60))
            until = NOW + timedelta(hours=1)
            hosts = [(f"host{i}.example", until, leased[i::50]) for i in range(50)]
            queue.defer(one, "w", hosts)
        if n == 2:
            queue.lease(one, "w", 5_000, NOW, NOW + timedelta(seconds=60))
    truth = grown()

    assert truth > 3 * count * 40
    assert ceilings.bytes(queues).used == pytest.approx(truth, rel=0.25)


def test_queues_that_are_empty_take_nothing(redis_connection, queue_key):
    assert RedisCeilings(redis_connection).bytes([queue_key]).used == 0
    assert RedisCeilings(redis_connection).bytes([]).used == 0


def test_the_size_of_documents_is_what_the_server_knows_of_the_tenants_databases(
    mongo_connection, queue_key
):
    sizes = MongoSizes(mongo_connection)
    places = [("main", "docs"), ("main", "shop"), ("main", "docs")]
    assert sizes.of(queue_key.tenant, places) == (0, 0)
    for database in ("docs", "shop"):
        collection = mongo_connection.collection("main", queue_key.tenant, database, "pages")
        collection.insert_many([{"_id": n, "text": "x" * 1_000} for n in range(100)])

    size, count = sizes.of(queue_key.tenant, places)

    assert count == 200
    assert 200 * 1_000 < size < 200 * 1_100
    assert sizes.of(f"{queue_key.tenant}x", places) == (0, 0)
