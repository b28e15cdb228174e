import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.bench import BenchError
from benchmarks.volume.checks import Fingerprint, problems_of_ledger
from benchmarks.volume.meters import Look, disk_bytes
from benchmarks.volume.plan import BATCH, Plan
from benchmarks.volume.report import charts, figures, hour_of, page, sentence
from benchmarks.volume.run import Phase, Result, room_for
from tests.kit.requests import Ledger

ids = st.lists(st.integers(1, 2**63 - 1), unique=True, max_size=50)


def look(seconds: float, submitted: int, done: int, phase: str = "submit") -> Look:
    return Look(
        seconds=seconds,
        phase=phase,
        submitted=submitted,
        done=done,
        left=submitted,
        redis_bytes=1_000 + 60 * (submitted - done),
        redis_rss_bytes=5_000_000,
        mongo_rss_bytes=200_000_000,
        mongo_cache_bytes=100_000_000,
        disk_bytes=700 * submitted,
    )


def result() -> Result:
    cpu = {"mongodb": 3.0, "redis": 1.0, "measuring": 0.5, "others": 0.5}
    return Result(
        plan=Plan(requests=1_000),
        phases=[
            Phase(name="submit", requests=1_000, seconds=2.0, cpu={"submitters": 1.0, **cpu}),
            Phase(name="drain", requests=1_000, seconds=8.0, cpu={"workers": 4.0, **cpu}),
        ],
        looks=[
            look(0.0, 0, 0),
            look(120.0, 1_000, 0, "full"),
            look(240.0, 1_000, 400, "drain"),
            look(360.0, 1_000, 1_000, "drained"),
        ],
        full_lookups={"p50": 1.0, "p99": 2.0},
        draining_lookups={"p50": 3.0},
        submitters=[{"longest_seconds": 0.5}],
        workers=[{"peak_mb": 90}],
        peak_disk_bytes=700_000,
        looked_for=10,
    )


@given(st.integers(1, 10_000), st.integers(1, 7))
def test_every_request_is_submitted_by_one_process(requests, submitters):
    plan = Plan(requests=requests, submitters=submitters)

    parts = [plan.part(number) for number in range(submitters)]

    assert [number for part in parts for number in part] == list(range(requests))


@given(st.integers(1, 50), st.integers(1, 500))
def test_every_request_has_an_address_of_its_own(hosts, requests):
    plan = Plan(requests=requests, hosts=hosts)

    urls = {plan.url(number) for number in range(requests)}

    assert len(urls) == requests
    assert len({url.split("/")[2] for url in urls}) <= hosts


@given(st.integers(1, 20_000_000), st.integers(1, BATCH))
def test_of_each_batch_some_ids_are_looked_for_and_never_more_than_it_has(requests, size):
    assert 1 <= Plan(requests=requests).samples_of_batch(size) <= size


def test_a_larger_run_takes_more_of_everything():
    small, large = Plan(requests=1_000), Plan(requests=10_000_000)

    assert small.disk_bytes < large.disk_bytes
    assert small.memory_bytes < large.memory_bytes
    assert small.seconds < large.seconds
    assert small.look_seconds < large.look_seconds == 10


def test_a_run_that_finds_no_room_says_what_it_takes(tmp_path):
    with pytest.raises(BenchError, match=r"[\d.,]+ GB"):
        room_for(Plan(requests=10**13), tmp_path)


@given(ids, st.randoms())
def test_ids_in_any_order_leave_one_fingerprint(some: list[int], dice: random.Random):
    shuffled = list(some)
    dice.shuffle(shuffled)
    whole, halves, half = Fingerprint(), Fingerprint(), Fingerprint()

    whole.add(some)
    halves.add(shuffled[:10])
    half.add(shuffled[10:])
    halves.merge(half)

    assert whole == halves


@given(ids.filter(len), st.data())
def test_an_id_that_is_missing_doubled_or_another_one_is_seen(some: list[int], data):
    place = data.draw(st.integers(0, len(some) - 1))
    stranger = data.draw(st.integers(1, 2**63 - 1).filter(lambda one: one not in some))
    rest = some[:place] + some[place + 1 :]

    found = []
    for there in (some, rest, [*some, some[place]], [*rest, stranger]):
        fingerprint = Fingerprint()
        fingerprint.add(there)
        found.append(fingerprint)

    assert all(other != found[0] for other in found[1:])


@pytest.mark.parametrize(
    ("ledger", "said"),
    [
        (Ledger(submitted=9, done=9), "10 were accepted and 9 are counted"),
        (Ledger(submitted=10, done=9), "difference is 1"),
        (Ledger(submitted=10, done=9, dead=1), "9 of 10 are done"),
        (Ledger(submitted=10, done=9, pending=1), "9 of 10 are done"),
    ],
)
def test_a_ledger_that_is_not_all_done_is_reported(ledger, said):
    assert any(said in problem for problem in problems_of_ledger(ledger, 10))


def test_a_ledger_that_is_all_done_is_right():
    assert problems_of_ledger(Ledger(submitted=10, done=10), 10) == []


def test_an_hour_holds_what_goes_through_both_phases_on_the_same_machine():
    assert hour_of(result().phases) == 360_000
    assert figures(result())["one_hour_holds"] == 360_000


def test_the_sentence_says_whose_the_cpu_was():
    reported = sentence(result())

    # 5 of ours, 6 of MongoDB, 2 of Redis and 2 of others, of 15
    for fact in ("33% was ours", "40% MongoDB's", "13% Redis'", "13% that of"):
        assert fact in reported
    assert "0.4 million requests" in reported
    assert "500 a second" in reported
    assert "125 a second" in reported


def test_the_figures_report_what_a_request_takes():
    found = figures(result())

    assert found["redis_bytes_per_request"] == 60
    assert found["disk_bytes_per_request"] == 700
    assert found["drain_workers_cpu_ms_per_request"] == 4
    assert found["lookup_full_p99_ms"] == 2


def test_the_charts_follow_the_looks():
    backlog, rates, memory = charts(result())

    assert 'x-axis "minutes" 0.3 --> 6' in backlog
    assert backlog.endswith("Lines: not done; done; held by MongoDB.")
    assert rates.count("line [") == 2
    assert "8.33" in rates  # 1,000 in 120 s
    assert memory.count("line [") == 3
    assert page(result()).count("```mermaid") == 3


def test_the_disk_counts_what_lies_in_folders_too(tmp_path: Path):
    (tmp_path / "inner").mkdir()
    empty = disk_bytes(tmp_path)
    (tmp_path / "inner" / "file").write_bytes(b"x" * 100_000)

    assert empty == 0
    assert 100_000 <= disk_bytes(tmp_path) < 200_000
