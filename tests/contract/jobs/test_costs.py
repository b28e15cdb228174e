"""Days over a real MongoDB: reports of workers, summed up once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta

import pytest

from tests.kit.costs import KEPT, MongoCosts, MongoHistories, RunSummary
from tests.kit.jobs import MongoDemands, RunFigures, RunPart, day_name
from tests.kit.kernel import StoreUnavailableError
from tests.kit.mongo_nodes import nodes_at, own_control_at

NOW = datetime.now(UTC).replace(microsecond=0)
DAY, NEXT = date(2026, 11, 22), date(2026, 11, 23)


def enough() -> float:
    return 60.0


@pytest.fixture
def stores(mongo_uri: str) -> Iterator[tuple[MongoDemands, MongoCosts]]:
    with own_control_at(mongo_uri) as nodes:
        yield MongoDemands(nodes), MongoCosts(nodes)


def a_report(tenant: str, part: str, count: int, biz: str = "shop", day: date = DAY) -> RunPart:
    figures = RunFigures(requests=count, bytes=count * 10, gb_seconds=count / 2, workers=1)
    return RunPart(tenant=tenant, biz=biz, job=day_name(day), part=part, figures=figures)


def requests_of(costs: MongoCosts, tenant: str, biz: str | None = None) -> dict:
    found = costs.days(tenant, biz, DAY, NEXT)
    return {(one.biz, one.day): one.figures.requests for one in found}


def test_what_workers_have_reported_is_there_at_once_and_after_it_was_summed_up(
    stores, tenant: str
) -> None:
    demands, costs = stores
    demands.add_run([a_report(tenant, "w1.d1", 3), a_report(tenant, "w2.d1", 4)], NOW)
    demands.add_run([a_report(tenant, "w1.d1", 5)], NOW)  # the same one, later
    demands.add_run([a_report(tenant, "w1.d2", 7, "docs", NEXT)], NOW)
    whole = {("shop", DAY): 9, ("docs", NEXT): 7}
    assert requests_of(costs, tenant) == whole

    assert costs.sum_up(NOW, enough) == 0  # their workers may live
    assert costs.sum_up(NOW + timedelta(hours=2), enough) >= 3

    assert requests_of(costs, tenant) == whole
    assert requests_of(costs, tenant, "docs") == {("docs", NEXT): 7}
    assert costs.days(tenant, None, NEXT, NEXT)[0].figures.gb_seconds == 3.5
    demands.add_run([a_report(tenant, "w3.d1", 1)], NOW)
    assert requests_of(costs, tenant)["shop", DAY] == 10


def test_a_report_is_summed_up_once_however_many_do_it_at_once(stores, tenant: str) -> None:
    demands, costs = stores
    demands.add_run([a_report(tenant, f"w{n}.d1", 1) for n in range(40)], NOW)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: costs.sum_up(NOW + timedelta(hours=2), enough), range(4)))

    assert requests_of(costs, tenant) == {("shop", DAY): 40}


def test_nothing_is_summed_up_without_time_for_it(stores, tenant: str) -> None:
    demands, costs = stores
    demands.add_run([a_report(tenant, "w1.d1", 3)], NOW)

    assert costs.sum_up(NOW + timedelta(hours=2), lambda: 0.0) == 0
    assert requests_of(costs, tenant) == {("shop", DAY): 3}


def test_accounts_of_days_are_no_runs_of_jobs(stores, tenant: str) -> None:
    demands, costs = stores
    run = RunPart(
        tenant=tenant, biz="shop", job="night", part="w1.1", figures=RunFigures(requests=2)
    )
    demands.add_run([run, a_report(tenant, "w1.d1", 3)], NOW)

    costs.sum_up(NOW + timedelta(hours=2), enough)

    assert demands.measured(tenant, "shop", "night").requests == 2
    assert requests_of(costs, tenant) == {("shop", DAY): 3}


def test_a_tenant_sees_nothing_of_another(stores, tenant: str) -> None:
    demands, costs = stores
    demands.add_run([a_report(f"{tenant}-rival", "w1.d1", 3)], NOW)

    assert requests_of(costs, tenant) == {}


def test_a_days_work_of_several_tenants_is_read_at_once_summed_up_or_not(
    stores, tenant: str
) -> None:
    demands, costs = stores
    rival, idle = f"{tenant}-rival", f"{tenant}-idle"
    demands.add_run([a_report(tenant, "w1.d1", 3), a_report(rival, "w1.r1", 5)], NOW)
    costs.sum_up(NOW + timedelta(hours=2), enough)
    demands.add_run([a_report(tenant, "w2.d1", 4, "docs")], NOW)
    demands.add_run([a_report(tenant, "w2.d2", 9, "docs", NEXT)], NOW)

    found = costs.of_day([tenant, rival, idle], DAY)

    assert {name: figures.requests for name, figures in found.items()} == {tenant: 7, rival: 5}
    assert (found[tenant].bytes, found[tenant].gb_seconds) == (70, 3.5)
    assert costs.of_day([idle], DAY) == costs.of_day([], DAY) == {}


def test_a_store_that_is_away_says_so(free_tcp_port: int) -> None:
    with nodes_at(f"mongodb://127.0.0.1:{free_tcp_port}/?serverSelectionTimeoutMS=200") as nodes:
        costs = MongoCosts(nodes)

        with pytest.raises(StoreUnavailableError):
            costs.days("acme", None, DAY, DAY)
        with pytest.raises(StoreUnavailableError):
            costs.sum_up(NOW, enough)


def test_latest_runs_are_kept_by_spider_host_and_tenant_and_no_more(
    mongo_uri: str, tenant: str
) -> None:
    with own_control_at(mongo_uri) as nodes:
        histories = MongoHistories(nodes)
        assert histories.known(tenant, "shop", "pages", ["a.example"]) == ((), [], ())

        for number in range(KEPT + 3):
            run = RunSummary(size=1, pages=number, seconds=1.0)
            histories.add((tenant, "shop", "pages"), ["a.example", "b.example"], run, NOW)
        found = histories.known(tenant, "shop", "pages", ["a.example"])
        of_host = histories.known(tenant, "docs", "other", ["b.example"])

    assert [run.pages for run in found.spider] == list(range(3, KEPT + 3))
    assert found.spider == found.tenant == tuple(found.hosts)
    assert (of_host.spider, len(of_host.hosts)) == ((), KEPT)


def test_a_tenants_forecasts_rest_on_nothing_of_others(mongo_uri: str, tenant: str) -> None:
    with own_control_at(mongo_uri) as nodes:
        histories = MongoHistories(nodes)
        run = RunSummary(size=1, pages=1, seconds=1.0)
        histories.add((f"{tenant}-rival", "shop", "pages"), ["a.example"], run, NOW)

        assert histories.known(tenant, "shop", "pages", ["a.example"]) == ((), [], ())
