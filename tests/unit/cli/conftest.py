from collections.abc import Iterator

import pytest

from tests.cli_program import program
from tests.kit.api_server import KEY, ApiServer
from tests.kit.sdk import transport


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    server = ApiServer()
    monkeypatch.setenv("CRAWLFLEET_API_URL", server.url)
    monkeypatch.setenv("CRAWLFLEET_API_KEY", KEY)
    monkeypatch.setattr(transport.Retries, "pause", lambda *_: 0.0)
    yield server
    server.close()


@pytest.fixture
def crawlfleet(capfdbinary):
    """Runs the program; what it wrote, and its exit code."""
    return program(capfdbinary)
