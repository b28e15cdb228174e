"""The description itself: complete, and free of contradictions."""

import ast
import math
import sys
from pathlib import Path

import pytest

from infra import fleet
from infra.fleet import FLEET, FunctionSpec, Grants
from tests.kit.kernel import names
from tests.kit.trials import TRIAL_SECONDS

EACH_FUNCTION = pytest.mark.parametrize("spec", FLEET.functions, ids=lambda spec: spec.name)


def test_fleet_has_exactly_the_six_functions_and_the_routers_code_once_more_for_operators():
    assert {spec.name for spec in FLEET.functions} == {*names.FUNCTIONS, names.OPERATORS}
    assert len(FLEET.functions) == 7
    assert FLEET.function(names.OPERATORS).code_of == names.ROUTER


def test_what_makes_keys_answers_operators_alone_and_invokes_nothing():
    spec = FLEET.function(names.OPERATORS)

    assert [one.name for one in FLEET.functions if one.grants.manages_tenants] == [spec.name]
    assert spec.grants == Grants(manages_tenants=True)
    assert {route.path for route in FLEET.routes if route.function == spec.name} == {
        "/v1/fleet/tenants",
        "/v1/fleet/tenants/{proxy+}",
    }
    assert all(route.api_key_required for route in FLEET.routes if route.function == spec.name)
    assert spec.timeout_seconds < 29  # API Gateway waits so long


def test_invoked_functions_stand_before_those_that_invoke_them():
    seen: set[str] = set()
    for spec in FLEET.functions:
        seen.add(spec.name)
        assert set(spec.grants.invokes) <= seen


def test_each_function_may_invoke_what_it_needs_and_nothing_else():
    invokes = {spec.name: set(spec.grants.invokes) for spec in FLEET.functions}

    both = {names.ID_ISSUER, names.CONSUMER}
    assert invokes == {
        names.ROUTER: both | {names.TRIALS},
        names.TRIALS: set(),
        names.OPERATORS: set(),
        names.SCHEDULER: both,
        names.ID_ISSUER: set(),
        names.CONSUMER: both,  # seeds become requests; a worker calls for another one
        names.MONITOR: set(),
    }


def test_what_reads_strangers_pages_for_a_trial_may_reach_nothing_of_the_platform():
    spec = FLEET.function(names.TRIALS)

    assert spec.grants == Grants(
        reads_config=False, reads_redis_secret=False, reads_node_secrets=False
    )
    assert not spec.in_network
    assert [one.name for one in FLEET.functions if not one.in_network] == [names.TRIALS]
    assert spec.timeout_seconds == 30 > TRIAL_SECONDS
    assert FLEET.function(names.ROUTER).timeout_seconds > TRIAL_SECONDS
    assert set(spec.environment) == {
        names.ENV_STAGE,
        names.ENV_LOG_LEVEL,
        names.ENV_SCRAPY_PACKAGES,
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


def test_ticks_that_take_all_of_their_time_leave_room_for_the_next_one_and_for_an_alarm():
    """Where the stores are slow each tick runs until Lambda ends it."""
    for clock in FLEET.clocks:
        spec = FLEET.function(clock.function)
        each = 2 if clock.again_seconds else 1
        running = math.ceil(spec.timeout_seconds * each / clock.every_seconds)

        assert spec.reserved_concurrency is not None
        assert running < spec.reserved_concurrency, spec.name


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
