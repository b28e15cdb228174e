from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.config import AlarmLimits
from tests.kit.incidents import (
    ADVICE,
    RISING,
    Evaluation,
    Kind,
    Life,
    NotificationState,
    Place,
    Severity,
    Word,
    calm_wanted,
    latest,
    pause,
    tried,
)
from tests.kit.worlds.incidents import (
    BAD,
    BLIND,
    DOCS,
    EVALUATIONS,
    GOOD,
    LIMITS,
    MINUTE,
    START,
    Story,
    a_finding,
    an_evaluation,
)


def test_one_bad_evaluation_says_nothing():
    story = Story().run("bgbgbg")

    assert (story.people, story.machines, story.known) == ([], [], {})


def test_it_opens_after_two_evaluations_with_one_message_and_ends_after_three_with_one_more():
    story = Story().run("bbbb" + "ggg")

    assert story.people == [(2, Word.OPENED), (7, Word.RECOVERED)]
    assert story.machines == story.people
    assert story.one.life is Life.OVER
    assert story.one.since == START + MINUTE


def test_a_kind_that_asks_for_more_evaluations_gets_them():
    finding = a_finding(Kind.LEDGER_DIFFERENCE)
    story = Story().evaluate(*[an_evaluation(finding)] * 4)
    assert story.people == []

    story.evaluate(an_evaluation(finding))

    assert story.people == [(5, Word.OPENED)]


@pytest.mark.parametrize("kind", sorted(RISING))
def test_what_rises_within_one_evaluation_is_reported_at_once_and_its_end_as_that_of_others(kind):
    finding = a_finding(kind)
    story = Story().evaluate(an_evaluation(finding), *[an_evaluation()] * 3)

    assert story.people == story.machines == [(1, Word.OPENED), (4, Word.RECOVERED)]


def test_reminders_come_to_people_at_growing_pauses_and_to_no_machine():
    story = Story().run("b" * (16 * 60))

    minutes = [minute for minute, word in story.people if word is Word.REMINDER]
    assert minutes == [2 + 60, 2 + 60 + 120, 2 + 60 + 120 + 240, 2 + 60 + 120 + 240 + 480]
    assert story.machines == [(2, Word.OPENED)]


def test_what_cannot_be_seen_is_neither_over_nor_confirmed():
    story = Story().run("bb" + "?" * 30)
    assert story.one.life is Life.OPEN
    assert story.one.good == 0
    assert story.people == [(2, Word.OPENED)]

    story.run("gg?g")

    assert story.people[-1] == (36, Word.RECOVERED)


def test_a_kind_that_nothing_was_seen_of_stays_as_it_is():
    story = Story().run("bb")

    story.evaluate(*[Evaluation(unseen=frozenset({Kind.BACKLOG}))] * 9)

    assert story.one.life is Life.OPEN


def test_what_comes_back_within_the_hour_is_the_same_incident_and_ends_later():
    story = Story().run("bbggg")
    first = story.one.id

    story.run("bb" + "ggg")
    assert (story.one.id, story.one.returns, story.one.life) == (first, 1, Life.OPEN)
    story.run("ggg")

    assert story.one.life is Life.OVER
    assert [word for _, word in story.people] == [Word.OPENED, Word.RECOVERED] * 2


def test_what_stays_away_for_an_hour_is_forgotten_and_would_be_another_incident():
    story = Story().run("bbggg" + "g" * 59)
    first = story.one.id
    assert story.run("g").known == {}

    story.run("bb")

    assert story.one.id != first
    assert story.one.returns == 0


def test_what_flaps_all_day_soon_just_stays_open():
    story = Story().run("bbbgggg" * 205)  # a day

    opened = [minute for minute, word in story.people if word is Word.OPENED]
    assert len(opened) == 2
    assert len(story.people) < 12
    assert story.one.life is Life.OPEN


def test_its_end_before_anybody_heard_of_it_is_one_message():
    story = Story(reachable=False).run("bbbggg")
    assert story.one.people == NotificationState(owed=Word.RECOVERED)

    story.notify()

    assert story.people == story.machines == [(6, Word.RECOVERED)]


def test_its_return_before_its_end_was_reported_is_none():
    story = Story().run("bb")
    story.reachable = False
    story.run("ggg" + "bb")

    assert story.one.life is Life.OPEN
    assert (story.one.people.owed, story.one.machines.owed) == (None, None)


def test_its_return_is_reported_where_its_end_may_have_been_heard():
    story = Story().run("bb")
    story.reachable = False
    story.run("ggg")
    heard = tried(story.one.people)
    story.known = {story.one.key: replace(story.one, people=heard)}

    story.run("bb")

    assert story.one.people == replace(heard, owed=Word.OPENED, tried=False)
    assert story.one.machines.owed is None


def test_phones_hear_of_what_is_critical_all_that_people_do_and_of_nothing_else():
    down = a_finding(Kind.PART_DOWN, Place(part="redis", name="redis"))
    story = Story()
    for _ in range(200):
        story.evaluate(an_evaluation(down))
    story.evaluate(*[an_evaluation()] * 9)

    assert story.phones == story.people
    assert {word for _, word in story.phones} == set(Word)
    assert Story().run("bb" + "b" * 200 + "g" * 9).phones == []


def test_what_is_over_but_unreported_is_kept_for_as_long_as_it_takes():
    story = Story(reachable=False).run("bbggg" + "g" * 500)

    assert story.one.owed
    story.notify()
    assert story.run("g").known == {}


def test_the_worst_is_remembered_and_the_latest_is_said():
    story = Story().evaluate(
        an_evaluation(a_finding(value=20.0)),
        an_evaluation(a_finding(value=90.0)),
        an_evaluation(a_finding(value=30.0, said="30 wait")),
    )

    assert (story.one.value, story.one.worst, story.one.said) == (30.0, 90.0, "30 wait")


def test_the_later_of_two_memories_counts_and_mine_at_a_tie():
    story = Story().run("bb")
    mine, theirs = replace(story.one, said="mine"), replace(story.one, said="theirs")
    newer = replace(theirs, looked_at=theirs.looked_at + MINUTE)

    assert latest([mine], [theirs])[mine.key].said == "mine"
    assert latest([mine], [newer])[mine.key].said == "theirs"
    assert latest([], [theirs]) == {theirs.key: theirs}


def test_every_kind_has_advice_and_no_title_is_another_ones():
    titles = [(ADVICE[kind].title, kind in {Kind.MEMORY, Kind.REDIS_MEMORY}) for kind in Kind]

    assert all(ADVICE[kind].do for kind in Kind)
    assert len({title for title, twice in titles if not twice}) == len(Kind) - 2
    assert any(ADVICE[kind].severity is Severity.CRITICAL for kind in Kind)


limits = st.builds(
    AlarmLimits,
    bad_looks=st.integers(1, 4),
    good_looks=st.integers(1, 4),
    most_good_looks=st.integers(1, 20),
    flap_seconds=st.sampled_from([60.0, 600.0, 3600.0]),
    reminder_seconds=st.sampled_from([60.0, 300.0]),
    most_reminder_seconds=st.sampled_from([60.0, 1200.0]),
)
histories = st.text(alphabet=[BAD, GOOD, BLIND], max_size=120)


@given(limits, histories)
def test_words_alternate_and_say_what_is(given_limits, history):
    story = Story(given_limits)
    for sign in history:
        before = len(story.people)
        story.run(sign)
        for _, word in story.people[before:]:
            assert (word is Word.RECOVERED) == (story.one.life is Life.OVER)

    words = [word for _, word in story.people if word is not Word.REMINDER]
    assert words == [Word.OPENED, Word.RECOVERED] * (len(words) // 2) + [Word.OPENED] * (
        len(words) % 2
    )
    assert [word for _, word in story.machines] == words
    if story.known:
        assert (story.one.life is Life.OPEN) == bool(words and words[-1] is Word.OPENED)


@given(limits, histories, st.lists(st.integers(0, 120), max_size=6))
def test_whenever_messages_pass_again_all_that_is_open_is_known_to_be(
    given_limits, history, reachable_at
):
    story = Story(given_limits, reachable=False)
    for minute, sign in enumerate(history):
        story.run(sign)
        if minute in reachable_at:
            story.notify()
    story.notify()

    words = [word for _, word in story.people]
    for earlier, later in pairwise(words):
        assert (earlier, later) != (Word.OPENED, Word.OPENED)
        assert (earlier, later) not in {
            (Word.RECOVERED, Word.REMINDER),
            (Word.REMINDER, Word.OPENED),
        }
    for incident in story.known.values():
        heard_open = incident.people.notified in {Word.OPENED, Word.REMINDER}
        assert heard_open == (incident.life is Life.OPEN)


@given(limits, st.integers(1, 6), st.integers(1, 6))
def test_flapping_is_reported_of_ever_more_seldom(given_limits, bad, good):
    hours = 10
    evaluations = ("b" * bad + "g" * good) * (hours * 60 // (bad + good))
    story = Story(replace(given_limits, flap_seconds=3600.0)).run(evaluations)

    ends = sum(word is Word.RECOVERED for _, word in story.people)
    longest = max(given_limits.good_looks, given_limits.most_good_looks)
    if good < longest:
        assert ends <= 6  # 1, 2, 4, 8 ... looks: a few doublings, and it stays open
    assert calm_wanted(story.one, given_limits) <= longest if story.known else True


@given(histories)
def test_what_one_tenants_biz_does_changes_nothing_for_anothers(history):
    other = Place(tenant="rival", biz="docs")
    alone, together = Story(), Story()
    for sign in history:
        alone.run(sign)
        evaluation = EVALUATIONS[sign]
        theirs = a_finding(place=other)
        together.evaluate(
            Evaluation(findings=(*evaluation.findings, theirs), unknown=evaluation.unknown)
        )

    mine = {key: each for key, each in together.known.items() if each.place == DOCS}
    assert mine == alone.known


def test_a_pause_never_overflows():
    assert pause(10_000, LIMITS) == timedelta(days=1)
