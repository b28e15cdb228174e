"""The snapshot of a revision: one call reads it, and what is done where it is not to be had."""

import json

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.config_documents import biz, texts
from tests.contract.ssm_cases import (
    ROOT,
    Clock,
    CountedSsm,
    forget_snapshot,
    large,
    push,
    put,
    reader,
    slots,
)
from tests.kit.config import (
    MAX_PARAMETER_BYTES,
    MAX_PAUSE_SECONDS,
    POLL_SECONDS,
    SsmConfig,
    write_tree,
)
from tests.kit.kernel import StoreUnavailableError


@pytest.fixture
def ssm(aws):
    return CountedSsm(boto3.client("ssm"))


@pytest.fixture
def clock():
    return Clock()


def throttled():
    error = {"Code": "ThrottlingException", "Message": "Rate exceeded"}
    raise ClientError({"Error": error}, "GetParameters")


def many(count=12, **changes):
    bizs = {f"bizs__default__b{n}": biz(collection=f"c{n}", **changes) for n in range(count)}
    return texts(**bizs, bizs__default__shop=large(), tenants__acme={"api_keys": ["k"]})


def test_a_start_and_a_push_cost_one_call_each_besides_the_look_at_the_revision(ssm, clock):
    push(ssm, many())
    config = reader(ssm, clock)

    assert len(config.current().bizs["default"]) == 13
    assert ssm.calls == {"get_parameters": 1}

    push(ssm, many(queue="new"))
    clock.now += POLL_SECONDS
    assert config.current().bizs["default"]["b3"].queue == "new"
    assert ssm.calls == {"get_parameters": 3}


def test_a_snapshot_holds_what_the_documents_hold(ssm, clock):
    push(ssm, many())
    by_snapshot = reader(ssm, clock).current()
    forget_snapshot(ssm)

    by_documents = reader(ssm, clock).current()

    assert by_snapshot == by_documents
    assert ssm.calls["get_parameters_by_path"] > 0


def test_a_stage_published_before_there_were_snapshots_is_read_and_gets_one_by_the_next_push(
    ssm, clock
):
    first = push(ssm, many())
    forget_snapshot(ssm)
    config = reader(ssm, clock)
    assert len(config.current().bizs["default"]) == 13

    again = push(ssm, many())

    assert again.written == again.deleted == ()
    assert again.revision > first.revision
    assert slots(ssm) != {}
    assert push(ssm, many()).revision == again.revision
    clock.now += POLL_SECONDS
    assert config.current().revision == again.revision


def test_versions_that_know_of_no_snapshot_take_it_for_parts_that_are_left_over(ssm):
    push(ssm, many())

    # They count as parts of a document at PATH what is called PATH/parts/X/Y.
    assert all(len(name.split("/")) == 4 for name in slots(ssm))
    assert all(name.startswith("stage/parts/") for name in slots(ssm))


def test_slots_are_standard_parameters_and_those_of_the_standing_revision_are_left_alone(ssm):
    push(ssm, many())
    before = slots(ssm)
    failing = CountedSsm(ssm.client)
    failing.client = Interrupted(ssm.client)

    with pytest.raises(StoreUnavailableError):
        write_tree(failing, "test", many(queue="new"))

    there = slots(ssm)
    assert before.items() < there.items()
    assert all(len(value.encode()) <= MAX_PARAMETER_BYTES for value in there.values())


class Interrupted:
    """An SSM that is away when the revision is written."""

    def __init__(self, client):
        self._client = client

    def __getattr__(self, name):
        return getattr(self._client, name)

    def put_parameter(self, **arguments):
        if arguments["Name"].endswith("/revision"):
            throttled()
        return self._client.put_parameter(**arguments)


def vast():
    """Documents whose snapshot is more than ten parameters."""
    return texts(
        **{f"bizs__default__b{n}": large(400, f"m{n}") | {"collection": f"c{n}"} for n in range(3)}
    )


def test_slots_that_nobody_needs_any_more_are_deleted(ssm):
    push(ssm, vast())
    assert len(slots(ssm)) > 9
    for queue in ("a", "b"):
        push(ssm, texts(bizs__default__shop=biz(queue=queue)), delete=True)

    assert len(slots(ssm)) == 2  # of the standing revision and of the one before it


def test_a_snapshot_of_more_than_ten_slots_takes_a_call_for_each_ten(ssm, clock):
    push(ssm, vast())
    assert 9 < len(slots(ssm)) <= 29

    assert len(reader(ssm, clock).current().bizs["default"]["b2"].rules) == 400
    assert ssm.calls["get_parameters"] == -(-(len(slots(ssm)) + 1) // 10)
    assert ssm.calls["get_parameters_by_path"] == 0


def test_a_snapshot_behind_ten_slots_of_the_revision_before_is_found(ssm, clock):
    push(ssm, vast())
    push(ssm, texts(bizs__default__b0=large(400, "m0") | {"collection": "c0", "queue": "new"}))

    assert reader(ssm, clock).current().bizs["default"]["b0"].queue == "new"
    assert ssm.calls["get_parameters"] <= -(-(len(slots(ssm)) + 1) // 10)
    assert ssm.calls["get_parameters_by_path"] == 0


@pytest.mark.parametrize("damage", ["", "gone", "swapped", "half", "of another revision"])
def test_a_snapshot_that_is_not_the_revisions_is_not_believed(ssm, clock, damage):
    push(ssm, many())
    name, value = min(slots(ssm).items())
    forged = {
        "": "nonsense",
        "swapped": value[:-8] + value[-4:] + value[-8:-4],
        "half": value[: len(value) // 2],
        "of another revision": "0" * 32 + value[32:],
    }
    if damage == "gone":
        ssm.client.delete_parameter(Name=f"{ROOT}/{name}")
    else:
        put(ssm, name, forged[damage])

    config = reader(ssm, clock)

    assert len(config.current().bizs["default"]) == 13
    assert config.refused is None
    assert ssm.calls["get_parameters_by_path"] > 0


def test_a_revision_written_by_hand_has_the_documents_read(ssm, clock):
    push(ssm, many())
    put(ssm, "bizs/default/b1", json.dumps(biz(collection="c1", queue="by-hand")))
    put(ssm, "revision", "by-hand")

    assert reader(ssm, clock).current().bizs["default"]["b1"].queue == "by-hand"


def test_a_start_waits_for_an_ssm_that_throttles_at_times_that_chance_spreads(ssm, clock):
    push(ssm, many())
    pauses = []

    def refuse_five_times():
        if len(pauses) < 5:
            ssm.before["get_parameters"] = refuse_five_times
            throttled()

    ssm.before["get_parameters"] = refuse_five_times
    config = SsmConfig(
        ssm, "test", clock=clock, pause=pauses.append, jitter=lambda: 0.5, start_seconds=20.0
    )

    assert len(config.current().bizs["default"]) == 13
    assert pauses == [0.5, 1.0, 1.0, 1.0, MAX_PAUSE_SECONDS / 2]


def test_a_start_that_is_throttled_for_too_long_is_unavailable(ssm, clock):
    push(ssm, many())
    pauses = []

    def refuse():
        ssm.before["get_parameters"] = refuse
        throttled()

    ssm.before["get_parameters"] = refuse
    config = SsmConfig(
        ssm, "test", clock=clock, pause=pauses.append, jitter=lambda: 1.0, start_seconds=10.0
    )

    with pytest.raises(StoreUnavailableError, match="Rate exceeded"):
        config.current()
    assert sum(pauses) == pytest.approx(10.0)


def test_a_stage_without_a_snapshot_is_read_page_by_page_however_often_ssm_throttles(ssm, clock):
    push(ssm, texts(**{f"bizs__default__b{n}": biz(collection=f"c{n}") for n in range(35)}))
    forget_snapshot(ssm)
    pauses = []

    def refuse_each_other_time():
        ssm.before["get_parameters_by_path"] = lambda: ssm.before.update(
            get_parameters_by_path=refuse_each_other_time
        )
        throttled()

    ssm.before["get_parameters_by_path"] = refuse_each_other_time
    config = SsmConfig(ssm, "test", clock=clock, pause=pauses.append, start_seconds=20.0)

    assert len(config.current().bizs["default"]) == 35
    assert len(pauses) > 2


def test_who_has_a_configuration_waits_for_no_throttled_ssm_and_asks_again_soon(ssm, clock):
    push(ssm, many())
    pauses = []
    config = SsmConfig(ssm, "test", clock=clock, pause=pauses.append, start_seconds=20.0)
    config.current()
    push(ssm, many(queue="new"))
    clock.now += POLL_SECONDS
    for _ in range(6):
        ssm.before["get_parameters"] = throttled
        assert config.current().bizs["default"]["b3"].queue == "main"
        clock.now += MAX_PAUSE_SECONDS

    assert config.current().bizs["default"]["b3"].queue == "new"
    assert pauses == []


def test_a_revision_is_later_than_the_standing_one_whatever_the_clocks_say(ssm):
    from datetime import UTC, datetime, timedelta

    now = datetime.now(UTC)
    first = push(ssm, texts(), now=now)
    second = push(ssm, texts(tenants__acme={}), now=now - timedelta(hours=1))

    assert second.revision > first.revision
