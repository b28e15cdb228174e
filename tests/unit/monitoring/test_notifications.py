from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.config import AlarmLimits
from tests.kit.incidents import (
    CHUNK,
    Kind,
    Listener,
    NotificationState,
    Place,
    Sent,
    Severity,
    Word,
    after_notification,
    bulletins,
    notifications,
)
from tests.kit.worlds.incidents import MINUTE, START, an_incident

LIMITS = AlarmLimits(singly=3, messages_an_hour=5, digest_seconds=300)


def test_a_few_incidents_are_a_message_each_the_gravest_first():
    down = an_incident(1, "", kind=Kind.PART_DOWN, place=Place(part="redis", name="redis"))

    sendings = notifications([an_incident(0), down], Sent(), START, LIMITS)

    assert [each.incidents for each in sendings] == [(down,), (an_incident(0),)]
    assert not any(each.sums_up for each in sendings)


def test_a_storm_is_one_message_about_all_of_it():
    storm = [an_incident(n) for n in range(400)]

    [sending] = notifications(storm, Sent(), START, LIMITS)

    assert sending.sums_up
    assert len(sending.incidents) == 400


def test_what_comes_while_a_storm_lasts_waits_for_the_next_sum():
    before = after_notification(Sent(), START, sums_up=True)
    more = [an_incident(n) for n in range(4)]

    assert notifications(more, before, START + 4 * MINUTE, LIMITS) == []
    [sending] = notifications(more, before, START + 5 * MINUTE, LIMITS)
    assert len(sending.incidents) == 4


def test_a_full_hour_sums_up_even_one():
    before = Sent(sent_at=(START,) * 5)

    [sending] = notifications([an_incident(0)], before, START + MINUTE, LIMITS)
    later = notifications([an_incident(0)], before, START + timedelta(hours=1), LIMITS)

    assert sending.sums_up
    assert [each.sums_up for each in later] == [False]


def test_who_is_owed_nothing_gets_nothing():
    quiet = an_incident(
        0,
        people=NotificationState(notified=Word.OPENED),
        machines=NotificationState(notified=Word.OPENED),
    )

    assert notifications([quiet], Sent(), START, LIMITS) == []
    assert list(bulletins([quiet])) == []


def test_phones_have_a_measure_of_their_own():
    owing = {"phones": NotificationState(owed=Word.OPENED), "people": NotificationState()}
    grave = [an_incident(n, kind=Kind.STORAGE, **owing) for n in range(4)]

    assert notifications(grave, Sent(), START, LIMITS) == []
    [sending] = notifications(grave, Sent(), START, LIMITS, Listener.PHONES)
    assert (len(sending.incidents), sending.sums_up) == (4, True)


def test_machines_get_each_tenants_by_itself_in_pieces():
    storm = [an_incident(n) for n in range(CHUNK + 1)] + [an_incident(n, "rival") for n in range(2)]

    found = list(bulletins(storm))

    assert sorted(len(each) for each in found) == [1, 2, CHUNK]
    assert all(len({incident.place.tenant for incident in each}) == 1 for each in found)
    assert sum(len(each) for each in found) == len(storm)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=180), st.integers(1, 6), st.integers(1, 9))
def test_people_never_get_more_than_the_hour_allows_and_nothing_is_left_out(new, singly, an_hour):
    limits = AlarmLimits(singly=singly, messages_an_hour=an_hour, digest_seconds=300)
    before, owed, heard, number, sent = Sent(), [], set(), 0, []
    for minute, count in enumerate([*new, *[0] * 6]):
        now = START + minute * MINUTE
        owed += [an_incident(number + n) for n in range(count)]
        number += count
        for sending in notifications(owed, before, now, limits):
            heard |= {each.id for each in sending.incidents}
            owed = [each for each in owed if each.id not in heard]
            before = after_notification(before, now, sums_up=sending.sums_up)
            sent.append(minute)

    assert len(heard) == number
    for minute in sent:
        lately = sum(minute - 60 < each <= minute for each in sent)
        assert lately <= an_hour + 60 // 5
    assert len(before.sent_at) <= an_hour


def test_severity_decides_before_age():
    old = an_incident(0, since=START - timedelta(days=1))
    grave = replace(old, kind=Kind.STORAGE, place=Place(part="mongodb", name="main"), since=START)

    assert grave.severity is Severity.CRITICAL
    assert [each.incidents[0] for each in notifications([old, grave], Sent(), START, LIMITS)] == [
        grave,
        old,
    ]
