"""ports.DemandStore over memory and a real MongoDB."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest
from msgspec.structs import replace

from tests.kit.implementations import fixture_over
from tests.kit.jobs import (
    JobDemand,
    MongoDemands,
    RunFigures,
    RunPart,
    RunRecord,
    Usage,
    learn,
)
from tests.kit.kernel import StoreUnavailableError
from tests.kit.mongo_nodes import nodes_at

NOW = datetime.now(UTC).replace(microsecond=0)
SECOND = timedelta(seconds=1)
FIGURES = RunFigures(
    seconds=2.5,
    memory_seconds=1e9,
    memory_max=6e8,
    cpu_seconds=3.0,
    cpu_max=2.0,
    bytes=2**40,
    bandwidth_max=1e6,
    requests=10,
    records=7,
    errors=1,
    workers=1,
    began_at=NOW,
    ended_at=NOW + SECOND,
)


store = fixture_over(MongoDemands)


def a_part(tenant: str, part: str = "w1.1", job: str = "night", **changes: object) -> RunPart:
    figures = replace(FIGURES, **changes)
    return RunPart(tenant=tenant, biz="shop", job=job, part=part, figures=figures)


def a_run(tenant: str, job: str = "night", **changes: object) -> RunRecord:
    facts: dict = {"spider": "pages", "counts": {"done": 9, "dead": 1}, "ended_at": NOW}
    return RunRecord(tenant=tenant, biz="shop", job=job, **{**facts, **changes})


def unknown(tenant: str, spider: str = "pages") -> JobDemand:
    return JobDemand(tenant=tenant, biz="shop", spider=spider)


def open_runs(store: MongoDemands, tenant: str, before: datetime = NOW + SECOND) -> list[str]:
    return [run.job for run in store.to_learn(tenant, before, 100)]


def test_what_workers_say_of_a_job_comes_together_and_the_last_word_of_each_counts(
    store: MongoDemands, tenant: str
) -> None:
    assert store.measured(tenant, "shop", "night") == RunFigures()
    store.add_run([], NOW)
    store.add_run([a_part(tenant), a_part(tenant, job="other")], NOW)
    later = NOW + 9 * SECOND
    whole = [a_part(tenant, bytes=5, ended_at=later), a_part(tenant, "w2.1", cpu_max=9.0)]

    for _ in range(2):  # said twice it is the same
        store.add_run(whole, NOW)

    found = store.measured(tenant, "shop", "night")
    assert (found.workers, found.requests, found.seconds) == (2, 20, 5.0)
    assert (found.bytes, found.cpu_max, found.memory_max) == (2**40 + 5, 9.0, 6e8)
    assert (found.began_at, found.ended_at) == (NOW, later)


def test_a_run_is_to_be_learnt_from_until_it_is_closed(store: MongoDemands, tenant: str) -> None:
    store.end_run(a_run(tenant, "second", ended_at=NOW))
    store.end_run(a_run(tenant, "first", ended_at=NOW + 9 * SECOND))
    store.end_run(a_run(tenant, "first", ended_at=NOW - SECOND))  # the last word counts

    assert open_runs(store, tenant) == ["first", "second"]
    assert open_runs(store, tenant, NOW) == ["first"]
    assert len(store.to_learn(tenant, NOW + SECOND, 1)) == 1
    assert tenant in store.tenants_to_learn(NOW + SECOND)
    assert tenant not in store.tenants_to_learn(NOW - SECOND)
    run = a_run(tenant, "first", figures=FIGURES, learnt_at=NOW, ended_at=NOW - SECOND)
    assert store.close_run(run, unknown(tenant), learn(unknown(tenant), Usage(memory=5))) is True

    assert open_runs(store, tenant) == ["second"]
    assert store.run(tenant, "shop", "first") == replace(run, closed=True)
    assert store.run(tenant, "shop", "never") is None
    assert store.get(tenant, "shop", "pages").usage.memory == 5


def test_closing_a_run_removes_what_it_was_summed_up_from(store: MongoDemands, tenant: str) -> None:
    store.add_run([a_part(tenant), a_part(tenant, job="other")], NOW)
    store.end_run(a_run(tenant))

    assert store.close_run(a_run(tenant), unknown(tenant), None) is True

    assert store.measured(tenant, "shop", "night") == RunFigures()
    assert store.measured(tenant, "shop", "other").workers == 1
    assert store.get(tenant, "shop", "pages") is None


def test_a_run_is_closed_once_however_many_want_to(store: MongoDemands, tenant: str) -> None:
    store.end_run(a_run(tenant))
    start = Barrier(6)

    def close(_: int) -> bool:
        start.wait()
        known = unknown(tenant)
        return store.close_run(a_run(tenant), known, learn(known, Usage(cpu=1)))

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(close, range(6))) == [False] * 5 + [True]

    assert store.get(tenant, "shop", "pages").runs == 1


def test_runs_that_end_at_once_are_all_learnt_from(store: MongoDemands, tenant: str) -> None:
    jobs = [f"job{n}" for n in range(6)]
    for job in jobs:
        store.end_run(a_run(tenant, job))
    start = Barrier(6)

    def close(job: str) -> None:
        start.wait()
        while True:
            known = store.get(tenant, "shop", "pages") or unknown(tenant)
            if store.close_run(a_run(tenant, job), known, learn(known, Usage(memory=6))):
                return

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(close, jobs))

    found = store.get(tenant, "shop", "pages")
    assert (found.runs, found.usage.memory, len(found.peaks)) == (6, 6, 6)


def test_what_was_learnt_on_old_knowledge_is_not_kept_and_the_run_stays_open(
    store: MongoDemands, tenant: str
) -> None:
    for job in ("one", "two"):
        store.end_run(a_run(tenant, job))
    none, stale = unknown(tenant), learn(unknown(tenant), Usage(memory=1))
    assert store.close_run(a_run(tenant, "one"), none, stale) is True

    assert store.close_run(a_run(tenant, "two"), none, stale) is False

    assert open_runs(store, tenant) == ["two"]
    assert store.get(tenant, "shop", "pages").runs == 1


def test_a_run_that_nobody_has_ended_is_not_closed(store: MongoDemands, tenant: str) -> None:
    known = unknown(tenant)
    assert store.close_run(a_run(tenant), known, learn(known, Usage())) is False
    assert store.get(tenant, "shop", "pages") is None


def test_demands_are_listed_by_name_from_a_name_on(store: MongoDemands, tenant: str) -> None:
    for spider in ("c", "a", "b"):
        job = f"of-{spider}"
        store.end_run(a_run(tenant, job, spider=spider))
        known = unknown(tenant, spider)
        store.close_run(a_run(tenant, job, spider=spider), known, learn(known, Usage()))

    def listed(after: str | None, limit: int = 9, biz: str = "shop") -> list[str]:
        return [one.spider for one in store.of_biz(tenant, biz, after, limit)]

    assert (listed(None), listed("a"), listed(None, 2)) == (["a", "b", "c"], ["b", "c"], ["a", "b"])
    assert listed(None, biz="docs") == []


def test_a_tenant_sees_and_changes_nothing_of_another(store: MongoDemands, tenant: str) -> None:
    other = f"{tenant}b"
    store.add_run([a_part(tenant)], NOW)
    store.end_run(a_run(tenant))

    assert store.measured(other, "shop", "night") == RunFigures()
    assert store.run(other, "shop", "night") is None
    assert open_runs(store, other) == []
    known = unknown(other)
    assert store.close_run(a_run(other), known, learn(known, Usage())) is False
    assert store.close_run(a_run(tenant), unknown(tenant), learn(unknown(tenant), Usage())) is True
    assert store.get(other, "shop", "pages") is None
    assert store.of_biz(other, "shop", None, 9) == []


def test_a_store_that_is_away_says_so(free_tcp_port: int) -> None:
    with nodes_at(f"mongodb://127.0.0.1:{free_tcp_port}/?serverSelectionTimeoutMS=200") as nodes:
        store = MongoDemands(nodes)
        with pytest.raises(StoreUnavailableError):
            store.add_run([a_part("acme")], NOW)
        with pytest.raises(StoreUnavailableError):
            store.get("acme", "shop", "pages")


def test_a_closed_run_is_open_again_only_where_its_job_was_retried(
    store: MongoDemands, tenant: str
) -> None:
    store.end_run(a_run(tenant))
    run = a_run(tenant, figures=FIGURES, learnt_at=NOW)
    assert store.close_run(run, unknown(tenant), learn(unknown(tenant), Usage())) is True
    late = a_run(tenant, counts={"done": 10}, ended_at=NOW + SECOND)

    store.end_run(late)
    assert store.run(tenant, "shop", "night") == replace(run, closed=True)
    store.end_run(replace(late, retries=1))
    again = replace(late, retries=1, figures=FIGURES, learnt_at=NOW)
    assert store.run(tenant, "shop", "night") == again
    assert store.close_run(run, unknown(tenant), None) is False  # of the end before

    store.forget_end(again)
    assert store.run(tenant, "shop", "night") == replace(again, retries=0, closed=True)
    store.end_run(replace(late, retries=1))
    assert store.run(tenant, "shop", "night") == again


def test_an_end_that_did_not_come_is_forgotten_and_no_other(
    store: MongoDemands, tenant: str
) -> None:
    store.forget_end(a_run(tenant))
    store.end_run(a_run(tenant))
    store.forget_end(a_run(tenant, ended_at=NOW + SECOND))
    assert store.run(tenant, "shop", "night") == a_run(tenant)

    store.forget_end(a_run(tenant))
    assert store.run(tenant, "shop", "night") is None
