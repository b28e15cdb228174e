"""A pushed configuration is in force within one poll, without a restart (SPEC.md A3)."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.functions.http import ask
from tests.kit.kernel import ConfigError, StoreUnavailableError, names
from tests.kit.worlds.functions import World

EVENTS = Path(__file__).parents[3] / "events" / "scheduler"

PAGE = {"url": "https://example.org/"}
DETAIL = {"fields": {"heading": {"css": "h1"}}}


def test_a_broken_document_is_refused_and_the_last_good_one_stays_in_force(world, capsys):
    assert ask(world, "POST", "/v1/docs/requests", PAGE).status == 202
    root = names.config_root("test")
    path = f"{root}/bizs/{world.tenants['acme']}/docs"
    world.ssm.put_parameter(Name=path, Value='{"rules": 7}', Type="String", Overwrite=True)
    world.ssm.put_parameter(
        Name=f"{root}/revision", Value="edited-by-hand", Type="String", Overwrite=True
    )

    assert ask(world, "POST", "/v1/docs/requests", PAGE).status == 202
    assert ask(world, "POST", "/v1/shop/requests", {**PAGE, "rule": "page"}).status == 202
    world.call(names.MONITOR, {})
    assert '"ConfigRefused":[1.0]' in capsys.readouterr().out.replace(" ", "")


def test_a_key_that_is_taken_from_a_tenant_is_turned_away_at_once(world):
    assert ask(world, "GET", "/v1/docs/stats").status == 200
    path = f"{names.config_root('test')}/tenants/{world.tenants['acme']}"
    world.ssm.put_parameter(Name=path, Value='{"api_keys": []}', Type="String", Overwrite=True)
    world.ssm.put_parameter(
        Name=f"{names.config_root('test')}/revision", Value="2", Type="String", Overwrite=True
    )

    assert ask(world, "GET", "/v1/docs/stats").status == 403


@pytest.fixture
def deployed(world: World) -> World:
    """Deployed a moment ago: nothing was pushed, and every environment is new."""
    pages = world.ssm.get_paginator("get_parameters_by_path")
    for page in pages.paginate(Path=names.config_root("test"), Recursive=True):
        for parameter in page["Parameters"]:
            world.ssm.delete_parameter(Name=parameter["Name"])
    world.end_environments()
    return world


def event(name: str) -> Any:
    return json.loads((EVENTS / f"{name}.json").read_text())["event"]


@pytest.mark.parametrize("name", ["tick", "alarm"])
def test_before_the_first_push_the_scheduler_has_nothing_to_do_and_does_not_fail(deployed, name):
    answer = deployed.call(names.SCHEDULER, event(name))

    assert list(answer) == ["nothing_to_do"]
    assert "/crawlfleet/test" in answer["nothing_to_do"]
    assert deployed.lambdas.calls == []


def test_before_the_first_push_the_monitor_evaluates_and_says_that_there_is_none(deployed, capsys):
    answer = deployed.call(names.MONITOR, {})

    assert answer == {"unwell": {}, "unread": []}
    reported = capsys.readouterr().out
    assert '"FindingConfigRefused":[1.0]' in reported
    assert '"Looks":[1.0]' in reported


def test_the_first_push_is_in_force_without_a_cold_start(deployed):
    deployed.call(names.SCHEDULER, event("tick"))
    deployed.fresh()

    assert "fires" in deployed.call(names.SCHEDULER, event("tick"))


def test_a_configuration_that_cannot_be_read_is_still_a_failure(deployed):
    deployed.dead.add("ssm")
    with pytest.raises(StoreUnavailableError):
        deployed.call(names.SCHEDULER, event("tick"))

    deployed.dead.clear()
    root = names.config_root("test")
    for name, value in (("stage", "{"), ("revision", "1")):
        deployed.ssm.put_parameter(Name=f"{root}/{name}", Value=value, Type="String")
    with pytest.raises(ConfigError, match="stage"):
        deployed.call(names.SCHEDULER, event("tick"))
