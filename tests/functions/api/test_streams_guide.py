"""The guide to streams, done as it is written: each of its commands, in order."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.kit.worlds.functions import World, biz, default_bizs

ROOT = Path(__file__).resolve().parents[3]
GUIDE = (ROOT / "docs/guides/streams.md").read_text()
BLOCKS = re.findall(r"^```console\n(.*?)^```$", GUIDE, flags=re.MULTILINE | re.DOTALL)
COMMANDS = [shlex.split(line) for block in BLOCKS for line in block.splitlines()]


def test_the_guide_to_streams_does_what_it_says(
    world: World, crawlfleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    world.push(default_bizs() | {"acme": {"news": biz()}})
    said = []
    for program, *command in COMMANDS:
        assert program == "crawlfleet"
        done = crawlfleet(*command)
        assert done.code == 0, (command, done.err)
        said.append((command[1], done.out + done.err))

    tried = [text for verb, text in said if verb == "try"]
    assert len(tried) == 2
    assert all("takes 2 of 4 items" in text for text in tried)
    assert {verb for verb, _ in said} == {"try", "put", "list", "show", "end", "items"}
    [listed] = [text for verb, text in said if verb == "list"]
    assert "climate" in listed
    assert "energy" in listed
    left = crawlfleet("subscription", "list", "news", "--json")
    assert [left.json()["name"]] == ["climate"]
