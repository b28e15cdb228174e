"""The guide on tenants, done as it is written: each command, in order, on a local cloud."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.kernel import RejectedError
from tests.kit.sdk import Client
from tests.local_clouds import a_cloud
from tests.waiting import eventually

PAGE = Path(__file__).resolve().parents[2] / "docs/guides/tenants.md"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    with a_cloud(tmp_path_factory.mktemp("tenants") / "state") as cloud:
        yield cloud


def blocks(language: str) -> list[str]:
    block = rf"^```{language}\n(.*?)^```$"
    return re.findall(block, PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    lines = [line for block in blocks("console") for line in block.splitlines()]
    return [shlex.split(line) for line in lines if line.startswith("crawlfleet ")]


def submits(url: str, key: str) -> bool:
    """Tell whether the tenant of a key can submit; another process may know of it later."""
    try:
        with Client(url, key) as acme:
            return acme.submit("shop", "http://127.0.0.1:9/").accepted
    except RejectedError:
        return False


def test_the_guide_adds_a_tenant_that_works_and_no_key_is_in_any_log(cloud, tmp_path):
    place = tmp_path / "acme/bizs/acme"
    place.mkdir(parents=True)
    (place / "shop.yaml").write_text(blocks("yaml")[0])
    environment = {
        **os.environ,
        "CRAWLFLEET_API_URL": cloud.api_url,
        "CRAWLFLEET_API_KEY": cloud.api_key,
        "CRAWLFLEET_STATE": str(cloud.folder.path),
    }
    printed = {}
    for command in commands():
        program = [sys.executable, "-m", "crawlfleet.cli", *command[1:]]
        done = subprocess.run(
            program, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        printed[tuple(command[1:3])] = done.stdout

    keys = [printed["tenant", verb].strip().rpartition(": ")[2] for verb in ("add", "rotate-key")]
    for key in keys:
        eventually(lambda key=key: submits(cloud.api_url, key))
    with Client(cloud.api_url, cloud.api_key) as operator:
        shown = operator.tenant("acme")
    assert shown.settings["share"] == 3
    assert [one.most for one in shown.quotas] == [200_000, 1_000_000_000]
    assert "acme" in printed["tenant", "list"]
    assert "ceilings.in_flight" in printed["tenant", "show"]
    logs = [file for file in Path(cloud.addresses.log_dir).rglob("*") if file.is_file()]
    assert logs
    assert not [file for file in logs for key in keys if key in file.read_text(errors="replace")]
