import pytest

from tests.kit.worlds.memory import World


@pytest.fixture
def world() -> World:
    return World()
