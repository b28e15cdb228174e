"""Samples of a stage, as the monitor judges them."""

from tests.kit.config import Stage, Tenant, Thresholds, Tree
from tests.kit.fleet import Ticked
from tests.kit.incidents import Evaluation, Kind
from tests.kit.kernel import QueueKey
from tests.kit.monitoring import QueueSample, Sample, StreamsSample, WorkersSample
from tests.kit.queue import Depth, NodeHealth, Rates
from tests.kit.requests import Ledger
from tests.kit.worlds.incidents import START
from tests.kit.worlds.memory import make_biz

QUEUE_KEY = QueueKey("acme", "docs", "main")


def a_tree(biz: dict | None = None, **thresholds: object) -> Tree:
    return Tree(
        revision="1",
        stage=Stage(thresholds=Thresholds(**thresholds)),
        tenants={"acme": Tenant()},
        bizs={"acme": {"docs": make_biz(**(biz or {}))}},
    )


def a_queue_key(**changes: object) -> QueueSample:
    facts: dict = {
        "queue_key": QUEUE_KEY,
        "depth": Depth(queued=0, leased=0, delayed=0),
        "processed": Rates(per_1s=0.0, per_5s=0.0, per_60s=0.0),
        "ledger": Ledger(),
        "difference": 0,
        "finish_seconds": 0.0,
    }
    return QueueSample(**{**facts, **changes})


def a_sample(*queues: QueueSample, **changes: object) -> Sample:
    facts: dict = {
        "at": START,
        "queues": queues,
        "workers": WorkersSample(alive=1, present=1),
        "stray_items": 0,
        "stray_requests": 0,
        "ticked": Ticked(seconds_ago=1.0),
        "used_up": (),
        "failed_fires": (),
        "streams": StreamsSample(),
    }
    return Sample(**{**facts, **changes})


def a_part(part: str = "mongodb", name: str = "main", **figures: float) -> NodeHealth:
    return NodeHealth(part=part, name=name, up=True, figures=figures)


def kinds(evaluation: Evaluation) -> set[Kind]:
    return {finding.kind for finding in evaluation.findings}


def the(evaluation: Evaluation, kind: Kind):
    [finding] = [each for each in evaluation.findings if each.kind is kind]
    return finding
