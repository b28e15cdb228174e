"""A scheduler that is silent, or fails in part, is found, and says of what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import Thresholds
from tests.kit.fleet import Ticked, TickPart
from tests.kit.incidents import (
    SCHEDULER,
    Kind,
    Place,
    evaluate,
    faults_in_words,
    key_of,
    tick_findings,
)
from tests.kit.worlds.samples import a_sample, a_tree, kinds, the

THRESHOLDS = Thresholds(tick_silent_seconds=180, tick_faults=0)


def found(**facts: object) -> list[str]:
    return [each.said for each in tick_findings(Ticked(**facts), THRESHOLDS)]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"seconds_ago": 30.0}, []),
        ({"seconds_ago": 180.0}, []),
        ({"seconds_ago": 181.0}, ["the last tick ended 3 min ago, longer than 3 min"]),
        ({}, []),
        ({"awaited_seconds": 180.0}, []),
        (
            {"awaited_seconds": 7_200.0},
            ["no tick of it is known, and one is asked for since 2 h"],
        ),
        (
            {"seconds_ago": 5.0, "faults": {"schedules": 3, "scaling": 1}},
            ["of the last tick failed: schedules (3), scaling (1)"],
        ),
        (
            {"seconds_ago": 7_200.0, "faults": {"schedules": 3}},
            ["the last tick ended 2 h ago, longer than 3 min"],
        ),
    ],
    ids=[
        "well",
        "just in time",
        "silent",
        "none yet",
        "none in time",
        "never",
        "faults",
        "silent after faults",
    ],
)
def test_a_tick_is_found_wanting_by_its_age_or_by_its_faults(facts, said):
    assert found(**facts) == said


def test_faults_that_somebody_bears_with_are_not_found():
    thresholds = Thresholds(tick_faults=3)

    assert not list(tick_findings(Ticked(seconds_ago=1.0, faults={"seeds": 3}), thresholds))
    [finding] = tick_findings(Ticked(seconds_ago=1.0, faults={"seeds": 4}), thresholds)
    assert (finding.value, finding.threshold) == (4, 3)


def test_an_evaluation_has_it_as_a_finding_of_the_scheduler():
    evaluation = evaluate(a_sample(ticked=Ticked(seconds_ago=600.0)), None, a_tree())

    assert the(evaluation, Kind.SCHEDULER_FAULTS).place == SCHEDULER == Place(part="scheduler")
    assert Kind.SCHEDULER_FAULTS not in kinds(
        evaluate(a_sample(ticked=Ticked(seconds_ago=1.0)), None, a_tree())
    )


@pytest.mark.parametrize("ticked", [None, Ticked()], ids=["not read", "none yet"])
def test_where_it_was_not_read_or_may_still_come_nobody_knows(ticked):
    evaluation = evaluate(a_sample(ticked=ticked), None, a_tree())

    assert key_of(Kind.SCHEDULER_FAULTS, SCHEDULER) in evaluation.unknown
    assert Kind.SCHEDULER_FAULTS not in kinds(evaluation)


ticks = st.builds(
    Ticked,
    seconds_ago=st.none() | st.floats(0, 1e6),
    awaited_seconds=st.floats(0, 1e6),
    faults=st.dictionaries(st.sampled_from([part.value for part in TickPart]), st.integers(1, 99)),
)


@given(ticks, st.floats(1, 1e5), st.integers(0, 100))
def test_there_is_one_finding_at_most_and_it_is_beyond_its_threshold(ticked, silent, most):
    thresholds = Thresholds(tick_silent_seconds=silent, tick_faults=most)

    findings = list(tick_findings(ticked, thresholds))

    known = ticked.seconds_ago is not None
    silence = ticked.seconds_ago if known else ticked.awaited_seconds
    assert len(findings) == (silence > silent or (known and sum(ticked.faults.values()) > most))
    for finding in findings:
        assert finding.value > finding.threshold
        assert finding.said


def test_faults_of_others_are_said_in_plain_words_and_bounded():
    said = faults_in_words({f"p\x1b[31m{n}": n for n in range(1, 100)})

    assert "\x1b" not in said
    assert said.endswith("and 91 more")
