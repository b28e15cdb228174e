"""The command `make localstack`: what it refuses, and the clients it makes."""

import pytest

from infra.localstack.__main__ import main
from infra.localstack.clients import LocalStackAccess

ENVIRONMENT = {
    "AWS_ENDPOINT_URL": "http://127.0.0.1:4577",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
}


@pytest.mark.parametrize("pages", ["200", "299", "100000"])
def test_a_number_of_pages_that_the_journey_cannot_have_is_refused_with_the_bounds(pages, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["--pages", pages])

    said = capsys.readouterr().err
    assert "--pages: must be 300 to " in said
    assert "Traceback" not in said


def test_localstack_client_makes_the_clients_each_once(monkeypatch):
    # Of requirements/dev.txt; an environment that is older than it has none.
    pytest.importorskip("localstack_client")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    access = LocalStackAccess(ENVIRONMENT)

    made = access.client("ssm")

    assert made.meta.endpoint_url == "http://127.0.0.1:4577"
    assert made.meta.region_name == "us-east-1"
    assert made.meta.config.read_timeout < 60
    assert access.client("ssm") is made
    assert access.client("sqs") is not made
    assert type(access._session).__module__ == "localstack_client.session"
