"""Hosts that ask for less, that fail, that are slow: by many answers, by few, by none."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.config import Thresholds
from tests.kit.incidents import IN_A_ROW, Kind, Place, host_findings, key_of, unknown_of_host
from tests.kit.monitoring import HostSample
from tests.kit.worlds.incidents import MINUTE, START

THRESHOLDS = Thresholds(throttled_share=0.2, throttled_answers=20)
KEY = key_of(Kind.HOST_THROTTLED, Place(part="host", name="shop.example"))
FAILING = key_of(Kind.HOST_FAILING, Place(part="host", name="shop.example"))
SLOW = key_of(Kind.HOST_SLOW, Place(part="host", name="shop.example"))
FOUND, UNKNOWN, WELL = "found", "unknown", "well"


def a_host(**changes: object) -> HostSample:
    return HostSample(host="shop.example", **changes)


def judged(host: HostSample, thresholds: Thresholds = THRESHOLDS, key: str = KEY) -> str:
    findings = {each.key for each in host_findings(host, thresholds)}
    unknown = set(unknown_of_host(host, thresholds))
    assert not findings & unknown
    assert findings | unknown <= {KEY, FAILING, SLOW}
    if key in findings:
        return FOUND
    return UNKNOWN if key in unknown else WELL


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [
        ({"strained": 19}, WELL),
        ({"answered": 30, "strained": 10}, FOUND),
        ({"answered": 90, "strained": 10}, WELL),
        ({"answered": 90, "strained": 10, "throttled": True, "strain": 1}, UNKNOWN),
        ({"strained": 1, "throttled": True, "strain": 1}, UNKNOWN),
        ({"strained": 3, "throttled": True, "strain": IN_A_ROW}, FOUND),
        ({"throttled": True, "strain": 9, "backing_off_until": START}, FOUND),
        ({"throttled": True, "strain": 9, "deferred": 3}, FOUND),
        ({"throttled": True, "strain": 9}, UNKNOWN),
        ({"answered": 9, "strained": 1, "throttled": True, "strain": 5}, UNKNOWN),
        ({}, WELL),
    ],
    ids=[
        "few answers",
        "many answers, too many of them strained",
        "many answers, few strained",
        "not trusted again yet",
        "one refusal",
        "a few refusals in a row",
        "left alone: nothing was asked",
        "others wait for it",
        "nobody wants anything of it",
        "it has begun to answer",
        "nothing is known",
    ],
)
def test_a_host_is_judged_by_its_answers_or_by_what_it_refused_in_a_row(facts, verdict):
    assert judged(a_host(**facts)) == verdict


def test_a_host_says_until_when_it_is_left_alone_and_what_waits():
    many = a_host(answered=30, strained=10, deferred=5, backing_off_until=START + MINUTE)
    [finding] = host_findings(many, THRESHOLDS)

    assert finding.place == Place(part="host", name="shop.example")
    assert finding.value == 0.25
    assert "12:01:00 UTC" in finding.said
    assert "5 requests wait" in finding.said
    [finding] = host_findings(a_host(strain=7, backing_off_until=START), THRESHOLDS)
    assert "last 7 answers" in finding.said


hosts = st.builds(
    HostSample,
    host=st.just("shop.example"),
    answered=st.integers(0, 60),
    strained=st.integers(0, 60),
    strain=st.integers(0, 32),
    deferred=st.integers(0, 5),
    backing_off_until=st.none() | st.just(START + timedelta(hours=1)),
    throttled=st.booleans(),
)


@given(hosts, st.floats(0.01, 1.0))
def test_what_is_left_alone_or_not_trusted_is_never_taken_to_be_well(host, share):
    verdict = judged(host, Thresholds(throttled_share=share))

    if host.throttled or host.strain or host.backing_off_until:
        assert verdict != WELL
    for finding in host_findings(host, Thresholds(throttled_share=share)):
        assert finding.value > finding.threshold


ANSWERS = Thresholds(failing_share=0.5, host_latency_seconds=2.0, host_answers=10)


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [
        ({"answered": 10, "failed": 10}, FOUND),
        ({"answered": 100, "failed": 51}, FOUND),
        ({"answered": 100, "failed": 50}, WELL),
        ({"answered": 9, "failed": 9}, UNKNOWN),
        ({"answered": 9, "failed": 4}, WELL),
        ({"answered": 10, "failed": 10, "strained": 10}, WELL),
        ({"answered": 1, "failed": 1, "strained": 1}, WELL),
        ({"strained": 100}, WELL),
        ({}, WELL),
    ],
    ids=[
        "each answer failed",
        "more than the share failed",
        "the share failed",
        "all of too few failed",
        "few of too few failed",
        "as many ask for less",
        "one of two of too few failed",
        "it asks for less and does not fail",
        "nothing is known",
    ],
)
def test_a_host_fails_by_the_share_of_enough_answers(facts, verdict):
    assert judged(a_host(**facts), ANSWERS, FAILING) == verdict


def test_a_host_that_answers_500_to_everything_is_found_by_default_and_says_how_bad_it_is():
    host = a_host(answered=60, failed=60, latency_seconds=0.2, deferred=5)

    [finding] = host_findings(host, Thresholds())

    assert (finding.kind, finding.place.name) == (Kind.HOST_FAILING, "shop.example")
    assert (finding.value, finding.threshold) == (1.0, Thresholds().failing_share)
    assert "100% of 60 answers" in finding.said
    assert "5 requests wait" in finding.said


@pytest.mark.parametrize(
    ("facts", "limit", "verdict"),
    [
        ({"answered": 10, "latency_seconds": 2.5}, 2.0, FOUND),
        ({"answered": 10, "latency_seconds": 2.0}, 2.0, WELL),
        ({"answered": 9, "latency_seconds": 2.5}, 2.0, UNKNOWN),
        ({"strained": 50}, 2.0, WELL),
        ({"answered": 1_000, "latency_seconds": 900.0}, None, WELL),
    ],
    ids=["slow", "as slow as it may be", "too few answers", "no answers", "nobody minds"],
)
def test_a_host_is_slow_only_where_somebody_has_said_what_slow_is(facts, limit, verdict):
    thresholds = replace(ANSWERS, host_latency_seconds=limit)

    assert judged(a_host(**facts), thresholds, SLOW) == verdict


def test_by_default_nobody_minds_how_long_a_host_takes():
    assert Thresholds().host_latency_seconds is None


def test_a_slow_host_says_how_long_it_takes():
    [finding] = host_findings(a_host(answered=60, latency_seconds=2.5), ANSWERS)

    assert "took 2.5 s on average" in finding.said


counts = st.builds(
    lambda answered, failed, strained, latency: a_host(
        answered=answered,
        failed=min(answered, failed),
        strained=strained,
        latency_seconds=latency if answered else None,
    ),
    *(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.floats(0, 100)),
)


@given(counts, st.floats(0.01, 1.0), st.none() | st.floats(0.001, 100), st.integers(1, 50))
def test_what_is_found_is_beyond_its_threshold_and_of_enough_answers(host, share, limit, least):
    thresholds = Thresholds(failing_share=share, host_latency_seconds=limit, host_answers=least)

    for key in (FAILING, SLOW):
        if judged(host, thresholds, key) == FOUND:
            assert host.asked >= least
    for finding in host_findings(host, thresholds):
        assert finding.value > finding.threshold
