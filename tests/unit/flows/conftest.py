from collections.abc import Iterator

import pytest

from tests.kit.bidding import probing
from tests.kit.politeness import turns
from tests.kit.sdk import courtesy, passages, visiting
from tests.kit.worker import execution, heart, heeding, leasing, owning, settling
from tests.steady import SteadyClock
from tests.unit.flows.world import World

#: Those who hold something for a time, wait for a turn, or judge a silence.
_TIMED = (courtesy, execution, heart, heeding, leasing, owning, passages, probing, turns, visiting)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(autouse=True)
def steady(monkeypatch: pytest.MonkeyPatch) -> Iterator[SteadyClock]:
    """A worker's leases, silences and turns go by a clock that a machine's standing still stops."""
    with SteadyClock() as clock:
        for module in _TIMED:
            monkeypatch.setattr(module, "time", clock.as_time)
        yield clock


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that takes no pauses that a test would have to wait for."""
    monkeypatch.setattr(execution, "TROUBLE_SECONDS", 0.01)
    monkeypatch.setattr(execution, "POLL_SECONDS", 0.005)
    monkeypatch.setattr(leasing, "REST_SECONDS", 0.01)
    monkeypatch.setattr(settling, "AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(settling, "SETTLE_SECONDS", 0.005)


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker("measured")
