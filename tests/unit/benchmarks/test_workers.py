import os

import pytest

from benchmarks.site_server import CPU_PATH, used
from benchmarks.workers import Compared, Round, limit_of, machine_cpu


def cores(**changes: float) -> dict[str, float]:
    return {"workers": 1.0, "site": 0.1, "mongodb": 0.2, "redis": 0.05, "others": 0.0, **changes}


@pytest.mark.parametrize(
    ("used_cores", "available", "said"),
    [
        (cores(workers=1.6), 2, "the 2 cores, 98% busy: 18% with the servers, 0% with what else"),
        (cores(others=0.7), 2, "the 2 cores, 102% busy: 18% with the servers, 35% with what else"),
        (cores(workers=1.95), 8, "the workers, which have one core each"),
        (cores(site=0.95), 8, "the site, which has one core"),
        (cores(redis=0.9), 8, "the redis, which has one core"),
        (cores(), 2, "nothing that is used up: they wait for answers"),
    ],
)
def test_what_holds_workers_up_is_said(used_cores, available, said):
    assert limit_of(used_cores, available, workers=2).startswith(said)


def test_a_round_reports_its_rate_and_what_each_part_kept_busy():
    done = Round(workers=2, pages=600, seconds=2.0, cpu={"workers": 3.0, "site": 0.5})

    assert done.rate == 300
    assert done.cores == {"workers": 1.5, "site": 0.25}


def test_the_machine_has_used_more_than_this_process():
    times = os.times()

    assert machine_cpu() > times.user + times.system


def test_the_site_reports_its_own_cpu_seconds():
    head, _, seconds = used().partition(b"\r\n\r\n")

    assert CPU_PATH.startswith(b"/.")
    assert b"200 OK" in head
    assert 0 < float(seconds) < 100_000


def a_round(workers: int, seconds: float) -> Round:
    return Round(workers=workers, pages=600, seconds=seconds, cpu=cores(workers=workers * 0.4))


def test_two_are_compared_with_one_by_the_rounds_that_were_neither_best_nor_worst():
    rounds = {
        1: [a_round(1, 4.0), a_round(1, 8.0), a_round(1, 4.0)],
        2: [a_round(2, 2.0), a_round(2, 2.0), a_round(2, 9.0)],
    }

    found = Compared(0.25, rounds)

    assert found.speedup == pytest.approx(2.0)
    assert found.per_cpu == {1: 1500.0, 2: 750.0}
    assert found.name == "a site 250 ms away"
    assert set(found.rates()) == {"1 worker, a site 250 ms away", "2 workers, a site 250 ms away"}
    assert "held up by" in found.reported()
