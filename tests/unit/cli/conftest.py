from collections.abc import Iterator

import pytest

from tests.cli_program import program
from tests.kit.api_server import KEY, ApiServer


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    server = ApiServer()
    monkeypatch.setenv("CRAWLFLEET_API_URL", server.url)
    monkeypatch.setenv("CRAWLFLEET_API_KEY", KEY)
    monkeypatch.setattr("time.sleep", lambda _: None)  # the program is patient, and we are not
    yield server
    server.close()


@pytest.fixture
def crawlfleet(capfdbinary):
    """Runs the program; what it wrote, and its exit code."""
    return program(capfdbinary)
