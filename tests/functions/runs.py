"""A job that was run, as its workers and its end would have it written down."""

from datetime import UTC, datetime

from tests.kit.jobs import JobDemand, MongoDemands, RunFigures, RunPart, RunRecord, Usage, learn
from tests.kit.kernel import from_ms, to_ms


def a_learnt_run(demands: MongoDemands, tenant: str, job: str, spider: str = "page") -> None:
    """Measured, ended, closed and learnt from."""
    now = from_ms(to_ms(datetime.now(UTC)))
    figures = RunFigures(seconds=5.0, bytes=500, workers=1, began_at=now, ended_at=now)
    place = {"tenant": tenant, "biz": "docs", "job": job}
    demands.add_run([RunPart(**place, part="w.1", figures=figures)], now)
    run = RunRecord(**place, spider=spider, figures=figures, started_at=now, ended_at=now)
    demands.end_run(run)
    known = JobDemand(tenant=tenant, biz="docs", spider=spider)
    assert demands.close_run(run, known, learn(known, Usage(bandwidth=100.0)))
