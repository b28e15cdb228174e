"""Health checks of the six functions: what runs, and what is wrong with its parts."""

import pytest

from tests.kit.fleet import TickPart
from tests.kit.kernel import VERSION, names
from tests.kit.worlds.functions import World

CHECK = {"health": True}
#: Some of what each runs.
RUNS = {
    names.ID_ISSUER: {"counter", "snowflake"},
    names.ROUTER: {"requests", "jobs"},
    names.CONSUMER: {"detail", "sitemap"},
    names.SCHEDULER: {part.value for part in TickPart},
    names.MONITOR: {"storage", "slow_operations"},
    names.TRIALS: {"detail", "sitemap"},
}
#: Those that read pages.
READING = {names.CONSUMER, names.TRIALS}
#: Those that have a configuration.
CONFIGURED = [name for name in names.FUNCTIONS if name != names.TRIALS]


@pytest.mark.parametrize("function", names.FUNCTIONS)
def test_a_function_says_its_version_its_configuration_and_what_it_runs(
    world: World, function: str
):
    keys, stored = sorted(world.redis_keys()), world.stored()

    found = world.call(function, CHECK)

    assert (found["function"], found["version"]) == (function, VERSION)
    configured = function in CONFIGURED
    assert found["revision"] == (world.own.config.current().revision if configured else "")
    assert found["config_refused"] is False
    assert set(found["runs"]) >= RUNS[function]
    parts = {"config": "ok", "redis": "ok", "mongodb:main": "ok"}
    assert found["parts"] == (parts if configured else {})
    assert found["healthy"] is True
    defences = {"cpu", "memory", "files", "environment"} if function in READING else set()
    assert {name for name in defences if found["reading"][name] == "ok"} == defences
    assert (sorted(world.redis_keys()), world.stored()) == (keys, stored)


@pytest.mark.parametrize("function", CONFIGURED)
def test_a_function_without_configuration_says_so_and_does_not_fail(world: World, function: str):
    world.end_environments()
    world.dead = {"ssm"}
    try:
        found = world.call(function, CHECK)
    finally:
        world.dead = set()

    assert (found["healthy"], found["revision"]) == (False, "")
    assert found["parts"] == {"config": "cannot be read"}
    assert found["version"] == VERSION
