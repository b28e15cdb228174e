"""Findings of a part are the same in incidents, `NodeHealthy`, `problem` and the doctor."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import FigureName, Thresholds
from tests.kit.incidents import (
    Kind,
    judged_figures,
    key_of,
    part_findings,
    part_place,
    unknown_of_part,
)
from tests.kit.kernel import metric_names as names
from tests.kit.monitoring import judged, unwatched
from tests.kit.queue import NodeHealth

TWO = Thresholds(redis_replicas=2)


def redis(name: str = "redis", **figures: float) -> NodeHealth:
    return NodeHealth(part="redis", name=name, up=True, figures=figures)


def found(part: NodeHealth, thresholds: Thresholds) -> list[tuple[Kind, float, str]]:
    return [(one.kind, one.value, one.said) for one in part_findings(part, None, thresholds)]


# ---- replicas of Redis ---------------------------------------------------------------------------


def test_a_redis_that_lost_replicas_is_found_where_so_many_are_expected():
    gone = [(Kind.REPLICA_UNWELL, 1, "1 of its 2 replicas is gone")]
    assert found(redis(Replicas=1, LinkDown=0), TWO) == gone
    both = [(Kind.REPLICA_UNWELL, 2, "2 of its 2 replicas are gone")]
    assert found(redis(Replicas=0, LinkDown=0), TWO) == both


@pytest.mark.parametrize(
    ("replicas", "thresholds"),
    [(2, TWO), (3, TWO), (0, Thresholds())],
    ids=["all are there", "more than expected", "nobody said how many"],
)
def test_as_many_replicas_as_expected_are_well(replicas, thresholds):
    assert found(redis(Replicas=replicas, LinkDown=0), thresholds) == []


def test_each_node_of_a_cluster_has_its_own_replicas():
    nodes = [redis("10.0.0.1:6379", Replicas=2), redis("10.0.0.2:6379", Replicas=1)]

    places = [one.place.name for node in nodes for one in part_findings(node, None, TWO)]

    assert places == ["10.0.0.2:6379"]


def test_a_replica_without_its_primary_is_found_once():
    [(kind, _, said)] = found(redis(Replicas=0, LinkDown=1), TWO)

    assert kind is Kind.REPLICA_UNWELL
    assert "the primary" in said


def test_replicas_that_nobody_could_count_are_neither_well_nor_gone():
    blind = redis(LinkDown=0)

    assert found(blind, TWO) == []
    key = key_of(Kind.REPLICA_UNWELL, part_place(blind))
    assert key in set(unknown_of_part(redis(), None))


# ---- figures that could not be read --------------------------------------------------------------


def test_figures_that_alarms_need_and_nobody_may_read_are_named_with_the_reason():
    refused = "our user has not the right to ask: clusterMonitor has it"
    blind = NodeHealth(
        part="mongodb",
        name="main",
        up=True,
        figures={names.LATENCY: 0.001},
        missing=dict.fromkeys((names.LAG_SECONDS, names.MEMBERS_UNWELL, names.MEMBERS), refused)
        | {names.STORAGE_BYTES: "no answer"},
        unread=(names.LAG_SECONDS, names.MEMBERS, names.MEMBERS_UNWELL, names.STORAGE_BYTES),
    )

    reported = [(one.what, one.why) for one in unwatched(blind)]

    assert reported == [
        ("figures of mongodb main: LagSeconds, MembersUnwell", refused),
        ("figures of mongodb main: StorageBytes", "no answer"),
    ]

    borne = ("MembersUnwell", "LagSeconds")
    assert [one.what for one in unwatched(blind, borne)] == [
        "figures of mongodb main: StorageBytes"
    ]


def test_whatever_a_finding_needs_can_be_named_as_borne_with():
    every = judged_figures("redis") | judged_figures("mongodb")

    assert every == set(get_args(FigureName))


def test_what_a_server_does_not_have_is_nothing_that_could_not_be_read():
    alone = NodeHealth(
        part="mongodb",
        name="main",
        up=True,
        missing={names.LAG_SECONDS: "the node is in no replica set"},
    )

    assert list(unwatched(alone)) == []


def test_of_a_part_that_is_down_it_is_reported_that_it_is_and_no_more():
    down = NodeHealth(
        part="redis",
        name="redis",
        up=False,
        error="x",
        missing={names.REPLICAS: "x"},
        unread=(names.REPLICAS,),
    )

    assert list(unwatched(down)) == []


# ---- one judge -----------------------------------------------------------------------------------


@given(
    part=st.sampled_from(["redis", "mongodb"]),
    figures=st.dictionaries(
        st.sampled_from(sorted({*names.REDIS, *names.NODE})),
        st.sampled_from([0.0, 0.5, 0.9, 1.0, 101.0, 1e12]),
    ),
    before=st.none() | st.just({names.EVICTED_KEYS: 0.0}),
    replicas=st.sampled_from([0, 1]),
)
def test_a_part_has_a_problem_where_something_is_found_and_nowhere_else(
    part, figures, before, replicas
):
    look = NodeHealth(part=part, name="x", up=True, figures=figures)
    earlier = None if before is None else NodeHealth(part=part, name="x", up=True, figures=before)
    thresholds = Thresholds(redis_replicas=replicas)

    seen = judged(look, earlier, thresholds)

    said = [one.said for one in part_findings(look, earlier, thresholds)]
    assert seen.error == ("; ".join(said) or None)
    assert (seen.figures, seen.up) == (figures, True)


def test_what_keeps_a_part_down_stays_as_it_was_said():
    down = NodeHealth(part="redis", name="redis", up=False, error="no answer")

    assert judged(down, None, Thresholds()) == down
