"""Streams that are silent, late or refuse their secret, and receivers that take nothing."""

from datetime import timedelta

import pytest

from tests.kit.incidents import STREAM_KINDS, Kind, evaluate
from tests.kit.monitoring import ReceiverSample, StreamSample, StreamsSample
from tests.kit.worlds.incidents import START
from tests.kit.worlds.samples import a_sample, a_tree, kinds, the

MINUTE = timedelta(minutes=1)


def found(**streams):
    return evaluate(a_sample(streams=StreamsSample(**streams)), None, a_tree())


def a_channel(**changes):
    facts = {"name": "wire", "item_at": START - MINUTE, "silent_at": START + MINUTE}
    return StreamSample(**{**facts, **changes})


def a_receiver(tenant="acme", minutes=5, target="sqs items"):
    since = START - minutes * MINUTE
    return ReceiverSample(tenant=tenant, target=target, failing_since=since, error="AccessDenied")


def test_where_streams_are_well_nothing_is_found():
    assert not kinds(found(sources=(a_channel(), a_channel(name="new", item_at=None))))


@pytest.mark.parametrize(("seconds", "is_silent"), [(0, False), (-1, True)])
def test_a_channel_is_silent_when_its_own_gaps_are_over(seconds, is_silent):
    silent_at = START + timedelta(seconds=seconds)
    evaluation = found(sources=(a_channel(item_at=START - 60 * MINUTE, silent_at=silent_at),))

    assert (Kind.STREAM_SILENT in kinds(evaluation)) is is_silent
    if is_silent:
        finding = the(evaluation, Kind.STREAM_SILENT)
        assert (str(finding.place), finding.value) == ("stream wire", 3_600)


def test_silent_feeds_are_one_finding_that_names_some():
    finding = the(
        found(silent_feeds=tuple(f"https://{n}.example/feed" for n in range(7))),
        Kind.STREAM_SILENT,
    )

    assert (str(finding.place), finding.value) == ("stream feeds", 7)
    assert "https://4.example/feed; and 2 more" in finding.said


@pytest.mark.parametrize(
    ("lag", "minutes", "is_late"),
    [(None, 1, False), (300.0, 1, False), (301.0, 1, True), (301.0, 15, True), (301.0, 16, False)],
)
def test_a_channel_is_late_by_its_latest_items_alone(lag, minutes, is_late):
    evaluation = found(sources=(a_channel(lag_p95_seconds=lag, item_at=START - minutes * MINUTE),))

    assert (Kind.STREAM_LATE in kinds(evaluation)) is is_late


def test_a_refused_secret_is_told_with_what_the_channel_said():
    finding = the(
        found(sources=(a_channel(refused=True, last_fault="answered 401\nno", item_at=None),)),
        Kind.STREAM_REFUSED,
    )

    assert finding.said == "it refuses the secret: answered 401 no"


def test_receivers_that_fail_are_one_finding_for_each_tenant():
    evaluation = found(
        receivers=(
            *(a_receiver(target=f"sqs {n}") for n in range(6)),
            a_receiver("rival"),
            a_receiver("fine", minutes=4),
        )
    )

    findings = [one for one in evaluation.findings if one.kind is Kind.RECEIVER_FAILS]
    assert [(str(one.place), one.value) for one in findings] == [
        ("tenant acme", 6),
        ("tenant rival", 1),
    ]
    assert findings[0].said.endswith("; and 1 more")
    assert "AccessDenied" in findings[1].said


@pytest.mark.parametrize(("streams", "is_seen"), [(StreamsSample(), True), (None, False)])
def test_where_streams_could_not_be_read_no_incident_of_them_ends(streams, is_seen):
    evaluation = evaluate(a_sample(streams=streams), None, a_tree())

    assert evaluation.unseen.isdisjoint(STREAM_KINDS) is is_seen
