"""Counts by second: each is emitted once, whatever could not be read meanwhile."""

from collections import Counter
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.kernel import Batch, QueueKey
from tests.kit.monitoring import (
    SETTLED_SECONDS,
    Emitted,
    QueueSample,
)
from tests.unit.monitoring.samples_seen import AT, SECOND, emit, queue_key, seen


@given(
    pauses=st.lists(st.floats(0.1, 85), min_size=1, max_size=12),
    counted=st.lists(st.integers(0, 600), max_size=30),
)
def test_every_second_that_is_over_is_emitted_exactly_once(pauses, counted):
    counts = {SECOND + offset: 1 for offset in counted}
    emitted, reported, now = Emitted(until=SECOND), [], AT
    for pause in pauses:
        now += timedelta(seconds=pause)
        upto = int(now.timestamp())
        visible = {at: count for at, count in counts.items() if upto - 90 <= at < upto}
        found, emitted = emit(
            seen(queue_key(submitted_seconds=visible, processed_seconds={}), at=now), emitted
        )
        reported += [
            int(batch.at.timestamp())
            for batch in found
            if batch.dimensions and batch.metrics[0].fine
        ]

    end = int(now.timestamp()) - SETTLED_SECONDS
    assert reported == sorted(at for at in counts if SECOND <= at < end)


def test_after_a_long_silence_what_is_still_known_is_reported():
    counts = {SECOND + offset: 1 for offset in range(300)}
    now = AT + timedelta(seconds=300)
    found, _ = emit(
        seen(queue_key(submitted_seconds=counts, processed_seconds={}), at=now),
        Emitted(until=SECOND),
    )

    reported = [batch for batch in found if batch.dimensions and batch.metrics[0].fine]
    assert len(reported) == 90 - SETTLED_SECONDS


def unread(number: int = 1) -> QueueSample:
    """A sample of a queue that could not be read."""
    return QueueSample(queue_key=QueueKey("acme", f"b{number}", "main"))


def submitted(found: list[Batch], **dimensions: str) -> dict[int, float]:
    """Return the submissions in the metrics, by second; of the stage unless a biz is named."""
    reported: Counter[int] = Counter()
    for batch in found:
        if batch.dimensions == dimensions and batch.metrics[0].fine:
            reported[int(batch.at.timestamp()) - SECOND] += int(batch.metrics[0].value)
    return dict(reported)


def counted(at: datetime, number: int = 1) -> QueueSample:
    """A queue that takes one request a second, as it is seen at a moment."""
    now = int(at.timestamp())
    visible = dict.fromkeys(range(max(SECOND, now - 90), now), 1)
    return queue_key(number, submitted_seconds=visible, processed_seconds={})


@pytest.mark.parametrize("blind", [(unread(),), ()], ids=["queues unread", "nothing read"])
def test_what_an_evaluation_could_not_read_the_next_one_reports(blind):
    later, last = AT + timedelta(seconds=30), AT + timedelta(seconds=75)
    _, emitted = emit(seen(*blind, at=later), Emitted(until=SECOND))
    found, emitted = emit(seen(counted(last), at=last), emitted)

    assert submitted(found) == submitted(found, tenant="acme", biz="b1")
    assert submitted(found) == dict.fromkeys(range(75 - SETTLED_SECONDS), 1)
    again, _ = emit(seen(counted(last), at=last), emitted)
    assert submitted(again) == {}


def test_a_queue_that_could_not_be_read_is_reported_later_and_the_others_once():
    later, last = AT + timedelta(seconds=30), AT + timedelta(seconds=75)
    first, emitted = emit(seen(counted(later), unread(2), at=later), Emitted(until=SECOND))
    found, emitted = emit(seen(counted(last), counted(last, 2), at=last), emitted)

    reported = Counter(submitted(first)) + Counter(submitted(found))
    assert reported == dict.fromkeys(range(75 - SETTLED_SECONDS), 2)
    for biz in ("b1", "b2"):
        own = Counter(submitted(first, tenant="acme", biz=biz))
        own.update(submitted(found, tenant="acme", biz=biz))
        assert own == dict.fromkeys(range(75 - SETTLED_SECONDS), 1)
    assert emitted.behind == {}


def test_of_a_queue_that_is_away_for_long_what_is_still_known_is_reported():
    emitted, at = Emitted(until=SECOND), AT
    for _ in range(5):
        at += timedelta(seconds=60)
        _, emitted = emit(seen(counted(at), unread(2), at=at), emitted)
    found, _ = emit(seen(counted(at), counted(at, 2), at=at), emitted)

    assert len(submitted(found, tenant="acme", biz="b2")) == 90 - SETTLED_SECONDS
    _, emitted = emit(seen(counted(at), at=at), emitted)
    assert emitted.behind == {}


@given(
    st.lists(
        st.tuples(
            st.floats(1, 44), st.sampled_from(["both", "one", "two", "queues", "everything"])
        ),
        min_size=1,
        max_size=12,
    )
)
def test_whatever_looks_miss_no_second_of_a_queue_is_reported_twice(looks):
    emitted, at, reported = Emitted(until=SECOND), AT, {"b1": Counter(), "b2": Counter()}
    whole: Counter[int] = Counter()
    for pause, what in [*looks, (44.0, "both")]:
        at += timedelta(seconds=pause)
        one = counted(at) if what in {"both", "one"} else unread(1)
        two = counted(at, 2) if what in {"both", "two"} else unread(2)
        found, emitted = emit(seen(*(() if what == "everything" else (one, two)), at=at), emitted)
        whole.update(submitted(found))
        for biz, seconds in reported.items():
            seconds.update(submitted(found, tenant="acme", biz=biz))

    for seconds in reported.values():
        assert set(seconds.values()) <= {1}
    assert whole == reported["b1"] + reported["b2"]


def test_a_clock_that_is_set_back_by_much_begins_anew():
    counts = {SECOND - 10: 1}
    found, emitted = emit(seen(queue_key(submitted_seconds=counts)), Emitted(until=SECOND + 10_000))

    assert any(batch.metrics[0].fine for batch in found)
    assert emitted.until == SECOND - SETTLED_SECONDS
