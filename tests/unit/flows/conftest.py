import pytest

from crawlfleet.flows import execution, leasing, settling
from tests.unit.flows.world import World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that takes no pauses that a test would have to wait for."""
    monkeypatch.setattr(execution, "TROUBLE_SECONDS", 0.01)
    monkeypatch.setattr(execution, "POLL_SECONDS", 0.005)
    monkeypatch.setattr(leasing, "REST_SECONDS", 0.01)
    monkeypatch.setattr(settling, "AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(settling, "SETTLE_SECONDS", 0.005)
