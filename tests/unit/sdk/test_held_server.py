"""The server that SDK and CLI are tested against is held to the product's OpenAPI document."""

from types import SimpleNamespace

import pytest

from tests.kit.api_server import BIZ, ApiServer


@pytest.fixture
def drifts(api: ApiServer):
    """Return a function that takes the drifts noted by now, so that the server may be closed."""

    def reported() -> list[str]:
        found = [*api.drifts]
        api.drifts.clear()
        return found

    return reported


def test_an_answer_that_is_none_of_the_apis_is_noted_with_its_field(client, api, drifts):
    made = client.put_schedule(BIZ, "nightly", cron="0 3 * * *", urls="https://a.example/")
    assert drifts() == []
    del api.schedules["nightly"]["overlap"]

    assert client.schedule(BIZ, made.name).overlap == "allow"

    [reported] = drifts()
    assert reported.startswith("GET /v1/news/schedules/nightly: $: 'overlap'")


def test_a_call_that_the_api_would_not_take_is_noted_where_it_was_carried_out(client, api, drifts):
    api.schedule_desk.answer = lambda *_: (200, {"time_zone": "UTC", "runs": []})

    client.schedule_runs(BIZ, "nightly", 51)
    client.preview_schedule(BIZ, "", name="x" * 9)

    first, second = drifts()
    assert "51 " in first
    assert "$.cron: ''" in second


def test_a_status_or_a_route_that_there_is_not_is_noted(api, drifts):
    call = SimpleNamespace(method="GET", path="/v1/news/jobs", params={"colour": "red"}, body=b"")

    api.hold(call, 418, "application/json", b"{}")
    api.hold(call, 200, "text/html", b"")
    api.hold(call, 200, "application/json", b'{"jobs": [], "cursor": null, "more": false}')
    api.hold(SimpleNamespace(method="GET", path="/v2"), 200, "application/json", b"{}")

    reported = [each.partition(": ")[2] for each in drifts()]
    named = ["418 is not", "'text/html'", "'colour'", "no route"]
    assert all(name in one for name, one in zip(named, reported, strict=True))


def test_closing_a_server_that_has_drifted_fails():
    server = ApiServer()
    server.drifts.append("GET /v1/news/jobs: 418 is not documented")

    with pytest.raises(AssertionError, match="418"):
        server.close()
