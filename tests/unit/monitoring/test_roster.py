import pytest

from tests.kit.fleet import Health, WorkerHeartbeats, WorkerStatus
from tests.kit.kernel import UnknownBizError
from tests.kit.monitoring import workers
from tests.kit.worlds.memory import make_tree


class Seen:
    """A watch that has seen these."""

    def __init__(self, *heartbeats: WorkerHeartbeats) -> None:
        self._heartbeats = list(heartbeats)

    def heartbeats(self, silent_for=None) -> list[WorkerHeartbeats]:
        return self._heartbeats


def heartbeats_of(worker: str, silent_ms: int = 100, **held: int) -> WorkerHeartbeats:
    worker_status = WorkerStatus(
        started_ms=1_000, held={f"{t}/docs": n for t, n in held.items()}, done=9
    )
    return WorkerHeartbeats(
        worker=worker, silent_ms=silent_ms, intervals=(1_000,) * 20, worker_status=worker_status
    )


def test_a_worker_is_shown_with_what_it_holds_of_this_biz_alone():
    detector = Seen(heartbeats_of("w", default=3, acme=40))

    [mine] = workers(detector, make_tree(), "default", "docs")
    [theirs] = workers(detector, make_tree(), "acme", "docs")

    assert (mine.worker_status, theirs.worker_status) == (
        WorkerStatus(started_ms=1_000, held={"default/docs": 3}, done=9),
        WorkerStatus(started_ms=1_000, held={"acme/docs": 40}),
    )


def test_the_dead_come_before_the_suspected_before_the_living():
    detector = Seen(heartbeats_of("a"), heartbeats_of("b", 60_000), heartbeats_of("c", 4_400))

    found = workers(detector, make_tree(), "default", "docs")

    assert [(status.worker, status.health) for status in found] == [
        ("b", Health.DEAD),
        ("c", Health.SUSPECTED),
        ("a", Health.ALIVE),
    ]


def test_who_has_no_such_biz_sees_no_worker():
    with pytest.raises(UnknownBizError):
        workers(Seen(heartbeats_of("w")), make_tree(), "default", "nobiz")
