import email.utils
import gzip
import json
import logging
import time

import pytest

from tests.kit.api_server import BIZ, KEY, Fault, problem, record
from tests.kit.kernel import (
    ConflictError,
    CrawlfleetError,
    InvalidRequestError,
    NotFoundError,
    QuotaExceededError,
    UnknownTenantError,
)
from tests.kit.sdk import (
    Address,
    ApiError,
    CallTooLargeError,
    Client,
    NoApiError,
    Retries,
    Timeouts,
    Transport,
    UnavailableError,
    UnreachableError,
    faults,
    sdk,
)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(),
        Fault(hang=True),
        Fault(cut=True),
        Fault(429),
        Fault(502),
        Fault(503),
        Fault(504),
        Fault(200, b"no gzip", {"content-encoding": "gzip"}),
    ],
    ids=["dropped", "slow", "cut", "429", "502", "503", "504", "broken compression"],
)
def test_reading_is_tried_again_after_a_passing_failure(client, api, clock, fault):
    api.faults.append(fault)

    assert client.stats(BIZ).records == 0
    assert len(api.calls) == 2
    assert len(clock.slept) == 1


def test_tries_are_bounded_and_pauses_grow(api, clock):
    api.faults.extend(Fault(503) for _ in range(9))
    retries = Retries(attempts=5, base_seconds=1.0, max_seconds=4.0)

    with (
        Client(api.url, KEY, retries=retries, clock=clock) as fleet,
        pytest.raises(UnavailableError) as caught,
    ):
        fleet.stats(BIZ)

    assert caught.value.status == 503
    assert caught.value.retryable
    assert len(api.calls) == 5
    for pause, longest in zip(clock.slept, (1, 2, 4, 4), strict=True):
        assert longest / 2 <= pause <= longest


def test_a_date_in_retry_after_is_honoured(client, api, clock):
    later = email.utils.formatdate(time.time() + 20, usegmt=True)
    api.faults.append(Fault(503, headers={"retry-after": later}))

    client.stats(BIZ)

    assert 15 < clock.slept[0] <= 20


def test_nonsense_in_retry_after_is_passed_over(client, api, clock):
    api.faults.append(Fault(503, headers={"retry-after": "soon"}))

    client.stats(BIZ)

    assert clock.slept[0] <= 0.2


def test_a_server_that_asks_for_too_much_patience_is_not_waited_for(client, api, clock):
    api.faults.append(Fault(503, headers={"retry-after": "3600"}))

    with pytest.raises(UnavailableError) as caught:
        client.stats(BIZ)

    assert caught.value.retry_after_seconds == 3600
    assert clock.slept == []


def test_a_server_that_drips_is_left_when_the_whole_takes_too_long(api, clock):
    api.faults.append(Fault(drip=True))
    clock.step = 1.0
    timeouts = Timeouts(read_seconds=5, total_seconds=3)

    with (
        Client(api.url, KEY, timeouts=timeouts, retries=Retries(attempts=1), clock=clock) as fleet,
        pytest.raises(UnreachableError, match="in time"),
    ):
        fleet.stats(BIZ)


def test_an_answer_without_end_is_refused(api, clock):
    api.faults.append(Fault(200, gzip.compress(b" " * 1_000_000), {"content-encoding": "gzip"}))
    address = Address(api.url, KEY)
    calls = Transport(address, Timeouts(), Retries(), clock=clock, max_answer_bytes=1000)

    with pytest.raises(UnreachableError, match="too large"):
        calls.call("GET", f"/v1/{BIZ}/stats")
    calls.close()
    assert len(api.calls) == 1


@pytest.mark.parametrize("packed", [False, True])
def test_answers_may_come_in_chunks_and_compressed(client, api, packed):
    records = [record(str(n), 0, text="x" * 50) for n in range(2000)]
    page = json.dumps({"records": records, "cursor": "1", "more": False}).encode()
    api.faults.append(
        Fault(
            200,
            gzip.compress(page) if packed else page,
            {"content-encoding": "gzip"} if packed else {},
            chunks=700,
        )
    )

    assert len(list(client.records(BIZ))) == 2000
    assert client.stats(BIZ).records == 0


def test_a_redirect_is_not_followed_with_the_key(client, api):
    api.faults.append(Fault(302, headers={"location": f"{api.url}/elsewhere"}))

    with pytest.raises(ApiError, match=r"redirects to .*/elsewhere"):
        client.stats(BIZ)
    assert len(api.calls) == 1


def test_refusals_come_back_as_the_errors_they_were(client, api):
    def answered(status: int, document: object) -> CrawlfleetError:
        api.faults.append(Fault(status, json.dumps(document).encode()))
        with pytest.raises(CrawlfleetError) as caught:
            client.get(BIZ, "1")
        return caught.value

    assert type(answered(409, problem("conflict", 409, "x"))) is ConflictError
    assert type(answered(409, {"type": "urn:x:ConflictError"})) is ConflictError
    assert type(answered(404, {})) is NotFoundError
    assert type(answered(403, {"message": "Forbidden"})) is UnknownTenantError
    assert type(answered(400, ["what"])) is InvalidRequestError
    assert type(answered(413, {"title": "Too large"})) is CallTooLargeError
    assert type(answered(413, {"message": "Request Too Long"})) is CallTooLargeError
    too_large = {"type": "urn:crawlfleet:problem:too-large-body", "detail": "page.body: too long"}
    assert "page.body: " in str(answered(413, too_large))
    assert type(answered(500, {"title": "Oh"})) is ApiError
    api.faults.extend([Fault(429, json.dumps(problem("quota-exceeded", 429, "x")).encode())] * 2)
    assert type(answered(429, problem("quota-exceeded", 429, "x"))) is QuotaExceededError


def test_a_stranger_that_answers_in_its_own_way_is_quoted_briefly(client, api):
    api.faults.append(Fault(418, b"teapot " * 100))

    with pytest.raises(ApiError) as caught:
        client.stats(BIZ)

    assert "teapot" in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("status", [401, 403, 404, 409, 500])
def test_a_page_instead_of_an_answer_is_no_api_whatever_its_status(client, api, status):
    page = b"<!doctype html>\n<html><head>\n<title>It works!</title></head><body>hello"
    api.faults.append(Fault(status, page))

    with pytest.raises(NoApiError) as caught:
        client.stats(BIZ)

    assert f"({status})" in str(caught.value)
    assert str(caught.value).endswith("'It works!'")


def test_a_page_of_a_gateway_that_has_no_api_behind_it_now_asks_for_another_try(client, api):
    api.faults.extend(Fault(502, b"<html>Bad Gateway</html>") for _ in range(9))

    with pytest.raises(UnavailableError, match=r"502: a page\Z"):
        client.stats(BIZ)


def test_errors_of_a_strange_shape_are_left_out(client, api):
    strange = {"detail": "no", "errors": [5, {"field": "x"}, {"field": "url", "message": "bad"}]}
    api.faults.append(Fault(400, json.dumps(strange).encode()))

    with pytest.raises(InvalidRequestError, match="url: bad"):
        client.stats(BIZ)


def inside(thing):
    """Return everything that a debugger would show of the object."""
    return repr(getattr(thing, "__dict__", thing))


def test_the_key_appears_in_no_repr_error_or_log(client, api, caplog):
    caplog.set_level(logging.DEBUG)
    # Its own level too: a test before may have wired a function in this process.
    caplog.set_level(logging.DEBUG, logger="crawlfleet")
    echo = {"title": KEY, "detail": f"key {KEY}", "errors": [{"field": KEY, "message": KEY}]}
    shown = [repr(client), str(client), *map(inside, (client, *vars(client).values()))]
    for status in (400, 403, 404, 409, 418, 500):
        api.faults.append(Fault(status, json.dumps(echo).encode()))
        with pytest.raises(CrawlfleetError) as caught:
            client.stats(BIZ)
        shown += [str(caught.value), repr(caught.value), repr(vars(caught.value))]
    api.faults.extend([Fault(503, json.dumps(echo).encode()), Fault(500, KEY.encode())])
    with pytest.raises(ApiError) as caught:
        client.stats(BIZ)
    shown += [str(caught.value), repr(caught.value)]
    api.faults.append(Fault(200, json.dumps({"states": KEY}).encode()))
    with pytest.raises(ApiError) as caught:
        client.stats(BIZ)
    shown += [str(caught.value), caplog.text]

    assert "trying again" in caplog.text
    assert not [text for text in shown if KEY in text]


def test_a_name_that_nobody_knows_is_said_so(clock):
    with (
        Client("http://nobody.invalid", KEY, retries=Retries(attempts=1), clock=clock) as fleet,
        pytest.raises(UnreachableError, match=r"name|nobody"),
    ):
        fleet.stats(BIZ)


def test_a_plain_server_behind_https_is_said_so(api, clock):
    url = api.url.replace("http://", "https://")
    with (
        Client(url, KEY, retries=Retries(attempts=1), clock=clock) as fleet,
        pytest.raises(UnreachableError, match="TLS"),
    ):
        fleet.stats(BIZ)


def test_health_is_asked_without_a_biz(client):
    assert client.health()["status"] == "ok"
    assert client.deep_health().deep.stage == "test"


def test_all_that_the_sdk_raises_is_imported_from_it():
    raised = {
        name
        for name, kind in vars(faults).items()
        if isinstance(kind, type) and issubclass(kind, CrawlfleetError)
    }

    assert raised <= set(sdk.__all__)
    assert all(hasattr(sdk, name) for name in sdk.__all__)
