import pytest

from tests.kit.worlds.memory import World


@pytest.fixture
def world() -> World:
    return World()


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker("measured")
