import json
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from crawlfleet.cli.main import run
from crawlfleet.sdk import transport
from tests.unit.sdk.api_server import KEY, ApiServer


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

    def call(*arguments: str) -> SimpleNamespace:
        capfdbinary.readouterr()
        code = run(arguments)
        out, err = (each.decode() for each in capfdbinary.readouterr())
        return SimpleNamespace(
            code=code,
            out=out,
            err=err,
            lines=out.splitlines(),
            json=lambda: json.loads(out),
            rows=lambda: [json.loads(line) for line in out.splitlines()],
        )

    return call
