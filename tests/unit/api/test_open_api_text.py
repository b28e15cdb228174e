"""The OpenAPI document says what everything means to those who have nothing but it."""

import re

import msgspec
import pytest

from tests.kit.api import all_routes, openapi
from tests.unit.api.test_dead_letter_routes import NoServices, an_event, ask

DOCUMENT = msgspec.json.decode(openapi.document())
SCHEMAS = DOCUMENT["components"]["schemas"]


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_every_field_says_what_it_means(name):
    fields = SCHEMAS[name].get("properties", {})

    assert [field for field, one in fields.items() if not one.get("description")] == []


def test_nothing_cites_what_users_do_not_have():
    text = openapi.document().decode()

    assert re.findall(r"SPEC\.md|\b[a-z_]+\.py\b|\(crawling\.|``", text) == []


def test_every_example_of_a_body_is_one_that_the_call_reads():
    seen = 0
    for route in all_routes():
        for name, value in openapi.EXAMPLES.get(route.operation, {}).items():
            fits = []
            for shape in route.body:
                try:
                    fits.append(msgspec.convert(value, shape))
                except msgspec.ValidationError:
                    continue
            assert fits, (route.operation, name)
            seen += 1
    assert seen == sum(len(each) for each in openapi.EXAMPLES.values()) > 8


def test_every_path_parameter_has_an_example_that_fits_it():
    for operations in DOCUMENT["paths"].values():
        for operation in operations.values():
            for parameter in operation["parameters"]:
                if parameter["in"] == "path":
                    assert re.match(parameter["schema"]["pattern"], parameter["example"])


@pytest.mark.parametrize(
    ("host", "path", "server"),
    [
        ("id.execute-api.eu.amazonaws.com", "/aws-large/openapi.json", "/aws-large"),
        ("id.execute-api.eu.amazonaws.com", "/openapi.json", "/"),
        ("id.execute-api.eu.amazonaws.com", None, "/"),
        ("127.0.0.1:4510", "/local/openapi.json", "/"),
    ],
)
def test_the_server_is_where_the_document_came_from(host, path, server):
    event = an_event(path="/openapi.json")
    event["requestContext"] |= {"path": path, "domainName": host}

    status, document = ask(NoServices(), event)

    assert (status, [each["url"] for each in document["servers"]]) == (200, [server])
