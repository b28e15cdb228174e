import base64

import pytest

from tests.kit.api_server import BIZ, Fault
from tests.kit.config import Field, Rule
from tests.kit.kernel import InvalidRequestError, Problem

URL = "https://example.org/list"
RULE = {"fields": {"name": {"css": "b"}}}


def test_a_rule_is_tried_on_a_url(client, api):
    way = {"url": URL, "status": 200, "content_type": "text/html", "bytes": 9, "seconds": 0.1}
    api.trials.changes = {"fetched": {**way, "redirects": ["https://example.org/"]}}

    tried = client.try_rule(BIZ, "article", url=URL, depth=2)

    assert api.trials.asked == [{"rule": "article", "depth": 2, "url": URL}]
    assert tried.records[0] == {"name": "Nut", "price": 1.5}
    assert (tried.fetched.url, tried.fetched.redirects) == (URL, ("https://example.org/",))
    assert [(field.name, field.share) for field in tried.coverage] == [
        ("name", 1.0),
        ("price", 0.5),
    ]
    assert (tried.links[0].url, tried.links[0].rule) == ("https://example.org/nut", None)


@pytest.mark.parametrize("rule", [RULE, Rule(fields={"name": Field(css="b")})], ids=["map", "rule"])
def test_a_whole_rule_is_tried_on_a_page_as_text_or_as_bytes(client, api, rule):
    client.try_rule(BIZ, rule, page="<b>Nut</b>", page_url=URL)
    client.try_rule(BIZ, rule, page=b"\xff", content_type="text/html; charset=latin-1")

    text, raw = api.trials.asked
    assert text == {"rule": RULE, "depth": 0, "page": {"body": "<b>Nut</b>", "url": URL}}
    assert raw["page"] == {
        "body_base64": base64.b64encode(b"\xff").decode(),
        "content_type": "text/html; charset=latin-1",
    }


def test_a_page_that_could_not_be_fetched_is_reported(client, api):
    error = {
        "reason": "Throttled",
        "message": "example.org has no free slot now",
        "status": 0,
        "retryable": True,
        "retry_after_seconds": 12.5,
    }
    api.trials.changes = {"error": error, "records": []}

    tried = client.try_rule(BIZ, "article", url=URL)

    assert (tried.error.reason, tried.error.retry_after_seconds) == ("Throttled", 12.5)


def test_a_wrong_rule_is_an_error_that_names_its_field(client, api):
    api.trials.mistakes = [{"field": "rule.fields.name.css", "message": "is no selector"}]

    with pytest.raises(InvalidRequestError) as caught:
        client.try_rule(BIZ, RULE, url=URL)

    assert caught.value.problems == (Problem("rule.fields.name.css", "is no selector"),)


@pytest.mark.parametrize(
    ("pages", "said"),
    [
        ({}, "page: is missing.* url"),
        ({"page": "a", "url": URL}, "page: .*without url"),
    ],
    ids=["none", "two"],
)
def test_a_trial_needs_one_page(client, api, pages, said):
    with pytest.raises(InvalidRequestError, match=said):
        client.try_rule(BIZ, "article", **pages)
    assert api.calls == []


def test_a_fleet_that_is_busy_is_asked_again(client, api):
    api.faults.append(Fault(503))

    assert client.try_rule(BIZ, "article", url=URL).record_count == 2
    assert len(api.calls) == 2
