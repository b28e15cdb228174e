"""Operators add, change, suspend and resume tenants, and replace their keys (SPEC.md C1)."""

import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import EndpointConnectionError

from tests.functions.http import ask
from tests.kit.config import read_documents, write_tree
from tests.kit.kernel import ConflictError, StoreUnavailableError, names
from tests.kit.tenancy import KeyFile
from tests.kit.worlds.functions import STAGE, biz
from tests.waiting import eventually

TENANTS = "/v1/fleet/tenants"


@pytest.fixture(autouse=True)
def keys(world, tmp_path, monkeypatch):
    """A stage whose router makes keys in a file, and where acme is the operator."""
    file = tmp_path / "keys.json"
    file.write_text("{}")
    monkeypatch.setenv(names.ENV_KEYS_FILE, str(file))
    world.end_environments()
    world.push({"acme": {}, "rival": {}}, stage={"operators": [world.tenants["acme"]]})
    yield KeyFile(file)
    world.end_environments()


def key_ids(keys) -> dict[str, str]:
    return json.loads(keys._path.read_text())


def add(world, name="newcomer", **settings):
    answer = ask(world, "POST", TENANTS, {"name": name, "settings": settings})
    assert answer.status == 201, answer.text
    return answer.json


def test_a_tenant_that_was_added_submits_with_its_key_once_it_has_a_biz(world, keys):
    made = add(world, share=3)
    key_id = key_ids(keys)[made["key"]]
    folder = {"bizs/newcomer/docs": json.dumps(biz(collection="newcomer"))}
    write_tree(world.ssm, STAGE, folder)  # no document of the tenant is in it

    sent = ask(world, "POST", "/v1/docs/requests", {"url": "https://example.org/x"}, key=key_id)
    shown = ask(world, "GET", f"{TENANTS}/newcomer").json

    assert sent.status == 202
    assert made["tenant"]["settings"] == shown["settings"] == {"share": 3}
    assert (shown["bizs"], shown["keys"]) == (["docs"], [{"id": key_id, "ends_at": None}])
    assert shown["in_force"] is True
    assert shown["ready"] == 1
    world.mongo.drop_database("cf_newcomer_db")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", TENANTS, None),
        ("POST", TENANTS, {"name": "mine"}),
        ("GET", f"{TENANTS}/rival", None),
        ("PATCH", f"{TENANTS}/rival", {"settings": {"share": 9}}),
        ("POST", f"{TENANTS}/rival/suspend", None),
        ("POST", f"{TENANTS}/rival/resume", None),
        ("POST", f"{TENANTS}/rival/rotate-key", None),
    ],
)
def test_only_operators_manage_tenants(world, keys, method, path, body):
    answer = ask(world, method, path, body, key="rival")

    assert (answer.status, answer.json["type"]) == (403, "urn:crawlfleet:problem:not-operator")
    assert key_ids(keys) == {}


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"name": "No"}, ["name"]),
        ({"name": "default"}, ["name"]),
        (
            {"name": "a", "settings": {"share": 0, "shares": 1}},
            ["settings.share", "settings.shares"],
        ),
        ({"name": "a", "settings": {"api_keys": ["mine"]}}, ["settings.api_keys"]),
        ({}, ["name"]),
    ],
)
def test_wrong_fields_are_named_and_nothing_is_stored(world, keys, body, fields):
    before = read_documents(world.ssm, STAGE)

    answer = ask(world, "POST", TENANTS, body)

    assert (answer.status, sorted(answer.fields)) == (400, fields)
    assert (read_documents(world.ssm, STAGE), key_ids(keys)) == (before, {})


def test_a_tenant_is_added_once_and_keeps_its_key(world, keys):
    add(world, share=2)
    before = key_ids(keys)

    again = ask(world, "POST", TENANTS, {"name": "newcomer", "settings": {"share": 9}})

    assert again.status == 409
    assert "rotate its key" in again.json["detail"]
    assert key_ids(keys) == before
    assert ask(world, "GET", f"{TENANTS}/newcomer").json["settings"] == {"share": 2}


def test_settings_are_merged_and_a_change_for_an_older_revision_is_refused(world):
    first = add(world, share=2, ceilings={"in_flight": 5})["tenant"]["revision"]

    def change(revision, **settings):
        body = {"settings": settings, "revision": revision}
        return ask(world, "PATCH", f"{TENANTS}/newcomer", body)

    mine = change(first, ceilings={"trials": 9})
    theirs = change(first, ceilings={"in_flight": 50})
    after = change(mine.json["revision"], share=None)

    assert (mine.status, theirs.status, after.status) == (200, 409, 200)
    assert mine.json["revision"] in theirs.json["detail"]
    assert after.json["settings"] == {"ceilings": {"in_flight": 5, "trials": 9}}
    limits = {one["limit"]: one["allowed"] for one in after.json["ceilings"]}
    assert (limits["ceilings.in_flight"], limits["ceilings.trials"]) == (5, 9)


def test_a_change_that_others_pushed_in_between_is_made_of_what_they_left(world):
    add(world, share=2)
    theirs = [{"tenants/third": "{}"}, {"tenants/newcomer": '{"share":2,"description":"Ours."}'}]

    class Meddling:
        """Somebody else pushes whenever the tree was read, as long as there is something."""

        def __getattr__(self, name):
            return getattr(world.ssm, name)

        def get_parameters_by_path(self, **arguments):
            found = world.ssm.get_parameters_by_path(**arguments)
            if theirs:
                write_tree(world.ssm, STAGE, theirs.pop())
            return found

    service = dataclasses.replace(world.context().tenants, ssm=Meddling())
    changed = service.set("newcomer", {"share": 5}, None, datetime.now(UTC))

    documents = read_documents(world.ssm, STAGE)
    assert (changed.document.share, changed.document.description) == (5, "Ours.")
    assert json.loads(documents["tenants/newcomer"])["share"] == 5
    assert "tenants/third" in documents


def test_changes_that_several_operators_make_at_once_are_all_there(world):
    add(world)
    ceilings = {"in_flight": 5, "trials": 9, "documents": 5_000, "stored_bytes": 2_000_000}
    services = [world.context().tenants for _ in ceilings]

    def change(service, name: str) -> None:
        settings = {"ceilings": {name: ceilings[name]}}

        def is_changed() -> bool:
            with suppress(ConflictError):  # another one's turn has taken too long
                return service.set("newcomer", settings, None, datetime.now(UTC)) is not None
            return False

        eventually(is_changed)

    with ThreadPoolExecutor(len(ceilings)) as operators:
        list(operators.map(change, services, ceilings))

    shown = ask(world, "GET", f"{TENANTS}/newcomer").json
    assert shown["settings"] == {"ceilings": ceilings}


def test_a_suspended_tenant_reads_alone_until_it_is_resumed_and_files_change_nothing(world, keys):
    made = add(world)
    key = key_ids(keys)[made["key"]]
    write_tree(world.ssm, STAGE, {"bizs/newcomer/docs": json.dumps(biz(collection="newcomer"))})
    page = {"url": "https://example.org/x"}

    suspended = ask(world, "POST", f"{TENANTS}/newcomer/suspend").json
    refused = ask(world, "POST", "/v1/docs/requests", page, key=key)
    write_tree(world.ssm, STAGE, {"tenants/newcomer": "{}"})
    still = ask(world, "POST", "/v1/docs/requests", page, key=key)
    resumed = ask(world, "POST", f"{TENANTS}/newcomer/resume").json
    taken = ask(world, "POST", "/v1/docs/requests", page, key=key)

    assert (suspended["suspended"], resumed["suspended"]) == (True, False)
    assert (refused.status, still.status, taken.status) == (403, 403, 202)
    world.mongo.drop_database("cf_newcomer_db")


def test_an_operator_is_not_suspended(world):
    answer = ask(world, "POST", f"{TENANTS}/{world.tenants['acme']}/suspend")

    assert answer.status == 409
    assert ask(world, "GET", TENANTS).status == 200


def test_an_earlier_key_ends_with_its_overlap_and_then_goes(world, keys):
    made = add(world)
    first = key_ids(keys)[made["key"]]

    rotated = ask(world, "POST", f"{TENANTS}/newcomer/rotate-key", {"overlap_seconds": 60}).json
    second = key_ids(keys)[rotated["key"]]
    both = [ask(world, "GET", "/v1/bizs", key=key).status for key in (first, second)]
    later = datetime.now(UTC) + timedelta(seconds=61)
    world.clocks[names.ROUTER] = lambda: later
    world.end_environments()
    after = [ask(world, "GET", "/v1/bizs", key=key).status for key in (first, second)]
    body = {"overlap_seconds": 0}
    third = ask(world, "POST", f"{TENANTS}/newcomer/rotate-key", body).json

    assert (both, after) == ([200, 200], [403, 200])
    assert [one["id"] for one in rotated["tenant"]["keys"]] == [second, first]
    assert set(key_ids(keys).values()) == {third["tenant"]["keys"][0]["id"]}
    assert ask(world, "GET", "/v1/bizs", key=second).status == 403


def test_a_tenant_of_files_is_managed_from_its_first_call_on(world):
    rival = world.tenants["rival"]

    answer = ask(world, "POST", f"{TENANTS}/{rival}/rotate-key")
    assert answer.status == 200, answer.text
    changed = answer.json["tenant"]
    world.push({"acme": {}, "rival": {}}, stage={"operators": [world.tenants["acme"]]})

    shown = ask(world, "GET", f"{TENANTS}/{rival}").json
    assert changed["managed"] is True
    assert shown["keys"] == changed["keys"]


def test_the_list_shows_all_tenants_and_the_keys_that_calls_which_died_have_left(world, keys):
    add(world, share=4, needs={"workers": 1})
    left = keys.make("newcomer", datetime.now(UTC) - timedelta(hours=1))
    keys.make("newcomer", datetime.now(UTC))

    listed = ask(world, "GET", TENANTS).json
    tenants = {one["name"]: one for one in listed["tenants"]}
    ask(world, "POST", f"{TENANTS}/newcomer/rotate-key")
    after = ask(world, "GET", TENANTS).json

    assert tenants.keys() == {"default", "newcomer", *world.tenants.values()}
    newcomer = tenants["newcomer"]
    assert (newcomer["share"], newcomer["workers"], newcomer["keys"]) == (4, 1, 1)
    assert tenants[world.tenants["acme"]]["operator"] is True
    assert [one["key"] for one in listed["leftovers"]] == [left.id]
    assert after["leftovers"] == []
    assert left.id not in key_ids(keys).values()


def test_quotas_are_shown_with_their_use(world):
    quota = {"unit": "requests", "most": 100, "per": "day"}
    add(world, quotas=[quota])

    [shown] = ask(world, "GET", f"{TENANTS}/newcomer").json["quotas"]

    assert (shown["most"], shown["used"], shown["left"]) == (100, 0, 100)


def test_a_tenant_that_is_not_there_is_not_found(world, keys):
    calls = [("GET", ""), ("POST", "/suspend"), ("POST", "/resume"), ("POST", "/rotate-key")]

    answers = [ask(world, method, f"{TENANTS}/nobody{rest}").status for method, rest in calls]
    answers.append(ask(world, "PATCH", f"{TENANTS}/nobody", {"settings": {}}).status)

    assert answers == [404] * 5
    assert key_ids(keys) == {}


def test_where_functions_may_not_change_tenants_they_show_them_and_say_so(world, monkeypatch):
    monkeypatch.delenv(names.ENV_KEYS_FILE)
    world.end_environments()
    rival = f"{TENANTS}/{world.tenants['rival']}"
    before = read_documents(world.ssm, STAGE)

    refused = [
        ask(world, "POST", TENANTS, {"name": "newcomer"}),
        ask(world, "PATCH", rival, {"settings": {"share": 3}}),
        *(ask(world, "POST", f"{rival}/{verb}") for verb in ("suspend", "resume", "rotate-key")),
    ]

    assert [one.status for one in refused] == [409] * 5
    assert {"this function may change no tenants" in one.text for one in refused} == {True}
    assert read_documents(world.ssm, STAGE) == before
    assert ask(world, "GET", TENANTS).json["leftovers"] == []
    assert ask(world, "GET", rival).json["settings"] == {}


def test_a_configuration_that_would_be_refused_leaves_no_key(world, keys):
    world.ssm.put_parameter(
        Name=f"/crawlfleet/{STAGE}/bizs/nobody/docs", Value="{}", Type="String", Overwrite=True
    )

    answer = ask(world, "POST", TENANTS, {"name": "newcomer"})

    assert answer.status == 409
    assert "bizs/nobody/docs" in answer.json["detail"]
    assert key_ids(keys) == {}
    world.ssm.delete_parameter(Name=f"/crawlfleet/{STAGE}/bizs/nobody/docs")


def test_a_key_shows_in_no_repr(keys):
    made = keys.make("newcomer", datetime.now(UTC))

    assert made.key not in repr(made) + repr(keys)
    assert keys._path.stat().st_mode & 0o077 == 0


def test_the_key_of_the_deployment_is_not_replaced_here(world, keys):
    answer = ask(world, "POST", f"{TENANTS}/default/rotate-key")

    assert (answer.status, key_ids(keys)) == (409, {})
    assert "the deployment's" in answer.json["detail"]


def test_a_key_that_was_left_for_another_tenant_stays_for_its_own_next_change(world, keys):
    left = keys.make("somebody", datetime.now(UTC) - timedelta(hours=1))

    add(world)

    assert left.id in key_ids(keys).values()


def test_a_change_while_another_one_does_not_end_is_refused_and_leaves_nothing(world, keys):
    service = dataclasses.replace(world.context().tenants, pause=lambda _seconds: None)
    assert service.locks.acquire_lock("tenants", "another", timedelta(), timedelta(minutes=5))

    with pytest.raises(ConflictError, match="under way"):
        service.add("newcomer", {}, datetime.now(UTC))

    assert key_ids(keys) == {}


def test_a_key_stays_where_nobody_knows_whether_its_document_was_written(world, keys):
    class Dying:
        """Takes no more parameters from some moment on."""

        def __getattr__(self, name):
            return getattr(world.ssm, name)

        def put_parameter(self, **_arguments):
            raise EndpointConnectionError(endpoint_url="https://ssm.test")

    service = dataclasses.replace(world.context().tenants, ssm=Dying())
    with pytest.raises(StoreUnavailableError):
        service.add("newcomer", {}, datetime.now(UTC))
    half_done = list(key_ids(keys).values())
    later = datetime.now(UTC) + timedelta(minutes=6)
    told = service.leftovers(service.documents(), later)
    world.context().tenants.add("newcomer", {}, later)

    assert [one.id for one in told] == half_done
    assert len(half_done) == 1
    assert set(half_done).isdisjoint(key_ids(keys).values())


def test_a_change_gives_up_where_others_push_all_the_time(world):
    add(world)

    class Meddling:
        """Somebody else pushes whenever the tree was read."""

        count = 0

        def __getattr__(self, name):
            return getattr(world.ssm, name)

        def get_parameters_by_path(self, **arguments):
            found = world.ssm.get_parameters_by_path(**arguments)
            self.count += 1
            text = json.dumps({"description": str(self.count)})
            write_tree(world.ssm, STAGE, {"tenants/third": text})
            return found

    service = dataclasses.replace(world.context().tenants, ssm=Meddling())

    with pytest.raises(ConflictError, match="all the time"):
        service.set("newcomer", {"share": 5}, None, datetime.now(UTC))
