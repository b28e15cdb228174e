"""The description itself: complete, and free of contradictions."""

import ast
import sys
from pathlib import Path

import pytest

from infra import fleet
from infra.fleet import FLEET, FunctionSpec
from tests.kit.kernel import names

EACH_FUNCTION = pytest.mark.parametrize("spec", FLEET.functions, ids=lambda spec: spec.name)


def test_fleet_has_exactly_the_five_functions():
    assert {spec.name for spec in FLEET.functions} == set(names.FUNCTIONS)
    assert len(FLEET.functions) == 5


def test_invoked_functions_stand_before_those_that_invoke_them():
    seen: set[str] = set()
    for spec in FLEET.functions:
        seen.add(spec.name)
        assert set(spec.grants.invokes) <= seen


def test_each_function_may_invoke_what_it_needs_and_nothing_else():
    invokes = {spec.name: set(spec.grants.invokes) for spec in FLEET.functions}

    both = {names.ID_ISSUER, names.CONSUMER}
    assert invokes == {
        names.ROUTER: both,
        names.SCHEDULER: both,
        names.ID_ISSUER: set(),
        names.CONSUMER: both,  # seeds become requests; a worker calls for another one
        names.MONITOR: set(),
    }


def test_only_the_scheduler_changes_how_many_consumers_there_may_be():
    limits = {spec.name: spec.grants.limits for spec in FLEET.functions if spec.grants.limits}

    assert limits == {names.SCHEDULER: (names.CONSUMER,)}


def test_functions_invoked_without_a_waiting_caller_keep_dead_letters_but_of_wake_ups():
    """A wake-up that Lambda has no capacity for alerts nobody at night.

    The next tick calls for whoever is still missing then.
    """
    asynchronous = {spec.name for spec in FLEET.functions if spec.asynchronous}
    keeping = {spec.name for spec in FLEET.functions if spec.keeps_dead_letters}

    assert asynchronous == {names.CONSUMER, names.SCHEDULER, names.MONITOR}
    assert keeping == {names.SCHEDULER, names.MONITOR}
    assert {clock.function for clock in FLEET.clocks} <= asynchronous


@EACH_FUNCTION
def test_environment_names_are_among_those_of_names(spec: FunctionSpec):
    known = {value for key, value in vars(names).items() if key.startswith("ENV_")}

    assert set(spec.environment) <= known
    assert len(set(spec.environment)) == len(spec.environment)


@EACH_FUNCTION
def test_a_function_has_the_vendor_groups_that_its_groups_build_on(spec: FunctionSpec):
    needed = {base for group in spec.vendor for base in FLEET.vendor_group(group).base}

    assert needed <= set(spec.vendor)


@EACH_FUNCTION
def test_a_function_and_its_layers_pass_lambdas_count_of_five_layers(spec: FunctionSpec):
    ours = 1

    assert ours + len(spec.vendor) <= 5


def test_api_gateway_waits_longer_than_the_router_runs():
    assert FLEET.function(names.ROUTER).timeout_seconds < 29


def test_clocks_tick_in_whole_minutes():
    assert all(clock.every_seconds % 60 == 0 for clock in FLEET.clocks)


def test_fleet_file_imports_only_the_standard_library_and_names():
    tree = ast.parse(Path(fleet.__file__).read_text())

    imported = {
        alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    } | {
        (node.module or "").split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    }

    assert imported - set(sys.stdlib_module_names) == {"crawlfleet"}
