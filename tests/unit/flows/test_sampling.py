from datetime import timedelta

from crawlfleet.flows.sampling import SamplingPorts, sample
from crawlfleet.flows.submission import submit
from crawlfleet.model.submission import Submission
from crawlfleet.model.totals import NodeHealth
from tests.unit.flows.world import DOCS, START, Broken, Failing, Metrics, World, make_biz, make_tree


class Looks:
    def __init__(self, *looks: NodeHealth) -> None:
        self._looks = looks

    def look(self):
        return iter(self._looks)


def run(world: World, *looks: NodeHealth, **changes: object):
    metrics = Metrics()
    ports = {
        "queue": world.queue,
        "store": world.store,
        "ledgers": world.ledgers,
        "workers": world.workers,
        "health": Looks(*looks),
        "metrics": metrics,
        "warn": world.warn,
    } | changes
    return sample(SamplingPorts(**ports), world.tree, world.now), metrics


def test_rates_backlog_and_age_are_measured_per_biz(world):
    entries = [Submission(url=f"https://example.org/{n}") for n in range(6)]
    submit(world.submission(), world.tree, "default", "docs", entries, world.now)
    world.workers.beat("w", world.now)
    world.now += timedelta(seconds=10)

    _, metrics = run(world)

    assert metrics.value("Backlog", tenant="default", biz="docs") == [6]
    assert metrics.value("OldestWaiting", tenant="default") == [10]
    assert metrics.value("SubmittedRate60s", tenant="default") == [0.1]
    assert metrics.value("Submitted", tenant="default") == [6]
    assert metrics.value("StatePending", tenant="default") == [6]
    assert metrics.value("Backlog", tenant="acme") == [0]
    assert metrics.value("Consumers") == [1]
    assert metrics.value("WantedConsumers") == [1]


def test_the_time_to_finish_is_known_once_there_is_a_rate(world):
    entries = [Submission(url=f"https://example.org/{n}") for n in range(30)]
    submit(world.submission(), world.tree, "default", "docs", entries, world.now)
    leased = world.queue.lease(DOCS, "t", 10, world.now, world.now + timedelta(seconds=60))
    world.queue.finish(DOCS, "t", leased, 10, world.now)
    world.now += timedelta(seconds=10)

    _, metrics = run(world)

    assert [round(value) for value in metrics.value("TimeToFinish")] == [120]


def test_values_of_single_seconds_are_fine_and_carry_their_second(world):
    submit(world.submission(), world.tree, "default", "docs", [Submission(url="https://a/")], START)
    world.now += timedelta(seconds=5)

    _, metrics = run(world)

    [(metric, _, at)] = [put for put in metrics.put_metrics if put[0].name == "Submitted"]
    assert (metric.fine, at) == (True, START)


def test_a_sick_node_is_reported_with_its_reasons(world):
    full = NodeHealth(part="redis", name="redis", up=True, figures={"MemoryRatio": 0.97})
    down = NodeHealth(part="mongodb", name="main", up=False, error="no answer")
    well = NodeHealth(part="mongodb", name="spare", up=True, figures={"StorageBytes": 5.0})

    looks, metrics = run(world, full, down, well)

    assert looks[0].error == "MemoryRatio is 0.97, more than 0.85"
    assert looks[1].error == "no answer"
    assert looks[2].error is None
    assert metrics.value("NodeUp") == [1, 0, 1]
    assert metrics.value("NodeHealthy") == [0, 0, 1]


def test_a_part_that_is_down_does_not_keep_the_rest_from_being_measured(world):
    _, metrics = run(world, queue=Broken())

    assert {put[0].name for put in metrics.put_metrics} == {"LedgerDifference"}
    assert len(world.warnings) == 3


def test_a_biz_that_will_not_keep_its_plan_is_late():
    world = World(tree=make_tree(make_biz(planned_seconds=60)))
    entries = [Submission(url=f"https://example.org/{n}") for n in range(30)]
    submit(world.submission(), world.tree, "default", "docs", entries, world.now)
    leased = world.queue.lease(DOCS, "t", 10, world.now, world.now + timedelta(seconds=60))
    world.queue.finish(DOCS, "t", leased, 10, world.now)
    world.now += timedelta(seconds=10)

    _, metrics = run(world)

    assert metrics.value("Late", tenant="default") == [1]
    assert metrics.value("Late", tenant="acme") == [0]


def test_a_difference_in_the_ledger_is_measured_per_biz_and_over_the_fleet(world):
    entries = [Submission(url=f"https://example.org/{n}") for n in range(6)]
    submit(world.submission(), world.tree, "default", "docs", entries, world.now)
    requests = world.store.state.of(DOCS).requests
    for request_id in list(requests)[:2]:
        del requests[request_id]

    _, metrics = run(world)

    assert metrics.value("LedgerDifference", tenant="default", biz="docs") == [2]
    assert metrics.value("LedgerDifference", tenant="acme", biz="docs") == [0]
    assert metrics.value("LedgerDifference") == [0, 2, 2]


def test_a_ledger_that_cannot_be_read_does_not_keep_others_from_being_audited(world):
    _, metrics = run(world, ledgers=Failing(world.ledgers, audit=1))

    assert metrics.value("LedgerDifference", tenant="acme") == []
    assert metrics.value("LedgerDifference", tenant="default") == [0]
    assert metrics.value("StatePending", tenant="acme") == [0]
    assert [w for w in world.warnings if "audited" in w] == [
        "acme/docs could not be audited: test: audit: no answer"
    ]


def test_no_figure_for_the_fleet_where_no_ledger_can_be_read(world):
    _, metrics = run(world, ledgers=Broken())

    assert metrics.value("LedgerDifference") == []
