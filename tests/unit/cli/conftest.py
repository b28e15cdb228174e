import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.cli_program import program
from tests.kit.api_server import KEY, ApiServer


@pytest.fixture
def pausing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[float], None]], None]:
    """Takes what is done where the program pauses; a driver's threads beside it sleep as ever."""
    program_thread, sleep = threading.current_thread(), time.sleep

    def instead(pause: Callable[[float], None]) -> None:
        def paused(seconds: float) -> None:
            (pause if threading.current_thread() is program_thread else sleep)(seconds)

        monkeypatch.setattr("time.sleep", paused)

    return instead


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, pausing) -> Iterator[ApiServer]:
    server = ApiServer()
    monkeypatch.setenv("CRAWLFLEET_API_URL", server.url)
    monkeypatch.setenv("CRAWLFLEET_API_KEY", KEY)
    pausing(lambda _: None)  # the program is patient, and we are not
    yield server
    server.close()


@pytest.fixture
def crawlfleet(capfdbinary):
    """Runs the program; what it wrote, and its exit code."""
    return program(capfdbinary)
