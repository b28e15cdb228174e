"""Demands of runs, over the SDK."""

import pytest

from tests.kit.api_server import BIZ
from tests.kit.kernel import NotFoundError


@pytest.fixture
def known(api):
    nothing = {"average": 0.0, "maximum": 0.0}
    memory = {"average": 5.0, "maximum": 9.0}
    amounts = {"memory": memory, "cpu": nothing, "bandwidth": nothing}
    api.demands.extend(
        {"spider": name, "runs": 2, "measured_at": "2026-11-21T12:00:00.000Z", "usage": amounts}
        for name in ("a", "b", "c")
    )
    api.runs["nightly"] = {
        "job": "nightly",
        "spider": "a",
        "usage": amounts,
        "seconds": 4.0,
        "workers": 1,
        "requests": 10,
        "records": 9,
        "errors": 1,
        "bytes": 900,
        "counts": {"done": 9},
        "started_at": "2026-11-21T12:00:00.000Z",
        "ended_at": None,
        "learnt_at": None,
    }
    return api


def test_demands_come_page_by_page_each_once(client, known):
    found = list(client.demands(BIZ, page_size=2))

    assert [demand.spider for demand in found] == ["a", "b", "c"]
    assert (found[0].runs, found[0].usage.memory.maximum, found[0].usage.cpu.average) == (2, 9, 0)
    assert found[0].measured_at.year == 2026


def test_one_demand_and_one_run_are_read(client, known):
    assert client.demand(BIZ, "b").id == "b"
    run = client.run(BIZ, "nightly")
    assert (run.requests, run.counts, run.ended_at) == (10, {"done": 9}, None)


def test_what_is_not_known_is_not_found(client, known):
    with pytest.raises(NotFoundError):
        client.demand(BIZ, "z")
    with pytest.raises(NotFoundError):
        client.run(BIZ, "z")
