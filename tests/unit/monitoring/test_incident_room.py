"""The choice of incidents to follow when there are more than can be followed."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.config import AlarmLimits
from tests.kit.examples import examples
from tests.kit.incidents import (
    ADVICE,
    ROOM,
    Evaluation,
    Finding,
    Incident,
    Kind,
    Life,
    NotificationState,
    Place,
    Room,
    Severity,
    Word,
    left_out,
    let_go,
    step,
    tried,
)
from tests.kit.worlds.incidents import MINUTE, START, Story, a_finding, an_evaluation

LIMITS = AlarmLimits()
#: As the stage's room, a tenth of it.
SMALL = Room(most=100, reserve=25, tenants=25, hosts=20, leaving=100)
MONGODB = a_finding(Kind.PART_DOWN, Place(part="mongodb", name="main"))
CRITICAL = [kind for kind in Kind if ADVICE[kind].severity is Severity.CRITICAL]


def storm(count: int, kind: Kind = Kind.OLDEST_WAITING, tenants: int = 10) -> list[Finding]:
    return [
        a_finding(kind, Place(tenant=f"t{number % tenants}", biz=f"b{number}"))
        for number in range(count)
    ]


def hosts(count: int) -> list[Finding]:
    return [
        a_finding(Kind.HOST_THROTTLED, Place(part="host", name=f"h{number}.example"))
        for number in range(count)
    ]


def test_a_storm_that_is_over_leaves_room_for_the_node_that_went_with_it():
    story = (
        Story(room=SMALL)
        .evaluate(*[an_evaluation(*storm(SMALL.most))] * 2)
        .evaluate(*[an_evaluation()] * 3)
    )
    assert {each.life for each in story.known.values()} == {Life.OVER}

    story.evaluate(an_evaluation(MONGODB), an_evaluation(MONGODB))

    assert story.known[MONGODB.key].life is Life.OPEN


def test_a_storm_that_is_open_leaves_it_too():
    story = Story(room=SMALL).evaluate(*[an_evaluation(*storm(2 * SMALL.most))] * 3)

    story.evaluate(*[an_evaluation(*storm(2 * SMALL.most), MONGODB)] * 2)

    assert story.known[MONGODB.key].life is Life.OPEN
    assert len(story.known) == SMALL.most - SMALL.reserve + 1


def test_more_critical_ones_than_the_reserve_take_the_places_of_warnings():
    lost = storm(SMALL.most - 1, Kind.LEDGER_DIFFERENCE)
    story = Story(room=SMALL).evaluate(*[an_evaluation(*storm(SMALL.most))] * 2)

    story.evaluate(an_evaluation(*storm(SMALL.most), *lost, MONGODB))

    followed = {key for key, each in story.known.items() if not each.displaced}
    assert {each.key for each in lost} | {MONGODB.key} == followed


def test_what_is_over_and_reported_goes_first_then_what_is_suspected_and_who_is_known_stays():
    full = SMALL.most - SMALL.reserve
    over, still, fresh, newer = (
        [a_finding(place=Place(tenant=f"{name}{n % 9}", biz=f"b{n}")) for n in range(full // 3)]
        for name in ("over", "open", "fresh", "newer")
    )
    story = (
        Story(room=SMALL)
        .evaluate(*[an_evaluation(*over, *still)] * 2)
        .evaluate(*[an_evaluation(*still)] * 3)
    )
    story.evaluate(an_evaluation(*still, *fresh))
    assert len(story.known) == full

    story.evaluate(an_evaluation(*still, *fresh, *newer))

    expected = {each.key for each in (*still, *fresh, *newer)}
    assert story.known.keys() == expected
    story.evaluate(an_evaluation(*still, *fresh, *newer, *over))
    assert story.known.keys() == expected


def test_one_tenant_and_all_hosts_have_bounds_of_their_own():
    evaluation = an_evaluation(
        *storm(ROOM.most, tenants=1), *hosts(ROOM.most), *storm(5, Kind.EXPIRED, tenants=5)
    )

    known = step({}, evaluation, START, LIMITS)

    counted = Counter(each.place.tenant or each.place.part for each in known.values())
    assert counted["t0"] == ROOM.tenants
    assert counted["host"] == ROOM.hosts
    assert all(counted[f"t{number}"] == 1 for number in range(1, 5))
    assert left_out(known, evaluation) == 2 * ROOM.most + 5 - len(known)


def of_tenant(tenant: str, count: int) -> list[Finding]:
    return [
        a_finding(Kind.HOST_THROTTLED, Place(part="host", name=f"{tenant}{number}"), met_by=tenant)
        for number in range(count)
    ]


def test_no_tenants_hosts_take_more_than_half_of_what_is_free():
    story = Story(room=SMALL).evaluate(*[an_evaluation(*of_tenant("a", 30))] * 6)
    assert len(story.known) == SMALL.hosts // 2

    story.evaluate(*[an_evaluation(*of_tenant("a", 30), *of_tenant("rival", 3))] * 6)

    counted = Counter(each.met_by for each in story.known.values())
    assert counted == {"a": SMALL.hosts // 2, "rival": 3}
    assert {each.life for each in story.known.values()} == {Life.OPEN}
    # Who is followed goes on being, whoever met it this time.
    unnamed = [replace(each, met_by="") for each in of_tenant("rival", 3)]
    story.evaluate(an_evaluation(*of_tenant("a", 30), *unnamed))
    assert Counter(each.met_by for each in story.known.values()) == counted


def test_one_that_there_is_no_room_for_is_not_open_for_ever():
    story = Story(room=SMALL).run("bb")

    gone = let_go(story.one, START + MINUTE)

    assert (gone.life, gone.over_at, gone.id) == (Life.OVER, START + MINUTE, story.one.id)
    assert gone.said.endswith(story.one.said)
    suspected = Story(room=SMALL).run("b").one
    assert let_go(suspected, START) == suspected


def displaced(*, reachable: bool) -> tuple[Story, Finding]:
    """A warning that is open and told of, and then gives way to as many critical ones as fit."""
    light = a_finding()
    story = Story(room=SMALL).evaluate(an_evaluation(light), an_evaluation(light))
    story.reachable = reachable
    return story.evaluate(an_evaluation(light, *storm(SMALL.most, Kind.LEDGER_DIFFERENCE))), light


def test_whoever_was_reported_of_one_that_there_is_no_room_for_is_reported_of_its_end():
    story, light = displaced(reachable=True)

    assert story.people == story.machines == [(2, Word.OPENED), (3, Word.RECOVERED)]
    assert story.known[light.key].life is Life.OVER
    story.evaluate(an_evaluation(light))
    assert light.key not in story.known


def test_its_end_is_owed_until_somebody_takes_it_and_it_takes_no_ones_place():
    story, light = displaced(reachable=False)
    grave = storm(SMALL.most, Kind.LEDGER_DIFFERENCE)
    first = story.known[light.key].id

    story.evaluate(*[an_evaluation(light, *grave)] * 30)
    waiting = story.known[light.key]
    assert (waiting.id, waiting.machines.owed) == (first, Word.RECOVERED)
    assert len(story.known) == SMALL.most + 1
    assert left_out(story.known, an_evaluation(light, *grave)) == 1
    story.notify()
    assert (33, Word.RECOVERED) in story.machines

    story.reachable = True
    story.evaluate(*[an_evaluation(light)] * 6)
    assert story.known[light.key].id != first
    assert story.known[light.key].life is Life.OPEN


def test_nobody_is_notified_of_the_end_of_what_nobody_was_notified_of():
    light = a_finding()
    story = Story(room=SMALL, reachable=False).evaluate(an_evaluation(light), an_evaluation(light))

    story.evaluate(an_evaluation(light, *storm(SMALL.most, Kind.LEDGER_DIFFERENCE)))

    assert light.key not in story.known


def test_who_may_have_heard_of_its_beginning_is_reported_of_its_end():
    light = a_finding()
    story = Story(room=SMALL, reachable=False).evaluate(an_evaluation(light), an_evaluation(light))
    story.known[light.key] = replace(
        story.known[light.key], machines=tried(story.known[light.key].machines)
    )

    story.evaluate(an_evaluation(light, *storm(SMALL.most, Kind.LEDGER_DIFFERENCE)))

    left = story.known[light.key]
    assert (left.people.owed, left.machines) == (None, NotificationState(owed=Word.RECOVERED))


def test_of_as_many_as_were_followed_the_end_is_reported_and_of_no_more():
    story = Story(room=SMALL).evaluate(*[an_evaluation(*storm(SMALL.most))] * 2)
    open_before = [each.id for each in story.known.values()]
    story.reachable = False

    for name in ("x", "y", "z"):
        grave = [
            a_finding(Kind.PART_DOWN, Place(part=name, name=f"n{number}"))
            for number in range(SMALL.most)
        ]
        story.evaluate(an_evaluation(*grave), an_evaluation(*grave))
        assert len(story.known) <= SMALL.most + SMALL.leaving

    assert set(open_before) <= {each.id for each in story.known.values() if each.owed}


kinds = st.sampled_from([Kind.BACKLOG, Kind.EXPIRED, Kind.HOST_THROTTLED, Kind.LATENCY])


@st.composite
def crowds(draw: st.DrawFn) -> dict[str, Incident]:
    """Up to all the incidents that can be followed, in any states."""
    known: dict[str, Incident] = {}
    for number in range(draw(st.integers(0, 8))):
        kind = draw(kinds)
        life, owed = draw(st.sampled_from(Life)), draw(st.booleans())
        tenants = draw(st.integers(1, 40))
        for one in range(draw(st.integers(0, SMALL.most // 4))):
            tenant = "" if kind in {Kind.HOST_THROTTLED, Kind.LATENCY} else f"t{one % tenants}"
            place = Place(tenant=tenant, biz=f"b{number}", part="p", name=f"n{one}")
            incident = Incident(
                id=f"{number}-{one}",
                kind=kind,
                place=place,
                life=life,
                said="x",
                value=2,
                worst=2,
                threshold=1,
                since=START,
                found_at=START,
                looked_at=START,
                opened_at=None if life is Life.SUSPECTED else START,
                over_at=START if life is Life.OVER else None,
                people=NotificationState(owed="opened") if owed else NotificationState(),
            )
            known[incident.key] = incident
    return dict(list(known.items())[: SMALL.most])


@pytest.mark.untraced
@examples(0.4)
@given(
    crowds(),
    st.lists(st.tuples(st.sampled_from(CRITICAL), st.integers(0, 50)), unique=True, max_size=60),
    st.booleans(),
)
def test_a_critical_finding_is_always_followed(known, grave, goes_on):
    found = [a_finding(kind, Place(part="part", name=f"n{number}")) for kind, number in grave]
    light = [
        Finding(kind=each.kind, place=each.place, value=2, threshold=1, said="x")
        for each in known.values()
        if goes_on
    ]
    evaluation = Evaluation(findings=(*light, *storm(SMALL.most), *found))

    for minute in range(1, 6):
        known = step(known, evaluation, START + minute * MINUTE, LIMITS, SMALL)
        assert {each.key for each in found} <= known.keys()
        assert len(known) <= SMALL.most

    assert all(known[each.key].life is Life.OPEN for each in found)
