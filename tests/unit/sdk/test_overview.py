"""The overview by the SDK: read once, and only what has changed afterwards."""

import msgspec
import pytest

from tests.kit.api_server import Fault
from tests.kit.sdk import ApiError, sdk

AT = "2026-03-01T12:00:00.000Z"


def sent(tag: str, **fields: object) -> Fault:
    body = msgspec.json.encode({"at": AT, **fields})
    return Fault(200, body, {"etag": tag} if tag else {})


def test_an_overview_that_has_not_changed_is_the_one_that_is_known(client, api):
    api.faults += [sent('"a"', revision="r1"), Fault(304), sent('"b"', revision="r2"), Fault(304)]

    seen = [client.overview() for _ in range(4)]

    assert [one.revision for one in seen] == ["r1", "r1", "r2", "r2"]
    asked = [call.headers.get("if-none-match") for call in api.calls]
    assert asked == [None, '"a"', '"a"', '"b"']
    assert isinstance(seen[0], sdk.Overview)


def test_without_a_tag_every_overview_is_read_anew(client, api):
    api.faults += [sent('"a"'), sent(""), sent("")]

    for _ in range(3):
        client.overview()

    assert [call.headers.get("if-none-match") for call in api.calls] == [None, '"a"', None]


def test_an_overview_survives_a_call_that_failed(client, api):
    api.faults += [sent('"a"', revision="r1"), *[Fault(503)] * 3, Fault(304)]
    client.overview()

    with pytest.raises(sdk.CrawlfleetError):
        client.overview()

    assert client.overview().revision == "r1"


def test_an_unasked_304_is_an_error(client, api):
    api.faults.append(Fault(304))

    with pytest.raises(ApiError):
        client.overview()
