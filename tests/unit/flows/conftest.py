import pytest

from tests.unit.flows.world import World


@pytest.fixture
def world() -> World:
    return World()
