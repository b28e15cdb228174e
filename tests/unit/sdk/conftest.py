from collections.abc import Callable, Iterator

import pytest

from tests.kit.api_server import KEY, ApiServer
from tests.kit.sdk import Client, Retries, Timeouts


class FakeClock:
    """Time that passes only while somebody sleeps, or by ``step`` with each look at it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.step = 0.0
        self.slept: list[float] = []
        self.on_sleep: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        self.now += self.step
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        self.on_sleep()


@pytest.fixture
def api() -> Iterator[ApiServer]:
    server = ApiServer()
    yield server
    server.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def client(api: ApiServer, clock: FakeClock) -> Iterator[Client]:
    with Client(
        api.url,
        KEY,
        # Long enough for a busy machine; the two servers that hang cost as much.
        timeouts=Timeouts(connect_seconds=2, read_seconds=3, total_seconds=10),
        retries=Retries(attempts=3),
        clock=clock,
    ) as fleet:
        yield fleet
