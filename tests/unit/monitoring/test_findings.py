import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.config import BizThresholds, Thresholds
from tests.kit.incidents import ADVICE, Evaluation, Kind, Place, evaluate, found_kinds, key_of
from tests.kit.incidents import KINDS as KINDS_OF_HOSTS
from tests.kit.kernel import QueueKey, metric_names
from tests.kit.monitoring import FleetSample, QueueSample, Unread, WorkersSample
from tests.kit.queue import Depth, Load, NodeHealth, Rates
from tests.kit.requests import Ledger
from tests.kit.worlds.incidents import DOCS, MINUTE, START
from tests.kit.worlds.memory import make_biz
from tests.kit.worlds.samples import a_part, a_queue_key, a_sample, a_tree, kinds, the


def test_where_all_is_well_nothing_is_found():
    evaluation = evaluate(
        a_sample(a_queue_key()), a_sample(a_queue_key(), at=START - MINUTE), a_tree()
    )

    assert evaluation.findings == ()
    assert not any(found_kinds(evaluation, []).values())
    assert not any(key.endswith("acme|docs||") for key in evaluation.unknown)


def test_every_kind_has_a_metric_of_its_own():
    found = found_kinds(Evaluation(), [])

    assert set(found) == set(Kind)
    assert len({metric_names.finding(kind) for kind in Kind}) == len(Kind)


def test_every_threshold_that_advice_names_is_one_of_a_document():
    fields = {*Thresholds.__struct_fields__, "planned_seconds"}
    named = {field for kind in Kind for field in ADVICE[kind].thresholds}

    assert named == fields


@pytest.mark.parametrize(
    ("kind", "figure", "field", "limit"),
    [
        (Kind.STORAGE, "StorageBytes", "storage_bytes", 1_000),
        (Kind.STORAGE, "StorageRatio", "storage_ratio", 0.5),
        (Kind.MEMORY, "CacheRatio", "memory_ratio", 0.5),
        (Kind.SLOW_OPERATIONS, "SlowOperations", "slow_operations", 7),
        (Kind.CONNECTIONS, "ConnectionsRatio", "connections_ratio", 0.5),
        (Kind.LATENCY, "Latency", "latency_seconds", 0.2),
        (Kind.REPLICA_UNWELL, "MembersUnwell", "unwell_replicas", 1),
        (Kind.REPLICA_LAG, "LagSeconds", "lag_seconds", 12.0),
    ],
)
def test_a_nodes_figure_beyond_its_threshold_is_found_and_at_it_is_not(kind, figure, field, limit):
    tree = a_tree(**{field: limit})

    at_it = evaluate(a_sample(parts=(a_part(**{figure: limit}),)), None, tree)
    beyond = evaluate(a_sample(parts=(a_part(**{figure: limit * 1.5}),)), None, tree)

    assert kinds(at_it) == set()
    finding = the(beyond, kind)
    assert (finding.value, finding.threshold) == (limit * 1.5, limit)
    assert finding.place == Place(part="mongodb", name="main")
    assert finding.said


def test_a_disk_that_is_full_by_its_share_and_by_its_bytes_is_one_finding():
    part = a_part(StorageRatio=0.9, StorageBytes=9e15)

    finding = the(evaluate(a_sample(parts=(part,)), None, a_tree()), Kind.STORAGE)

    assert "90% of its disk is used, more than 85%" in finding.said


def test_redis_has_a_memory_of_its_own():
    redis = a_part("redis", "redis", MemoryRatio=0.8, CacheRatio=0.99, StorageBytes=9e15)

    finding = the(evaluate(a_sample(parts=(redis,)), None, a_tree()), Kind.REDIS_MEMORY)

    assert "80% of its memory" in finding.said


def test_a_redis_that_lost_its_primary_is_a_replica_that_is_not_well():
    redis = a_part("redis", "redis", LinkDown=1.0)

    assert kinds(evaluate(a_sample(parts=(redis,)), None, a_tree())) == {Kind.REPLICA_UNWELL}


def test_a_figure_that_is_missing_is_unknown_and_no_finding():
    evaluation = evaluate(a_sample(parts=(a_part(),)), None, a_tree())

    assert evaluation.findings == ()
    assert key_of(Kind.STORAGE, Place(part="mongodb", name="main")) in evaluation.unknown


def test_a_part_that_is_down_is_reported_once_and_all_behind_it_is_unknown():
    down = NodeHealth(part="redis", name="redis", up=False, error="redis://:pw@h:1 is away")
    unread = (Unread(what="workers", why="Redis is away"),)
    queue_key = a_queue_key(depth=None, processed=None)

    evaluation = evaluate(
        a_sample(queue_key, parts=(down,), workers=None, stray_items=None, unread=unread),
        None,
        a_tree(),
    )

    finding = the(evaluation, Kind.PART_DOWN)
    assert kinds(evaluation) == {Kind.PART_DOWN}
    assert finding.said == "redis://***@h:1 is away"
    redis, workers = Place(part="redis", name="redis"), Place(part="workers")
    assert {
        key_of(Kind.BACKLOG, DOCS),
        key_of(Kind.WILL_BE_LATE, DOCS),
        key_of(Kind.REDIS_MEMORY, redis),
        key_of(Kind.EVICTIONS, redis),
        key_of(Kind.NO_WORKERS, workers),
        key_of(Kind.ORPHANED_QUEUES, workers),
        key_of(Kind.MONITOR_BLIND, Place(part="monitor")),
    } <= evaluation.unknown


def test_what_an_evaluation_leaves_out_altogether_is_unknown():
    unread = (Unread(what="everything", why="no password"),)

    evaluation = evaluate(a_sample(workers=None, stray_items=None, unread=unread), None, a_tree())

    main = Place(part="mongodb", name="main")
    lost = {Kind.BACKLOG, Kind.OLDEST_WAITING, Kind.WILL_BE_LATE, Kind.LEDGER_DIFFERENCE}
    lost |= {Kind.DEAD_LETTERS, Kind.EXPIRED}
    assert {key_of(kind, DOCS) for kind in lost} <= evaluation.unknown
    assert {key_of(Kind.PART_DOWN, main), key_of(Kind.STORAGE, main)} <= evaluation.unknown
    assert evaluation.unseen == KINDS_OF_HOSTS


def test_hosts_are_unseen_while_redis_is_away_and_no_longer():
    down = NodeHealth(part="redis", name="redis", up=False)
    other = NodeHealth(part="mongodb", name="main", up=False)

    assert evaluate(a_sample(parts=(down,)), None, a_tree()).unseen == KINDS_OF_HOSTS
    assert evaluate(a_sample(parts=(other,)), None, a_tree()).unseen == frozenset()


def test_evictions_are_counted_between_two_evaluations_and_from_a_restart():
    def looked(before: float | None, now: float) -> Evaluation:
        was = None
        if before is not None:
            was = a_sample(parts=(a_part("redis", EvictedKeys=before),), at=START - MINUTE)
        return evaluate(a_sample(parts=(a_part("redis", EvictedKeys=now),)), was, a_tree())

    key = key_of(Kind.EVICTIONS, Place(part="redis", name="main"))
    assert the(looked(5, 9), Kind.EVICTIONS).value == 4
    assert the(looked(9, 2), Kind.EVICTIONS).value == 2
    assert kinds(looked(9, 9)) == set()
    assert key in looked(None, 9).unknown
    assert key not in looked(9, 9).unknown


def test_a_backlog_is_what_is_queued_leased_and_delayed():
    queue_key = a_queue_key(depth=Depth(queued=5, leased=4, delayed=3))

    assert kinds(evaluate(a_sample(queue_key), None, a_tree(backlog=12))) == set()
    finding = the(evaluate(a_sample(queue_key), None, a_tree(backlog=11)), Kind.BACKLOG)
    assert (finding.value, finding.threshold, finding.place) == (12, 11, DOCS)
    assert "12 requests" in finding.said


def test_a_backlog_that_a_small_team_may_have_is_found_without_any_configuration():
    deep = a_queue_key(depth=Depth(queued=10_001, leased=0, delayed=0))
    usual = a_queue_key(depth=Depth(queued=10_000, leased=0, delayed=0))

    assert Kind.BACKLOG in kinds(evaluate(a_sample(deep), None, a_tree()))
    assert Kind.BACKLOG not in kinds(evaluate(a_sample(usual), None, a_tree()))


def test_a_bizs_own_threshold_takes_the_place_of_the_stages():
    queue_key = a_queue_key(depth=Depth(queued=50, leased=0, delayed=0), oldest_seconds=500.0)
    own = BizThresholds(backlog=40, oldest_waiting_seconds=400.0)

    assert kinds(evaluate(a_sample(queue_key), None, a_tree())) == set()
    found = evaluate(a_sample(queue_key), None, a_tree({"thresholds": own}))
    assert kinds(found) == {Kind.BACKLOG, Kind.OLDEST_WAITING}


def late(planned: float | None, **changes: object) -> Evaluation:
    facts: dict = {"depth": Depth(queued=12_000, leased=0, delayed=0)}
    sample = a_sample(a_queue_key(**{**facts, **changes}))
    return evaluate(sample, None, a_tree({"planned_seconds": planned}, backlog=12_000))


def test_what_outlasts_the_plan_at_the_present_rate_will_be_late():
    rate = Rates(per_1s=20.0, per_5s=20.0, per_60s=20.0)

    assert kinds(late(600.0, finish_seconds=600.0, processed=rate)) == set()
    finding = the(late(540.0, finish_seconds=600.0, processed=rate), Kind.WILL_BE_LATE)
    assert (finding.value, finding.threshold) == (600.0, 540.0)
    for fact in ("12,000 requests", "20.0 a second", "10 min", "9 min"):
        assert fact in finding.said


def test_what_is_late_for_want_of_concurrency_says_so():
    def said(workers: WorkersSample) -> str:
        queue_key = a_queue_key(
            depth=Depth(queued=12_000, leased=0, delayed=0), oldest_seconds=601.0
        )
        sample = replace(a_sample(queue_key), workers=workers)
        evaluation = evaluate(sample, None, a_tree({"planned_seconds": 600.0}))
        return the(evaluation, Kind.WILL_BE_LATE).said

    assert "12 may run" in said(WorkersSample(wanted=50, allowed=12))
    assert "AWS" in said(WorkersSample(wanted=50, allowed=12))
    for enough in (
        WorkersSample(wanted=12, allowed=12),
        WorkersSample(wanted=12),
        WorkersSample(allowed=12),
    ):
        assert said(enough).endswith("planned are 10 min")


def test_without_a_rate_it_is_late_once_the_oldest_waited_for_the_whole_plan():
    assert kinds(late(600.0, finish_seconds=None, oldest_seconds=600.0)) == set()
    finding = the(late(600.0, finish_seconds=None, oldest_seconds=601.0), Kind.WILL_BE_LATE)
    assert "nothing is processed" in finding.said


def test_without_a_plan_or_a_backlog_nothing_is_late():
    empty = Depth(queued=0, leased=0, delayed=0)

    assert kinds(late(None, finish_seconds=9e9)) == set()
    assert kinds(late(1.0, finish_seconds=9e9, depth=empty)) == set()


def risen(minutes: float = 1.0, **ledger: int) -> Evaluation:
    before = a_sample(
        a_queue_key(ledger=Ledger(dead=100, expired=100)), at=START - minutes * MINUTE
    )
    now = a_sample(a_queue_key(ledger=Ledger(**{"dead": 100, "expired": 100} | ledger)))
    return evaluate(now, before, a_tree(dead_per_minute=10, expired_per_minute=5))


def test_dead_letters_and_expired_requests_are_found_by_how_fast_they_rise():
    assert kinds(risen(dead=110, expired=105)) == set()
    assert kinds(risen(dead=111)) == {Kind.DEAD_LETTERS}
    assert kinds(risen(expired=106)) == {Kind.EXPIRED}
    assert kinds(risen(minutes=2, dead=120)) == set()
    assert kinds(risen(dead=0)) == set()  # replayed


@pytest.mark.parametrize("minutes", [0.0, 0.1, 16.0, -1.0])
def test_evaluations_that_lie_too_close_or_too_far_apart_say_nothing_of_a_rise(minutes):
    evaluation = risen(minutes=minutes, dead=9_999)

    assert evaluation.findings == ()
    assert key_of(Kind.DEAD_LETTERS, DOCS) in evaluation.unknown


def test_the_first_evaluation_knows_of_no_rise():
    evaluation = evaluate(a_sample(a_queue_key(ledger=Ledger(dead=9_999))), None, a_tree())

    assert evaluation.findings == ()
    assert {key_of(Kind.DEAD_LETTERS, DOCS), key_of(Kind.EXPIRED, DOCS)} <= evaluation.unknown


@pytest.mark.parametrize(("difference", "said"), [(3, "are in no state"), (-3, "never submitted")])
def test_a_ledger_that_does_not_balance_is_found_either_way(difference, said):
    evaluation = evaluate(a_sample(a_queue_key(difference=difference)), None, a_tree())

    finding = the(evaluation, Kind.LEDGER_DIFFERENCE)
    assert finding.value == 3
    assert said in finding.said


def test_a_ledger_that_was_not_read_is_unknown():
    evaluation = evaluate(a_sample(a_queue_key(difference=None)), None, a_tree())

    assert key_of(Kind.LEDGER_DIFFERENCE, DOCS) in evaluation.unknown


def test_dead_workers_that_nobody_reaps_are_found():
    workers = WorkersSample(alive=3, dead=2, present=3)

    assert the(evaluate(a_sample(workers=workers), None, a_tree()), Kind.WORKERS_DEAD).value == 2
    assert kinds(evaluate(a_sample(workers=workers), None, a_tree(dead_workers=2))) == set()


def test_work_without_a_living_worker_is_found_even_while_some_are_starting():
    none = WorkersSample(alive=0, present=2, wanted=2)

    idle = evaluate(a_sample(workers=none), None, a_tree())
    evaluation = evaluate(a_sample(workers=none, fleet=FleetSample(ready=7)), None, a_tree())

    assert kinds(idle) == set()
    finding = the(evaluation, Kind.NO_WORKERS)
    assert "(2 started, 2 wanted)" in finding.said


def test_work_is_not_known_to_have_workers_while_a_queue_could_not_be_read():
    none, one = WorkersSample(alive=0, present=2), WorkersSample(alive=1, present=1)
    key = key_of(Kind.NO_WORKERS, Place(part="workers"))
    read, other = a_queue_key(load=Load(ready=0, leased=0)), QueueKey("acme", "news", "main")
    tree = a_tree()
    two = replace(tree, bizs={"acme": {**tree.bizs["acme"], "news": make_biz()}})

    def unknown(*queues: QueueSample, workers: WorkersSample = none, ready: int = 0) -> bool:
        fleet = FleetSample(ready=ready)
        return key in evaluate(a_sample(*queues, workers=workers, fleet=fleet), None, two).unknown

    assert unknown(read, QueueSample(queue_key=other))
    assert unknown(read)
    assert not unknown(read, a_queue_key(queue_key=other, load=Load(ready=0, leased=0)))
    assert not unknown(read, QueueSample(queue_key=other), ready=7)
    assert not unknown(read, QueueSample(queue_key=other), workers=one)


def test_of_a_biz_that_is_refused_by_who_starts_anew_nothing_is_known():
    """This monitor has seen no valid document; others may have reported incidents of the biz."""
    refused = replace(a_tree(), bizs={"acme": {}}, refused=frozenset({("acme", "docs")}))

    evaluation = evaluate(a_sample(), None, refused)

    of_queues = {Kind.BACKLOG, Kind.OLDEST_WAITING, Kind.WILL_BE_LATE, Kind.LEDGER_DIFFERENCE}
    of_queues |= {Kind.DEAD_LETTERS, Kind.EXPIRED}
    assert {key_of(kind, DOCS) for kind in of_queues} <= evaluation.unknown
    gone = evaluate(a_sample(), None, replace(refused, refused=frozenset()))
    assert key_of(Kind.BACKLOG, DOCS) not in gone.unknown


def test_a_refused_configuration_is_found_without_what_it_quotes():
    refused = "stage.nodes: https://u:hunter2@x is no name " + "x" * 900

    finding = the(evaluate(a_sample(config_refused=refused), None, a_tree()), Kind.CONFIG_REFUSED)

    assert "hunter2" not in finding.said
    assert len(finding.said) <= 300


def test_what_waits_for_bizs_that_there_are_not_is_found():
    evaluation = evaluate(a_sample(stray_items=2, stray_requests=3), None, a_tree())

    assert the(evaluation, Kind.ORPHANED_QUEUES).value == 5


def test_a_monitor_that_cannot_see_while_all_parts_answer_says_what():
    unread = tuple(Unread(what=f"acme/b{n}", why="a fault") for n in range(7))

    finding = the(
        evaluate(a_sample(unread=unread, parts=(a_part(),)), None, a_tree()), Kind.MONITOR_BLIND
    )

    assert finding.value == 7
    assert finding.said.startswith("acme/b0: a fault; ")
    assert finding.said.endswith("and 2 more")


def test_a_biz_that_was_taken_out_meanwhile_is_nobodys_finding():
    gone = a_queue_key(queue_key=QueueKey("acme", "gone", "main"), difference=9)

    assert evaluate(a_sample(gone), None, a_tree()).findings == ()


counts = st.integers(0, 10**9)
queues = st.builds(
    a_queue_key,
    depth=st.none() | st.builds(Depth, queued=counts, leased=counts, delayed=counts),
    oldest_seconds=st.floats(0, 1e9),
    finish_seconds=st.none() | st.floats(0, 1e9),
    difference=st.none() | st.integers(-(10**9), 10**9),
    ledger=st.none() | st.builds(Ledger, dead=counts, expired=counts),
)
parts = st.builds(
    NodeHealth,
    part=st.sampled_from(["redis", "mongodb"]),
    name=st.sampled_from(["main", "east"]),
    up=st.booleans(),
    figures=st.dictionaries(
        st.sampled_from([*metric_names.REDIS, *metric_names.NODE]), st.floats(0, 1e15)
    ),
    error=st.none() | st.text(max_size=500),
)


@given(
    st.none() | queues, queues, st.lists(parts, max_size=2, unique_by=lambda p: (p.part, p.name))
)
def test_whatever_was_seen_each_thing_is_wrong_or_unknown_but_not_both(before, queue_key, found):
    sample = a_sample(queue_key, parts=tuple(found))
    was = None if before is None else replace(sample, queues=(before,), at=START - MINUTE)

    evaluation = evaluate(sample, was, a_tree({"planned_seconds": 60.0}))

    keys = [finding.key for finding in evaluation.findings]
    assert len(set(keys)) == len(keys)
    assert not set(keys) & evaluation.unknown
    for finding in evaluation.findings:
        assert finding.value > finding.threshold
        assert finding.said
        assert len(finding.said) <= 600
