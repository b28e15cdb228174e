"""The environment in memory, and the rooms that their own tests hold to a share of lines."""

from pathlib import Path

import pytest

from tests.kit.worlds.memory import World

_UNIT = Path(__file__).parent
_MEASURED = {
    *(
        "config",
        "console",
        "crawling",
        "fleet",
        "jobs",
        "kernel",
        "monitoring",
        "requests",
        "streams",
    ),
    "tenancy",
    "worker",
}
#: Parsers cost several times as much when they are traced; their tests say themselves what is.
_BY_THEMSELVES = {"extract", "executors"}


@pytest.fixture
def world() -> World:
    return World()


def pytest_itemcollected(item: pytest.Item) -> None:
    room, *within = item.path.relative_to(_UNIT).parts
    if room in _MEASURED and within[0] not in _BY_THEMSELVES:
        item.add_marker("measured")
