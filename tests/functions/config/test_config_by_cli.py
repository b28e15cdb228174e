"""``crawlfleet config history|show|changes|put|rollback`` on the real router."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kit.kernel import names
from tests.kit.worlds.functions import World, biz

Program = Callable[..., Any]
RULE_BELOW = "fields: {name: {css: h1}}\n"
RULE = "fields:\n  name: {css: h1}\n"


@pytest.fixture(autouse=True)
def operator(world: World, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stage whose router may write the configuration, and where acme is the operator."""
    monkeypatch.setenv(names.ENV_WRITES_CONFIG, "yes")
    world.end_environments()
    bizs = {"acme": {"docs": biz()}, "rival": {"docs": biz()}}
    world.push(bizs, stage={"operators": [world.tenants["acme"]]})
    yield
    world.end_environments()


@pytest.fixture
def docs(world: World) -> str:
    return f"bizs/{world.tenants['acme']}/docs"


def versions(crawlfleet: Program, *options: str) -> list[Any]:
    lines = crawlfleet("config", "history", "--json", *options).out.splitlines()
    return [json.loads(line) for line in lines]


def test_a_rule_is_tried_put_and_taken_back(crawlfleet: Program, docs: str, tmp_path: Path) -> None:
    rule, file = f"{docs}/rules/page", tmp_path / "page.yaml"
    file.write_text(RULE)
    before = crawlfleet("config", "show", rule)
    tried = crawlfleet("config", "put", rule, str(file), "--dry-run")
    put = crawlfleet("config", "put", rule, str(file), "--why", "A new head.")
    after = crawlfleet("config", "show", rule)
    newest, first = versions(crawlfleet, "--path", docs)
    changes = crawlfleet("config", "changes", first["revision"])
    back = crawlfleet("config", "rollback", first["revision"], "--path", docs)

    assert "nothing was written" in tried.out
    assert "0 open requests" in tried.err
    assert (put.code, back.code) == (0, 0), put.err
    assert "in force within" in put.out
    assert "name:" in after.out
    assert newest["why"] == "A new head."
    assert f"{docs}: changed" in changes.out
    assert crawlfleet("config", "show", rule).out == before.out
    assert "A new head." in crawlfleet("config", "history").out


def test_mistakes_are_told_and_what_contradicts_itself_is_refused(
    crawlfleet: Program, docs: str, tmp_path: Path
) -> None:
    file = tmp_path / "page.yaml"
    file.write_text("fields:\n  name: {css: 'p['}\n")

    wrong = crawlfleet("config", "put", f"{docs}/rules/page", str(file))
    neither = crawlfleet("config", "put", f"{docs}/rules/page")
    stale = crawlfleet("config", "put", f"{docs}/weight", "--remove", "--revision", "mine")
    nowhere = crawlfleet("config", "show", "bizs/none/at-all")

    assert "rules.page.fields.name.css" in wrong.err
    assert "--remove" in neither.err
    assert 0 not in {wrong.code, neither.code, stale.code, nowhere.code}


def test_a_folder_is_put_as_one_change_and_one_mistake_refuses_all(
    crawlfleet: Program, world: World, docs: str, tmp_path: Path
) -> None:
    folder = tmp_path / "bizs" / world.tenants["acme"]
    folder.mkdir(parents=True)
    (folder / "news.yaml").write_text("collection: news\nrules:\n  page:\n    " + RULE_BELOW)
    (folder / "docs.yaml").write_text("weight: 0\n")

    refused = crawlfleet("config", "put", "--folder", str(tmp_path))
    (folder / "docs.yaml").unlink()
    put = crawlfleet("config", "put", "--folder", str(tmp_path), "--why", "News.", "--json")
    both = crawlfleet("config", "put", docs, "--folder", str(tmp_path))

    assert f"{docs}: weight" in refused.err
    assert [one["path"] for one in put.json()["differences"]] == [docs.replace("docs", "news")]
    assert versions(crawlfleet)[0]["why"] == "News."
    assert both.code == 2


def test_what_is_at_a_path_is_removed(crawlfleet: Program, docs: str, tmp_path: Path) -> None:
    file = tmp_path / "politeness.json"
    file.write_text('{"per_second": 2}')

    crawlfleet("config", "put", f"{docs}/politeness", str(file))
    shown = crawlfleet("config", "show", f"{docs}/politeness", "--json").json()
    removed = crawlfleet("config", "put", f"{docs}/politeness", "--remove", "--json").json()
    changed = crawlfleet("config", "changes", shown["revision"], removed["revision"], "--json")
    again = crawlfleet("config", "rollback", removed["revision"])

    assert shown["content"] == {"per_second": 2}
    assert removed["written"] is True
    assert [one["path"] for one in changed.json()["differences"]] == [docs]
    assert "nothing to do" in again.out
