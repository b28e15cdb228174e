"""Operators manage tenants on AWS as on one machine: by keys of API Gateway (SPEC.md C1)."""

import dataclasses
import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import boto3
import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from tests.functions.http import ask
from tests.kit.config import read_documents
from tests.kit.kernel import ConflictError, StoreUnavailableError, names
from tests.kit.tenancy import ApiGatewayKeys
from tests.kit.worlds.functions import STAGE, default_bizs

TENANTS = "/v1/fleet/tenants"
REGION = "eu-west-1"
#: After so long everything of a removal has settled.
A_WHILE = timedelta(minutes=5)


class Gateway:
    """API Gateway as a stage has it: a plan, the default key in it, and others beside."""

    def __init__(self) -> None:
        self.client = boto3.client("apigateway", region_name=REGION)
        self.other_plan = self.client.create_usage_plan(name="of-others")["id"]
        self.foreign = self.client.create_api_key(name="of-others", enabled=True)["id"]
        self.plan = self.client.create_usage_plan(name=f"crawlfleet-{STAGE}-default")["id"]
        self.default = self.client.create_api_key(name="default", enabled=True)["id"]
        self.admit(self.default, self.plan)
        self.admit(self.foreign, self.other_plan)

    def admit(self, key: str, plan: str) -> None:
        self.client.create_usage_plan_key(usagePlanId=plan, keyId=key, keyType="API_KEY")

    def keys(self) -> dict[str, dict]:
        """Every key of the account but the two that are no tenant's, by id."""
        found = self.client.get_api_keys(includeValues=True)["items"]
        return {one["id"]: one for one in found if one["id"] not in {self.default, self.foreign}}

    def admitted(self) -> set[str]:
        """The tenants' keys that API Gateway lets in."""
        found = self.client.get_usage_plan_keys(usagePlanId=self.plan)["items"]
        return {one["id"] for one in found} - {self.default}

    def clear(self) -> None:
        for key in (*self.keys(), self.default, self.foreign):
            self.client.delete_api_key(apiKey=key)
        for plan in (self.plan, self.other_plan):
            self.client.delete_usage_plan(usagePlanId=plan)


@pytest.fixture
def gateway(world, monkeypatch):
    """A stage whose operators' function makes keys in API Gateway; acme is the operator.

    Of other functions it knows nothing, as it may invoke none.
    """
    made = Gateway()
    monkeypatch.setenv(names.ENV_KEYS_REGION, REGION)
    monkeypatch.setenv(names.ENV_DEFAULT_API_KEY_ID, made.default)
    for variable in (
        names.ENV_CONSUMER_FUNCTION,
        names.ENV_ID_ISSUER_FUNCTION,
        names.ENV_TRIALS_FUNCTION,
    ):
        monkeypatch.delenv(variable)
    world.end_environments()
    world.push(default_bizs(), stage={"operators": [world.tenants["acme"]]})
    yield made
    world.end_environments()
    made.clear()


@pytest.fixture
def later(world):
    """Have the clock go on by so much at each call."""
    now = datetime.now(UTC)

    def move(by: timedelta = A_WHILE) -> None:
        nonlocal now
        now += by
        world.clocks[names.ROUTER] = lambda at=now: at
        world.end_environments()

    return move


def call(world, method, path, body=None):
    answer = ask(world, method, f"{TENANTS}{path}", body)
    assert answer.status < 300, answer.text
    return answer.json


def test_a_tenant_is_added_with_a_key_that_is_let_in_and_carries_the_stages_tag(world, gateway):
    made = call(world, "POST", "", {"name": "newcomer", "settings": {"share": 3}})

    [(key_id, key)] = gateway.keys().items()
    assert gateway.admitted() == {key_id}
    assert (key["value"], key["enabled"]) == (made["key"], True)
    assert key["tags"] == {
        "crawlfleet": STAGE,
        "crawlfleet-keys-of": STAGE,
        "crawlfleet-tenant": "newcomer",
    }
    assert made["tenant"]["keys"] == [{"id": key_id, "ends_at": None}]
    assert ask(world, "GET", "/v1/bizs", key=key_id).status == 200


def test_every_call_that_manages_tenants_works_without_a_deployment(world, gateway):
    call(world, "POST", "", {"name": "newcomer"})

    changed = call(world, "PATCH", "/newcomer", {"settings": {"share": 5}})
    suspended = call(world, "POST", "/newcomer/suspend")
    resumed = call(world, "POST", "/newcomer/resume")
    listed = {one["name"] for one in call(world, "GET", "")["tenants"]}

    assert changed["settings"] == {"share": 5}
    assert (suspended["suspended"], resumed["suspended"]) == (True, False)
    assert "newcomer" in listed


def test_a_keys_value_is_in_one_answer_and_in_no_document_and_no_log(world, gateway, capfd):
    first = call(world, "POST", "", {"name": "newcomer"})["key"]
    second = call(world, "POST", "/newcomer/rotate-key")["key"]
    shown = ask(world, "GET", f"{TENANTS}/newcomer").text + ask(world, "GET", TENANTS).text

    stored = json.dumps(read_documents(world.ssm, STAGE))
    said = "".join(capfd.readouterr())
    for key in (first, second):
        assert key not in shown + stored + said


def test_a_key_that_is_replaced_is_let_in_until_its_end_and_then_goes(world, gateway, later):
    call(world, "POST", "", {"name": "newcomer"})
    [first] = gateway.keys()
    call(world, "POST", "/newcomer/rotate-key", {"overlap_seconds": 60})
    both = gateway.admitted()
    [second] = both - {first}
    during = [ask(world, "GET", "/v1/bizs", key=key).status for key in (first, second)]
    later()
    after = [ask(world, "GET", "/v1/bizs", key=key).status for key in (first, second)]
    call(world, "POST", "/newcomer/rotate-key", {"overlap_seconds": 0})

    assert (during, after) == ([200, 200], [403, 200])
    assert len(gateway.keys()) == 1
    assert gateway.admitted() == set(gateway.keys())
    assert {first, second}.isdisjoint(gateway.keys())


def test_a_removed_tenants_keys_go_and_no_other_key_of_the_account(world, gateway, later):
    call(world, "POST", "", {"name": "newcomer"})
    call(world, "POST", "/newcomer/rotate-key")
    call(world, "POST", "", {"name": "another"})
    [others] = [key for key, one in gateway.keys().items() if "another" in one["name"]]

    for _ in range(2):
        call(world, "POST", "/newcomer/remove", {"delete": True})
        later()
    last = call(world, "POST", "/newcomer/remove")

    assert (last["state"], last["left"]) == ("removed", [])
    assert set(gateway.keys()) == gateway.admitted() == {others}
    everybody = {one["id"] for one in gateway.client.get_api_keys()["items"]}
    assert everybody == {others, gateway.default, gateway.foreign}


def error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": code}}, "AnyCall")


class Failing:
    """API Gateway whose calls of one kind fail: before anything is done, or after it was."""

    def __init__(self, client, method, errors, *, after=False) -> None:
        self.client, self.method, self.errors, self.after = client, method, list(errors), after

    def __getattr__(self, name):
        real = getattr(self.client, name)

        def asked(**arguments):
            if name != self.method or not self.errors:
                return real(**arguments)
            failure = self.errors.pop(0)
            if self.after:
                real(**arguments)
            raise failure

        return asked if name == self.method else real


def service(world, gateway, failing, pauses=None):
    """The service over an API Gateway that fails."""
    pause = (lambda _seconds: None) if pauses is None else pauses.append
    keys = ApiGatewayKeys(
        failing, failing, stage=STAGE, default_key_id=gateway.default, pause=pause
    )
    return dataclasses.replace(world.context().tenants, keys=keys)


NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)


def test_where_api_gateway_throttles_a_key_is_made_a_little_later(world, gateway):
    pauses: list[float] = []
    errors = [error("TooManyRequestsException")] * 3
    failing = Failing(gateway.client, "create_api_key", errors)

    _, key = service(world, gateway, failing, pauses).add("newcomer", {}, NOW)

    assert set(gateway.keys()) == gateway.admitted() == {key.id}
    assert len(pauses) == 3
    assert pauses == sorted(pauses)


def test_where_api_gateway_throttles_all_the_time_nothing_is_done_and_a_later_call_may(
    world, gateway
):
    failing = Failing(gateway.client, "create_api_key", [error("TooManyRequestsException")] * 5)
    tenants = service(world, gateway, failing)

    with pytest.raises(StoreUnavailableError):
        tenants.add("newcomer", {}, NOW)
    assert gateway.keys() == {}
    assert "tenants/newcomer" not in read_documents(world.ssm, STAGE)

    tenants.add("newcomer", {}, NOW)
    assert len(gateway.admitted()) == 1


def test_an_account_that_has_as_many_keys_as_it_may_is_told_so(world, gateway):
    failing = Failing(gateway.client, "create_api_key", [error("LimitExceededException")])

    with pytest.raises(ConflictError, match="the account has as many as it may"):
        service(world, gateway, failing).add("newcomer", {}, NOW)
    assert gateway.keys() == {}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_key_that_could_not_be_let_in_is_removed_again(world, gateway, after):
    timeout = ReadTimeoutError(endpoint_url="https://apigateway.test")
    failing = Failing(gateway.client, "create_usage_plan_key", [timeout], after=after)
    tenants = service(world, gateway, failing)

    with pytest.raises(StoreUnavailableError):
        tenants.add("newcomer", {}, NOW)
    assert gateway.keys() == {}
    assert gateway.admitted() == set()

    tenants.add("newcomer", {}, NOW)
    assert gateway.admitted() == set(gateway.keys())


def test_a_key_that_the_clients_own_first_try_let_in_is_let_in(world, gateway):
    failing = Failing(
        gateway.client, "create_usage_plan_key", [error("ConflictException")], after=True
    )

    _, key = service(world, gateway, failing).add("newcomer", {}, NOW)

    assert gateway.admitted() == {key.id}


class Killed(BaseException):
    """The process ends: nothing is put right any more."""


#: The calls of AWS that `add` makes, in their order.
STEPS = ("create_api_key", "create_usage_plan_key", "put_parameter")
#: Who is killed between making a key and letting it in leaves one that opens nothing.
BETWEEN = {("create_api_key", True), ("create_usage_plan_key", False)}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_call_that_is_killed_at_any_step_is_made_good_by_the_next_one(
    world, gateway, step, after
):
    failing = Failing(gateway.client, step, [Killed()], after=after)
    tenants = service(world, gateway, failing)
    if step == "put_parameter":
        tenants = dataclasses.replace(
            tenants, ssm=Failing(world.ssm, step, [Killed()], after=after)
        )
    with suppress(Killed):
        tenants.add("newcomer", {}, NOW)
    world.redis.flushall()  # the lock of who died ends by itself, a minute later
    later = NOW + timedelta(minutes=6)

    again = service(world, gateway, gateway.client)
    with suppress(ConflictError):  # it had been added
        again.add("newcomer", {}, later)
    standing, key = again.rotate("newcomer", timedelta(), None, later)

    assert standing.document.api_keys == (key.id,)
    assert gateway.admitted() == {key.id}
    unadmitted = gateway.keys().keys() - gateway.admitted()
    assert len(unadmitted) == ((step, after) in BETWEEN)


@pytest.mark.parametrize("step", ["delete_api_key", "delete_usage_plan_key"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_removal_that_is_killed_at_a_key_goes_on(world, gateway, later, step, after):
    call(world, "POST", "", {"name": "newcomer"})
    call(world, "POST", "/newcomer/rotate-key")
    for _ in range(2):
        call(world, "POST", "/newcomer/remove", {"delete": True})
        later()
    removals, tree = world.context().removals, world.own.config.current()
    cut_off = dataclasses.replace(
        removals,
        tenants=service(world, gateway, Failing(gateway.client, step, [Killed()], after=after)),
    )
    now = world.clocks[names.ROUTER]()
    with suppress(Killed):
        cut_off.advance(tree, "newcomer", now, in_flight=lambda: 0, delete=False)

    assert "tenants/newcomer" in read_documents(world.ssm, STAGE)
    world.redis.delete("cf:{fleet}:turns")  # its lock ends by itself, a minute later
    assert call(world, "POST", "/newcomer/remove")["state"] == "removed"
    assert gateway.keys() == {}
    assert gateway.admitted() == set()


def test_a_key_made_by_hand_is_taken_out_of_the_plan_where_it_may_not_be_removed(world, gateway):
    by_hand = gateway.client.create_api_key(name="by-hand", enabled=True)["id"]
    gateway.admit(by_hand, gateway.plan)
    # IAM: it has no tag of the stage's.
    failing = Failing(gateway.client, "delete_api_key", [error("AccessDeniedException")])

    service(world, gateway, failing).keys.remove(by_hand)

    assert set(gateway.keys()) == {by_hand}
    assert gateway.admitted() == set()


def test_the_deployments_own_key_is_never_removed(world, gateway):
    service(world, gateway, gateway.client).keys.remove(gateway.default)

    found = gateway.client.get_usage_plan_keys(usagePlanId=gateway.plan)["items"]
    assert [one["id"] for one in found] == [gateway.default]


def test_keys_are_listed_over_all_pages_and_those_of_other_names_are_left_out(world, gateway):
    named = [f"crawlfleet-{STAGE}-acme.20261124T120000Z.{n:012x}" for n in range(3)]
    pages = {
        None: {"items": [{"id": "a", "name": named[0]}, {"id": "x"}], "position": "1"},
        "1": {"items": [{"id": "b", "name": named[1]}], "position": "2"},
        "2": {"items": [{"id": "c", "name": named[2]}, {"id": "y", "name": "by-hand"}]},
    }

    class Paged:
        def __getattr__(self, name):
            return getattr(gateway.client, name)

        def get_usage_plan_keys(self, *, position=None, **_arguments):
            return pages[position]

    made = service(world, gateway, Paged()).keys.made()

    assert [(one.id, one.tenant) for one in made] == [("a", "acme"), ("b", "acme"), ("c", "acme")]
    assert {one.made_at for one in made} == {NOW}


def test_a_stage_whose_default_key_is_in_no_plan_makes_no_key(world, gateway):
    gateway.client.delete_usage_plan_key(usagePlanId=gateway.plan, keyId=gateway.default)

    answer = ask(world, "POST", TENANTS, {"name": "newcomer"})

    assert answer.status == 409
    assert "in no usage plan" in answer.json["detail"]
    assert gateway.keys() == {}
    gateway.admit(gateway.default, gateway.plan)
