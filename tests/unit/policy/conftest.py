"""Decisions, held to a share of lines and branches by their own tests."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker("measured")
