import threading

import boto3
import pytest

from tests.contract.ssm_cases import CountedSsm
from tests.kit.aws import Secrets
from tests.kit.kernel import ConfigError


@pytest.fixture
def manager(aws):
    client = boto3.client("secretsmanager")
    client.create_secret(Name="crawlfleet/test/nodes/main", SecretString="mongodb://hunter2@db")
    client.create_secret(Name="bytes", SecretBinary=b"\x00\x01")
    return CountedSsm(client)


def test_a_secret_is_asked_for_once(manager):
    secrets = Secrets(manager)
    values = []
    threads = [
        threading.Thread(target=lambda: values.append(secrets.read("crawlfleet/test/nodes/main")))
        for _ in range(6)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert values == ["mongodb://hunter2@db"] * 6
    assert manager.calls == {"get_secret_value": 1}


def test_a_forgotten_secret_is_asked_for_again(manager):
    secrets = Secrets(manager)
    secrets.read("crawlfleet/test/nodes/main")
    manager.client.put_secret_value(SecretId="crawlfleet/test/nodes/main", SecretString="rotated")

    assert secrets.read("crawlfleet/test/nodes/main") == "mongodb://hunter2@db"
    secrets.forget("crawlfleet/test/nodes/main")
    assert secrets.read("crawlfleet/test/nodes/main") == "rotated"


def test_a_secret_that_is_not_there_is_a_error_of_the_setup(manager):
    with pytest.raises(ConfigError, match="secret nope:"):
        Secrets(manager).read("nope")


def test_a_secret_of_bytes_is_a_error_of_the_setup(manager):
    with pytest.raises(ConfigError, match="secret bytes:"):
        Secrets(manager).read("bytes")


def test_a_failure_is_not_remembered(manager):
    secrets = Secrets(manager)
    with pytest.raises(ConfigError):
        secrets.read("later")
    manager.client.create_secret(Name="later", SecretString="here")

    assert secrets.read("later") == "here"


def test_secrets_are_neither_shown_nor_logged(manager, caplog):
    secrets = Secrets(manager)
    with caplog.at_level("INFO"):
        secrets.read("crawlfleet/test/nodes/main")

    assert "hunter2" not in repr(secrets) + caplog.text
