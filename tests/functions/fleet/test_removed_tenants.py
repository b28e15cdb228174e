"""Operators remove tenants: everything of one goes, and nobody else loses anything."""

import dataclasses
import json
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.functions.api.undelivered import an_undelivered_item
from tests.functions.door import a_door
from tests.functions.http import ask
from tests.kit.config import read_documents, write_tree
from tests.kit.kernel import ConfigError, StoreUnavailableError, names
from tests.kit.tenancy import KeyFile
from tests.kit.worlds.functions import STAGE, biz, default_bizs

TENANTS = "/v1/fleet/tenants"
#: After so long everything has settled.
A_WHILE = timedelta(minutes=5)


@pytest.fixture(autouse=True)
def keys(world, tmp_path, monkeypatch):
    """A stage whose router makes keys in a file, and where acme is the operator."""
    file = tmp_path / "keys.json"
    file.write_text("{}")
    monkeypatch.setenv(names.ENV_KEYS_FILE, str(file))
    world.end_environments()
    world.push(default_bizs(), stage={"operators": [world.tenants["acme"]]})
    yield KeyFile(file)
    world.end_environments()


@pytest.fixture
def later(world):
    """Have the router's clock go on by so much at each call."""
    now = datetime.now(UTC)

    def move(by: timedelta = A_WHILE) -> None:
        nonlocal now
        now += by
        world.clocks[names.ROUTER] = lambda at=now: at
        world.end_environments()

    return move


def fill(world, first: str) -> None:
    """Have a tenant leave something wherever it can."""
    key, page = first, {"url": "http://127.0.0.1:9/x", "client_id": f"{first}-1"}

    def done(method: str, path: str, body, **headers: str) -> None:
        answer = ask(world, method, f"/v1/docs{path}", body, key=key, headers=headers or None)
        assert answer.status < 300, answer.text

    done("POST", "/requests", page, **{"Idempotency-Key": f"{first}-key"})
    done("POST", "/seeds", {"seeds": [{"url": "http://127.0.0.1:9/s"}]})
    done("PUT", "/spiders/walk", {"rule": "page", "start": {"urls": ["http://127.0.0.1:9/w"]}})
    done("PUT", "/schedules/daily", {"cron": "0 3 * * *", "spider": "walk"})
    done("POST", "/jobs", {"spider": "walk", "name": "june"})
    world.secrets.create_secret(
        Name=names.tenant_secret(STAGE, world.tenants[first], "token"), SecretString="hidden"
    )


def remove(world, first: str = "rival", **body):
    tenant = world.tenants.get(first, first)
    answer = ask(world, "POST", f"{TENANTS}/{tenant}/remove", body)
    assert answer.status == 200, answer.text
    return answer.json


def held(world, first: str) -> dict[tuple[str, str], int]:
    found = ask(world, "GET", f"{TENANTS}/{world.tenants[first]}/inventory").json["counts"]
    return {(one["store"], one["kind"]): one["count"] for one in found}


def mentions(world, tenant: str) -> list[str]:
    """Find a tenant's name anywhere in MongoDB and Redis."""
    found = [name for name in world.mongo.list_database_names() if tenant in name]
    for name in world.control.list_collection_names():
        found += [f"{name} {one}" for one in world.control[name].find() if tenant in repr(one)]
    for key in world.redis.scan_iter():
        if tenant.encode() in key or tenant.encode() in world.redis.dump(key):
            found.append(key.decode())
    return found


def test_a_removed_tenant_leaves_nothing_in_any_store_and_another_one_keeps_everything(
    world, keys, later
):
    rival = world.tenants["rival"]
    for first in ("rival", "acme"):
        fill(world, first)
    ask(world, "POST", f"{TENANTS}/{rival}/rotate-key")
    theirs = held(world, "acme")
    mine = held(world, "rival")
    assert {store for store, _ in mine} == {"redis", "mongodb", "secrets", "configuration", "keys"}

    states = [remove(world, delete=True)["state"]]
    later()
    states.append(remove(world, delete=True)["state"])
    later()
    deleting = remove(world)
    last = remove(world)

    assert states == ["settling", "withdrawn"]
    assert deleting["state"] == "deleting"
    assert last["state"] == "removed"
    assert last["left"] == []
    before = {(one["store"], one["kind"]): one["count"] for one in last["before"]}
    assert {one: before[one] for one in mine if one[0] == "mongodb"} == {
        one: count for one, count in mine.items() if one[0] == "mongodb"
    }
    assert any("export" in one for one in last["remains"])
    assert held(world, "rival") == {}
    assert mentions(world, rival) == []
    assert [path for path in read_documents(world.ssm, STAGE) if rival in path] == []
    assert [key for key in json.loads(keys._path.read_text()).values() if rival in key] == []
    assert held(world, "acme") == theirs
    world.secrets.delete_secret(
        SecretId=names.tenant_secret(STAGE, world.tenants["acme"], "token"),
        ForceDeleteWithoutRecovery=True,
    )


def test_a_removal_that_was_cut_off_goes_on_where_it_stopped(world, later):
    fill(world, "rival")
    remove(world)
    later()
    remove(world, delete=True)
    later()
    service, tree = world.context().removals, world.own.config.current()

    class Dying:
        """The second store's clearing ends the process."""

        store = "dying"

        def count(self, _tenant):
            return {}

        def clear(self, _tenant, _time_left):
            raise StoreUnavailableError("dying", "killed")

    def inventories(tree):
        first, *others = service.inventories(tree)
        return [first, Dying(), *others]

    cut_off = dataclasses.replace(service, inventories=inventories)
    now = world.clocks[names.ROUTER]()
    with pytest.raises(StoreUnavailableError):
        cut_off.advance(tree, world.tenants["rival"], now, in_flight=lambda: 0, delete=False)
    half_way = held(world, "rival")
    world.end_environments()
    states = [remove(world)["state"] for _ in range(2)]

    stores = {store for store, _ in half_way}
    assert "mongodb" in stores
    assert "redis" not in stores
    assert states == ["deleting", "removed"]
    assert mentions(world, world.tenants["rival"]) == []


def test_nothing_is_deleted_before_everybody_knows_and_leases_have_ended(world, later):
    fill(world, "rival")
    begun = remove(world, delete=True)
    later(timedelta(seconds=100))  # everybody knows, and a lease from before may go on
    waiting = remove(world, delete=True)
    refused = ask(world, "POST", "/v1/docs/requests", {"url": "http://127.0.0.1:9/"}, key="rival")
    read = ask(world, "GET", "/v1/docs/jobs", key="rival")

    assert [one["state"] for one in (begun, waiting)] == ["settling"] * 2
    assert begun["due_at"] == waiting["due_at"]
    assert (refused.status, read.status) == (403, 200)
    assert {one["kind"] for one in waiting["left"]} >= {"jobs", "spiders", "schedules"}


def test_work_in_flight_is_waited_for(world, later):
    rival = world.tenants["rival"]
    remove(world)
    later()
    service, tree = world.context().removals, world.own.config.current()
    now = world.clocks[names.ROUTER]()

    busy = service.advance(tree, rival, now, in_flight=lambda: 3, delete=True)
    free = service.advance(tree, rival, now, in_flight=lambda: 0, delete=False)

    assert (busy.state, busy.in_flight) == ("settling", 3)
    assert free.state == "settled"


def test_what_has_settled_waits_to_be_told_to_delete_and_may_be_resumed(world, later):
    fill(world, "rival")
    rival = world.tenants["rival"]
    remove(world)
    later()
    settled = remove(world)
    resumed = ask(world, "POST", f"{TENANTS}/{rival}/resume")
    page = {"url": "http://127.0.0.1:9/y"}
    taken = ask(world, "POST", "/v1/docs/requests", page, key="rival")

    assert settled["state"] == "settled"
    assert (resumed.status, taken.status) == (200, 202)
    assert remove(world)["state"] == "settling"  # from the beginning


def test_once_some_of_it_is_gone_it_only_goes_on(world, keys, later):
    rival = world.tenants["rival"]
    remove(world)
    later()
    remove(world, delete=True)

    refused = [
        ask(world, "POST", f"{TENANTS}/{rival}/{verb}").status for verb in ("resume", "rotate-key")
    ]
    added = ask(world, "POST", TENANTS, {"name": rival})
    with pytest.raises(ConfigError, match="is being removed"):
        write_tree(world.ssm, STAGE, {f"bizs/{rival}/docs": json.dumps(biz())})

    assert refused == [409, 409]
    assert added.status == 409
    assert "is being removed" in added.json["detail"]
    assert json.loads(keys._path.read_text()) == {}


def test_a_name_is_free_again_once_it_is_removed_and_a_repeated_call_says_that_nothing_is_left(
    world, later
):
    rival = world.tenants["rival"]
    for _ in range(2):
        remove(world, delete=True)
        later()
    assert remove(world)["state"] == "removed"

    repeated = ask(world, "POST", f"{TENANTS}/{rival}/remove")
    added = ask(world, "POST", TENANTS, {"name": rival})

    assert repeated.status == 404
    assert "of that name there is nothing" in repeated.json["detail"]
    assert added.status == 201


def test_operators_and_the_default_tenant_are_not_removed(world):
    before = read_documents(world.ssm, STAGE)

    answers = [
        ask(world, "POST", f"{TENANTS}/{one}/remove")
        for one in (world.tenants["acme"], "default", "nobody", "No_name")
    ]

    assert [one.status for one in answers] == [409, 404, 404, 400]
    assert read_documents(world.ssm, STAGE) == before


def test_only_operators_remove_tenants_and_see_what_they_hold(world):
    rival = f"{TENANTS}/{world.tenants['rival']}"

    answers = [
        ask(world, "POST", f"{rival}/remove", key="rival"),
        ask(world, "GET", f"{rival}/inventory", key="rival"),
    ]

    assert [one.json["type"] for one in answers] == ["urn:crawlfleet:problem:not-operator"] * 2


def test_where_functions_may_not_change_tenants_none_is_removed(world, monkeypatch):
    monkeypatch.delenv(names.ENV_KEYS_FILE)
    world.end_environments()

    answer = ask(world, "POST", f"{TENANTS}/{world.tenants['rival']}/remove")

    assert answer.status == 409
    assert "this function may change no tenants" in answer.text


def test_a_removal_for_another_revision_is_refused(world):
    rival = f"{TENANTS}/{world.tenants['rival']}"

    answer = ask(world, "POST", f"{rival}/remove", {"revision": "another"})

    assert answer.status == 409
    assert ask(world, "GET", rival).json["suspended"] is False


def test_the_program_removes_a_tenant_and_shows_what_there_was_and_that_nothing_is_left(
    world, crawlfleet, later
):
    fill(world, "rival")
    rival = world.tenants["rival"]

    def removal() -> list[str]:
        done = crawlfleet("tenant", "remove", rival, "--no-export", "--yes", "--no-wait")
        assert done.code == 0, done.err
        return done.lines

    asked = crawlfleet("tenant", "remove", rival, "--no-export")
    unsaid = crawlfleet("tenant", "remove", rival, "--yes")
    first = removal()
    later()
    second = removal()
    later()
    third, last = removal(), removal()

    assert (asked.code, unsaid.code) == (2, 2)
    assert "--yes" in asked.err
    assert "--export" in unsaid.err
    assert "not removed yet" in first[-1]
    assert "out of the configuration" in second[-1]
    assert "deleting" in third[-1]
    assert any(line.startswith(f"{rival} is removed") for line in last)
    [jobs] = [line.split() for line in last if line.split()[1:2] == ["jobs"]]
    assert jobs == ["mongodb", "jobs", "1", "0"]


def test_an_export_has_what_the_tenant_had_and_is_not_begun_again(
    world, crawlfleet, tmp_path, monkeypatch, later
):
    fill(world, "rival")
    an_undelivered_item(world, "rival", "docs", "given-up")
    stream = {"kind": "rss", "filter": "rain", "feeds": ["https://news.example/feed"]}
    put = ask(world, "PUT", "/v1/docs/subscriptions/press", stream, key="rival")
    assert put.status < 300, put.text
    rival, folder = world.tenants["rival"], tmp_path / "copy"
    with a_door(world, tmp_path) as door:
        monkeypatch.setenv("CRAWLFLEET_API_URL", door.url)
        monkeypatch.setenv("CRAWLFLEET_API_KEY", door.keys["acme"])
        command = ("tenant", "remove", rival, "--export", str(folder), "--yes", "--no-wait")
        begun = crawlfleet(*command)
        later()
        (folder / "docs").mkdir(parents=True)
        (folder / "docs" / "seeds.jsonl").write_text("of an earlier run")
        exported = crawlfleet(*command)

    assert (begun.code, exported.code) == (0, 0), exported.err
    assert "out of the configuration" in exported.lines[-1]
    lines = {
        file.relative_to(folder).as_posix(): file.read_text().splitlines()
        for file in folder.rglob("*.json*")
    }
    kinds = ("records", "requests", "dead_letters", "jobs", "schedules", "spiders", "seeds")
    kinds += ("subscriptions", "undelivered")
    files = {f"{one}/{kind}.jsonl" for one in ("docs", "secret") for kind in kinds}
    files |= {"docs/biz.json", "secret/biz.json"}
    assert lines.keys() == {"settings.json", *files}
    assert json.loads(lines["docs/biz.json"][0]) == default_bizs()["rival"]["docs"]
    assert [json.loads(line)["name"] for line in lines["docs/subscriptions.jsonl"]] == ["press"]
    [given_up] = [json.loads(line) for line in lines["docs/undelivered.jsonl"]]
    assert given_up["item"] == "given-up"
    assert [json.loads(line)["name"] for line in lines["docs/jobs.jsonl"]] == ["june"]
    assert "walk" in {json.loads(line)["name"] for line in lines["docs/spiders.jsonl"]}
    urls = {json.loads(line)["url"] for line in lines["docs/requests.jsonl"]}
    assert "http://127.0.0.1:9/x" in urls
    assert lines["docs/seeds.jsonl"] == ["of an earlier run"]


def test_the_program_waits_for_each_step_and_goes_on_to_the_end(
    world, crawlfleet, later, monkeypatch
):
    fill(world, "rival")
    rival, sleep, program = world.tenants["rival"], time.sleep, threading.current_thread()

    def pause(seconds: float) -> None:
        if threading.current_thread() is not program:  # a driver's
            sleep(seconds)
        elif seconds:
            later()

    monkeypatch.setattr("time.sleep", pause)
    done = crawlfleet("tenant", "remove", rival, "--no-export", "--yes")

    assert done.code == 0, done.err
    steps = ("is suspended", "out of the configuration", "deleting")
    assert [step in done.err for step in steps] == [True] * 3
    assert f"{rival} is removed" in done.out
    assert held(world, "rival") == {}
