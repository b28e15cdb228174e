from datetime import timedelta

from tests.kit.config import MonitorLimits
from tests.kit.kernel import metric_names as names
from tests.kit.monitoring import Emitter
from tests.kit.worlds.doubles import Metrics
from tests.kit.worlds.memory import DOCS
from tests.kit.worlds.monitoring import do, put, sample


def test_what_is_seen_is_emitted(world):
    metrics = Metrics()
    put(world, 6)
    world.now += timedelta(seconds=10)

    count = Emitter(metrics).emit(sample(world), MonitorLimits())

    assert metrics.value(names.BACKLOG, tenant="default", biz="docs") == [6]
    assert metrics.value(names.OLDEST_WAITING, tenant="default") == [10]
    assert metrics.value(names.WANTED_CONSUMERS) == [3]
    assert count == len(metrics.put_metrics)


def test_every_second_is_emitted_once_however_irregular_the_evaluations_are(world):
    metrics, put_in = Metrics(), 0
    emitter = Emitter(metrics)
    for pause in (3, 1, 61, 5, 0, 80, 2, 59):
        put(world, 2)
        put_in += 2
        world.now += timedelta(seconds=1)
        do(world, DOCS, 2)
        world.now += timedelta(seconds=pause)
        emitter.emit(sample(world), MonitorLimits())
    world.now += timedelta(seconds=5)
    emitter.emit(sample(world), MonitorLimits())

    assert sum(metrics.value(names.SUBMITTED, tenant="default")) == put_in
    assert sum(metrics.value(names.PROCESSED, tenant="default")) == put_in
    moments = [
        (at, of["tenant"])
        for one, of, at in metrics.put_metrics
        if one.name == names.SUBMITTED and "tenant" in of
    ]
    assert len(moments) == len(set(moments))


def test_values_that_cannot_be_put_cost_no_others(world):
    class Half(Metrics):
        def put(self, metrics, dimensions, at):
            if "tenant" in dimensions:
                raise OSError("disk full")
            super().put(metrics, dimensions, at)

    metrics = Half()
    put(world, 1)

    Emitter(metrics).emit(sample(world), MonitorLimits())

    assert metrics.value(names.LOOKS) == [1]
    assert any("were not emitted" in warning for warning in world.warnings)
