"""Endpoints of AWS that have both address families, where the environment asks for them."""

import socket

import pytest

from infra.local.aws_server import CREDENTIALS
from tests.kit.aws import client

SERVICES = ("ssm", "secretsmanager", "lambda", "sns", "sqs")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_LAMBDA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_USE_DUALSTACK_ENDPOINT", "true")


def known(*names: str):
    """Make a resolver that knows these names alone."""

    def look_up(host, *_):
        if host not in names:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 443, 0, 0))]

    return look_up


@pytest.mark.parametrize("service", SERVICES)
def test_a_function_with_ipv6_talks_to_an_endpoint_that_has_both(service, monkeypatch):
    both = f"{service}.eu-west-1.api.aws"
    monkeypatch.setattr(socket, "getaddrinfo", known(both))

    assert client(service, region="eu-west-1").meta.endpoint_url == f"https://{both}"


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_without_one_there_is_called_where_it_always_was(service, monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", known())

    found = client(service, region="eu-west-1").meta.endpoint_url

    assert found == f"https://{service}.eu-west-1.amazonaws.com"


def test_nobody_is_looked_up_where_nothing_asks_for_it(monkeypatch):
    monkeypatch.delenv("AWS_USE_DUALSTACK_ENDPOINT")
    monkeypatch.setattr(socket, "getaddrinfo", None)

    found = client("ssm", region="eu-west-1").meta.endpoint_url

    assert found == "https://ssm.eu-west-1.amazonaws.com"
