"""A reader's side of a hold: it reads only while nobody else can."""

from tests.kit.streams import DRIFT, KEEP_SECONDS, LEASE_SECONDS, ReaderHold

READS = LEASE_SECONDS * (1 - DRIFT)


def held(at=0.0):
    hold = ReaderHold()
    hold.offered(7)
    hold.ask(at)
    hold.answered(7, at, is_kept=True)
    return hold


def test_an_offer_is_read_only_when_it_is_acknowledged():
    hold = ReaderHold()
    assert (hold.is_due(0), hold.ask(0), hold.may_read(0)) == (False, None, False)

    hold.offered(7)
    assert (hold.is_due(0), hold.may_read(0)) == (True, False)
    assert hold.ask(0) == 7
    assert not hold.may_read(0)

    hold.answered(7, 0, is_kept=True)
    assert hold.may_read(READS - 0.001)
    assert not hold.may_read(READS)


def test_a_hold_is_kept_again_and_again():
    hold = held()

    assert not hold.is_due(KEEP_SECONDS - 0.001)
    assert hold.is_due(KEEP_SECONDS)
    assert hold.ask(1.0) == 7
    hold.answered(7, 1.0, is_kept=True)
    assert hold.may_read(1.0 + READS - 0.001)


def test_a_late_answer_counts_from_when_it_was_asked_for():
    hold = held(1.0)

    hold.answered(7, 0.0, is_kept=True)

    assert hold.may_read(1.0 + READS - 0.001)
    assert not hold.may_read(1.0 + READS)


def test_who_is_refused_stops_at_once():
    hold = held()

    hold.answered(7, 0.5, is_kept=False)

    assert not hold.may_read(0.5)
    assert hold.ask(0.5) is None


def test_answers_to_another_hold_change_nothing():
    hold = held()

    hold.answered(6, 0.5, is_kept=False)
    hold.answered(8, 0.5, is_kept=True)

    assert hold.may_read(0.5)
    assert not hold.may_read(READS)


def test_whose_time_is_over_asks_no_more():
    hold = held()

    assert hold.ask(READS) is None
    assert hold.fence is None
