import json
import subprocess
import sys

import pytest

from tests.kit.kernel import ConfigError
from tests.kit.sdk import Client, find_address


@pytest.fixture
def local(tmp_path):
    def write(url="http://127.0.0.1:4510", key="local-key"):
        folder = tmp_path / ".crawlfleet"
        folder.mkdir(exist_ok=True)
        (folder / "local.json").write_text(json.dumps({"api_url": url, "api_key": key, "pid": 1}))
        below = tmp_path / "a" / "b"
        below.mkdir(parents=True, exist_ok=True)
        return below

    return write


ENVIRON = {
    "CRAWLFLEET_API_URL": "https://api.example.org/aws-large/",
    "CRAWLFLEET_API_KEY": "env-key",
}


def test_arguments_come_before_the_environment_and_that_before_the_file(local):
    below = local()

    given = find_address("http://given", "given-key", environ=ENVIRON, start=below)
    environ = find_address(environ=ENVIRON, start=below)
    found = find_address(environ={}, start=below)

    assert (given.api_url, given.api_key) == ("http://given", "given-key")
    assert (environ.api_url, environ.api_key) == ("https://api.example.org/aws-large", "env-key")
    assert (found.api_url, found.api_key) == ("http://127.0.0.1:4510", "local-key")


def test_the_key_of_the_file_goes_to_its_own_address_only(local):
    below = local()

    same = find_address("http://127.0.0.1:4510/", environ={}, start=below)
    assert same.api_key == "local-key"
    with pytest.raises(ConfigError, match="api_key: "):
        find_address("http://elsewhere", environ={}, start=below)


def test_another_key_may_be_used_with_the_address_of_the_file(local):
    found = find_address(environ={"CRAWLFLEET_API_KEY": "mine"}, start=local())

    assert (found.api_url, found.api_key) == ("http://127.0.0.1:4510", "mine")


def test_a_file_that_leads_to_another_machine_is_refused(local):
    with pytest.raises(ConfigError, match="another machine"):
        find_address(environ={}, start=local(url="https://evil.example"))
    with pytest.raises(ConfigError, match="another machine"):
        find_address(environ={}, start=local(url="http://[broken"))


def test_a_broken_file_is_named(local, tmp_path):
    below = local()
    (tmp_path / ".crawlfleet" / "local.json").write_text("{")

    with pytest.raises(ConfigError, match=r"local\.json: "):
        find_address(environ={}, start=below)


def test_a_state_folder_that_the_environment_names_is_the_only_one(local, tmp_path):
    below = local()
    state = tmp_path / "state"
    state.mkdir()
    environ = {"CRAWLFLEET_STATE": str(state)}

    with pytest.raises(ConfigError, match="api_url: ") as caught:
        find_address(environ=environ, start=below)
    assert f"CRAWLFLEET_STATE names {state}, which has no local.json" in str(caught.value)
    (state / "local.json").write_text('{"api_url": "http://127.0.0.1:1", "api_key": "k"}')
    found = find_address(environ=environ, start=below)

    assert (found.api_url, found.api_key) == ("http://127.0.0.1:1", "k")


def test_what_is_missing_is_named_at_once_with_a_remedy(tmp_path):
    with pytest.raises(ConfigError) as caught:
        find_address(environ={}, start=tmp_path)

    assert [problem.field for problem in caught.value.problems] == ["api_url"]
    assert "CRAWLFLEET_API_URL" in str(caught.value)
    assert "crawlfleet up" in str(caught.value)
    assert str(caught.value).count("start a local cloud") == 1
    assert "CRAWLFLEET_API_KEY" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x",
        "example.org",
        "http://",
        "http://user:word@x",
        "http://x?a=1",
        "http://x#a",
        "http://[x",
        "http://x:port",
        "http://x:0",
    ],
)
def test_an_unusable_address_is_refused(url):
    with pytest.raises(ConfigError, match="api_url") as caught:
        find_address(url, "key", environ={})
    assert "word" not in str(caught.value)


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel", "x" * 513])
def test_an_unusable_key_is_refused_without_being_shown(key):
    with pytest.raises(ConfigError, match="api_key") as caught:
        find_address("http://x", key, environ={})
    assert key not in str(caught.value)


def test_an_address_shows_its_url_and_not_its_key():
    address = find_address("http://x", "very-secret", environ={})

    assert repr(address) == "Address(api_url='http://x')"
    assert not address.on_this_machine
    assert find_address("http://[::1]:80", "k", environ={}).on_this_machine
    assert find_address("http://localhost", "k", environ={}).on_this_machine


def test_the_client_reads_the_process_environment(monkeypatch):
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)

    with Client() as fleet:
        assert repr(fleet) == "Client(api_url='https://api.example.org/aws-large')"


def test_importing_the_sdk_brings_in_no_command_line_and_no_cloud():
    heavy = "{'rich', 'click', 'boto3', 'botocore', 'pymongo', 'redis', 'aiohttp', 'lxml'}"
    program = f"import sys, crawlfleet.sdk; print(sorted({heavy} & set(sys.modules)))"

    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )

    assert done.stdout.strip() == "[]"
