"""The deliverer over a real MongoDB: each receiver on its own, nothing lost, repeats by id."""

import threading
from datetime import timedelta

import pytest

from tests.contract.streams.delivery_cases import (
    BEGIN,
    QUEUE,
    STREAM,
    Died,
    Receivers,
    Time,
    a_subscriber,
    addressed,
    an_item,
)
from tests.kit.kernel import MessageRefusedError, StoreUnavailableError
from tests.kit.streams import (
    SLICE,
    TERM,
    Deliverer,
    Fault,
    MongoAccepting,
    MongoLeasing,
    RedisPusher,
    Target,
    TargetKind,
    Withdrawn,
    run,
    stream_key,
)
from tests.waiting import eventually

BRAND = a_subscriber("brand", target=QUEUE)
PRESS = a_subscriber("press", target=STREAM)


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def accepting(mongo_connection):
    return MongoAccepting(mongo_connection)


@pytest.fixture
def receivers():
    return Receivers()


@pytest.fixture
def deliverer(mongo_connection, receivers, time):
    return a_deliverer(mongo_connection, receivers, time)


def a_deliverer(nodes, receivers, time, by="d1", **options):
    return Deliverer(
        outbox=MongoLeasing(nodes),
        pushers=dict.fromkeys(TargetKind, receivers),
        **{"is_allowed": lambda _tenant, _target: True, "steady": lambda: 0.0, **options},
        by=by,
        clock=time,
    )


def work(deliverer):
    """Work until nothing is due; return how often."""
    worked = []
    while (one := deliverer.deliver_next()) is not None:
        worked.append(one)
    return worked


def ids_of(mongo_connection, **match):
    found = mongo_connection.control("stream_deliveries").find(match)
    return {one["_id"].hex() for one in found}


def away(_batch):
    raise StoreUnavailableError("sqs", "ConnectTimeoutError")


def test_every_subscriber_gets_its_items_once(accepting, deliverer, receivers, mongo_connection):
    items = [addressed(an_item(str(number)), BRAND, PRESS) for number in range(25)]
    accepting.accept(items, BEGIN)

    worked = work(deliverer)

    assert sum(one.delivered for one in worked) == 50
    assert receivers.calls == {QUEUE.address: 3, STREAM.address: 1}
    got = receivers.got[QUEUE.address] + receivers.got[STREAM.address]
    assert len(got) == 50
    assert set(got) == ids_of(mongo_connection)
    accepting.accept(items, BEGIN)
    assert work(deliverer) == []


def test_a_receiver_that_is_away_for_five_minutes_gets_everything_and_holds_up_nobody(
    accepting, deliverer, receivers, mongo_connection, time
):
    receivers.answers[QUEUE.address] = away
    for minute in range(5):
        some = [addressed(an_item(f"{minute}/{n}"), BRAND, PRESS) for n in range(12)]
        accepting.accept(some, time())
        for _ in range(60):
            work(deliverer)
            time.passes(1)
        assert len(receivers.got[STREAM.address]) == 12 * (minute + 1)
    tries = receivers.calls[QUEUE.address]
    assert tries < 15

    del receivers.answers[QUEUE.address]
    for _ in range(300):
        work(deliverer)
        time.passes(1)

    assert set(receivers.got[QUEUE.address]) == ids_of(mongo_connection, name="brand")
    assert len(receivers.got[QUEUE.address]) == 60


def test_what_a_receiver_did_not_take_is_tried_again_alone(accepting, deliverer, receivers, time):
    accepting.accept([addressed(an_item(str(number)), BRAND) for number in range(10)], time())
    receivers.answers[QUEUE.address] = lambda batch: [
        Fault(text="InternalError") if one.delivery.item.id == "4" else None for one in batch
    ]

    (worked,) = work(deliverer)
    assert (worked.delivered, worked.retried) == (9, 1)

    sizes = []
    receivers.answers[QUEUE.address] = lambda batch: sizes.append(len(batch)) or [None]
    time.passes(1)
    work(deliverer)
    assert sizes == [1]
    assert len(set(receivers.got[QUEUE.address])) == 10


def test_a_message_that_a_receiver_never_takes_is_a_dead_letter_and_the_others_go_on(
    accepting, deliverer, receivers, mongo_connection
):
    accepting.accept([addressed(an_item(str(number)), BRAND) for number in range(10)], BEGIN)

    def refusing(batch):
        if any(one.delivery.item.id == "4" for one in batch):
            raise MessageRefusedError("sqs: InvalidMessageContents")
        return [None] * len(batch)

    receivers.answers[QUEUE.address] = refusing

    (worked,) = work(deliverer)

    assert (worked.delivered, worked.dead) == (9, 1)
    (dead,) = mongo_connection.control("stream_deliveries").find({"state": 2})
    assert (dead["reason"], dead["error"]) == ("refused", "sqs: InvalidMessageContents")


def test_a_message_that_is_refused_while_others_are_taken_is_given_up(
    accepting, deliverer, receivers, mongo_connection, time
):
    receivers.answers[QUEUE.address] = lambda batch: [
        Fault(text="InternalError") if one.delivery.item.id == "bad" else None for one in batch
    ]
    accepting.accept([addressed(an_item("bad"), BRAND), addressed(an_item("0"), BRAND)], time())
    for number in range(1, 60):
        work(deliverer)
        time.passes(10)
        accepting.accept([addressed(an_item(str(number)), BRAND)], time())

    (dead,) = mongo_connection.control("stream_deliveries").find({"state": 2})
    assert dead["reason"] == "tried_out"
    assert len(receivers.got[QUEUE.address]) == 59


def test_a_receiver_that_throttles_everything_is_away_and_loses_nothing(
    accepting, deliverer, receivers, mongo_connection, time
):
    accepting.accept([addressed(an_item(str(number)), BRAND) for number in range(3)], BEGIN)
    receivers.answers[QUEUE.address] = lambda batch: [Fault(text="Throttled")] * len(batch)
    for _ in range(100):
        work(deliverer)
        time.passes(60)

    del receivers.answers[QUEUE.address]
    time.passes(300)
    work(deliverer)

    assert set(receivers.got[QUEUE.address]) == ids_of(mongo_connection)


def test_what_a_receiver_has_not_taken_for_a_day_is_a_dead_letter(
    accepting, deliverer, receivers, mongo_connection, time
):
    receivers.answers[QUEUE.address] = away
    accepting.accept([addressed(an_item("old"), BRAND)], time())
    work(deliverer)
    time.passes(86_000)
    accepting.accept([addressed(an_item("young"), BRAND)], time())
    time.passes(1_000)

    (worked,) = work(deliverer)

    assert worked.dead == 1
    (dead,) = mongo_connection.control("stream_deliveries").find({"state": 2})
    assert (dead["reason"], dead["error"]) == ("away", "sqs: ConnectTimeoutError")


def test_a_target_that_the_stage_allows_no_more_is_not_pushed_to(
    accepting, receivers, mongo_connection, time
):
    allowed = set()
    deliverer = a_deliverer(
        mongo_connection,
        receivers,
        time,
        is_allowed=lambda tenant, target: (tenant, target) in allowed,
    )
    accepting.accept([addressed(an_item(), BRAND)], time())

    (worked,) = work(deliverer)
    assert "does not allow" in worked.error
    assert receivers.calls == {}

    allowed.add(("acme", QUEUE))
    time.passes(1)
    work(deliverer)
    assert len(receivers.got[QUEUE.address]) == 1


def test_an_item_too_long_for_its_receiver_is_a_dead_letter(
    accepting, deliverer, receivers, mongo_connection, monkeypatch
):
    limits = {**deliverer_limits(), TargetKind.SQS: type(deliverer_limits()["sqs"])(10, 600, 0)}
    monkeypatch.setattr("crawlfleet.streams.delivery.deliverer.LIMITS", limits)
    accepting.accept(
        [addressed(an_item("1"), BRAND), addressed(an_item("2", "x" * 600), BRAND)], BEGIN
    )

    (worked,) = work(deliverer)

    assert (worked.delivered, worked.dead) == (1, 1)
    (dead,) = mongo_connection.control("stream_deliveries").find({"state": 2})
    assert dead["reason"] == "too_large"


def deliverer_limits():
    from tests.kit.streams import messages

    return messages.LIMITS


def test_who_is_killed_between_push_and_settling_is_followed_with_the_same_ids(
    accepting, receivers, mongo_connection, time
):
    accepting.accept([addressed(an_item(str(number)), BRAND) for number in range(15)], time())
    first = a_deliverer(mongo_connection, receivers, time, "d1")
    first.outbox.settle = lambda *_: (_ for _ in ()).throw(Died)
    with pytest.raises(Died):
        first.deliver_next()
    second = a_deliverer(mongo_connection, receivers, time, "d2")
    assert work(second) == []
    time.passes(TERM.total_seconds())

    work(second)

    got = receivers.got[QUEUE.address]
    assert len(got) == 25
    assert set(got) == ids_of(mongo_connection)


def test_a_busy_receiver_is_left_for_others_after_a_while(accepting, receivers, deliverer, time):
    accepting.accept([addressed(an_item(str(number)), BRAND) for number in range(30)], time())
    accepting.accept([addressed(an_item("other"), PRESS)], time())

    def slow(batch):
        time.passes(SLICE.total_seconds() / 2)
        return [None] * len(batch)

    receivers.answers[QUEUE.address] = slow

    worked = [deliverer.deliver_next() for _ in range(3)]

    assert [one.delivered for one in worked] == [20, 1, 10]


def test_a_receiver_that_was_slow_is_left_to_other_threads(
    accepting, receivers, mongo_connection, time
):
    ticks = iter(range(100))
    deliverer = a_deliverer(mongo_connection, receivers, time, steady=lambda: float(next(ticks)))
    accepting.accept([addressed(an_item("1"), BRAND)], time())
    work(deliverer)
    accepting.accept([addressed(an_item("2"), BRAND)], time())

    assert deliverer.deliver_next(quick_only=True) is None
    assert deliverer.deliver_next().delivered == 1


def test_however_many_receivers_a_tenant_has_anothers_is_served_beside_them(
    accepting, mongo_connection, receivers, time
):
    arn = "arn:aws:sqs:eu-west-1:123456789012:them-"
    theirs = [Target(TargetKind.SQS, f"{arn}{number}") for number in range(9)]
    deliverer = a_deliverer(mongo_connection, receivers, time, threads=4)
    go, stop = threading.Event(), threading.Event()

    def answer_late(batch):
        go.wait()
        return [None] * len(batch)

    receivers.answers = dict.fromkeys((one.address for one in theirs), answer_late)
    for number, target in enumerate(theirs):
        them = a_subscriber(f"t{number}", target=target, tenant="rival")
        accepting.accept([addressed(an_item(str(number)), them)], time())
    time.passes(1)
    accepting.accept([addressed(an_item("ours"), BRAND)], time())
    running = threading.Thread(target=run, args=(deliverer, stop, 4))
    running.start()
    try:
        eventually(lambda: receivers.got.get(QUEUE.address))
        assert not any(receivers.got.get(one.address) for one in theirs)
        # Nobody else has anything to deliver any more: the rest is theirs.
        eventually(lambda: sum(receivers.calls.get(one.address, 0) for one in theirs) >= 4)
    finally:
        go.set()
        stop.set()
        running.join()


def test_a_withdrawal_follows_its_item(accepting, deliverer, receivers, time):
    accepting.accept([addressed(an_item(), BRAND)], time())
    work(deliverer)

    accepting.withdraw([Withdrawn(id="1", channel="news", at=time())], time())
    work(deliverer)

    first, second = receivers.got[QUEUE.address]
    assert second == f"{first}-withdrawn"


def test_threads_deliver_until_they_are_told_to_stop(
    accepting, mongo_connection, redis_connection, tenant
):
    subscriber = a_subscriber(tenant=tenant)
    deliverer = Deliverer(
        outbox=MongoLeasing(mongo_connection),
        pushers={TargetKind.REDIS_STREAM: RedisPusher(redis_connection, lambda: 10_000)},
        is_allowed=lambda _tenant, _target: True,
        by="d1",
    )
    now = deliverer.clock() - timedelta(minutes=1)
    stop = threading.Event()
    running = threading.Thread(target=run, args=(deliverer, stop, 4))
    running.start()
    try:
        accepting.accept([addressed(an_item(str(number)), subscriber) for number in range(9)], now)
        eventually(lambda: redis_connection.client.xlen(stream_key(tenant, STREAM)) >= 9)
    finally:
        stop.set()
        running.join()

    entries = redis_connection.client.xrange(stream_key(tenant, STREAM))
    assert len({fields[b"id"] for _, fields in entries}) == 9
