"""A removal of a tenant that is killed again and again, at any step, ends as one that never was."""

import dataclasses
import json
import random
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from tests.functions.api.undelivered import an_undelivered_item, forget_deliveries
from tests.functions.fleet.test_removed_tenants import A_WHILE, fill, held, mentions
from tests.kit.config import read_documents
from tests.kit.kernel import NotFoundError, names
from tests.kit.tenancy import KeyFile
from tests.kit.worlds.functions import STAGE, default_bizs


@pytest.fixture(autouse=True)
def keys(world, tmp_path, monkeypatch):
    """A stage whose functions make keys in a file, and where acme is the operator."""
    file = tmp_path / "keys.json"
    file.write_text("{}")
    monkeypatch.setenv(names.ENV_KEYS_FILE, str(file))
    world.fresh(default_bizs())
    world.end_environments()
    world.push(default_bizs(), stage={"operators": [world.tenants["acme"]]})
    yield KeyFile(file)
    forget_deliveries(world)
    world.end_environments()


class KilledError(BaseException):
    """The process is gone: nothing that it would do next is done, not even putting things right."""


class Life:
    """A process that is killed after so many steps; a step is before and after each deed."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise KilledError


class Mortal:
    """An object some of whose methods are deeds of a process."""

    def __init__(self, real, life: Life, *deeds: str) -> None:
        self._real, self._life, self._deeds = real, life, deeds

    def __getattr__(self, name):
        found = getattr(self._real, name)
        if name not in self._deeds:
            return found

        def done(*arguments, **named):
            self._life.step()
            result = found(*arguments, **named)
            self._life.step()
            return result

        return done


class MortalInventory:
    """An inventory that may be killed wherever it looks at the time, and so between its deeds."""

    def __init__(self, real, life: Life) -> None:
        self.store, self._real, self._life = real.store, real, life

    def count(self, tenant):
        return self._real.count(tenant)

    def clear(self, tenant, time_left):
        def looked_at() -> float:
            self._life.step()
            return time_left()

        self._life.step()
        self._real.clear(tenant, looked_at)
        self._life.step()


def mortal(removals, life: Life):
    """The service as a process of that life has it."""
    tenants = removals.tenants
    return dataclasses.replace(
        removals,
        tenants=dataclasses.replace(
            tenants,
            ssm=Mortal(tenants.ssm, life, "put_parameter", "delete_parameters"),
            keys=Mortal(tenants.keys, life, "remove"),
            locks=Mortal(tenants.locks, life, "acquire_lock", "release_lock"),
        ),
        inventories=lambda tree: [MortalInventory(one, life) for one in removals.inventories(tree)],
    )


def lives(kind: str):
    """How many steps each process lives: a little longer each time, or by chance."""
    if kind == "longer":
        return iter(range(1, 1_000, 3))
    by_chance = random.Random(kind)
    return iter(lambda: by_chance.choice((by_chance.randint(1, 20), 7, 200)), None)


@pytest.mark.parametrize("kind", ["longer", "first", "second"])
def test_a_removal_that_is_killed_again_and_again_ends_as_one_that_never_was(world, keys, kind):
    rival = world.tenants["rival"]
    for first in ("rival", "acme"):
        fill(world, first)
        an_undelivered_item(world, first, "docs")
    key = keys.make(rival, datetime.now(UTC))
    theirs = held(world, "acme")
    service, now = world.context().removals, datetime.now(UTC)
    deaths, each, told = 0, lives(kind), "of that name there is nothing"

    state = ""
    for _ in range(500):
        removals = mortal(service, Life(next(each)))
        tree = world.own.config.current()
        try:
            state = removals.advance(tree, rival, now, in_flight=lambda: 0, delete=True).state
        except KilledError:
            deaths += 1
            world.redis.delete("cf:{fleet}:turns")  # its lock ends by itself, a minute later
        except NotFoundError as error:
            # It was killed with its answer in its hands: whoever asks again is told so.
            state, told = "removed", str(error)
        if state == "removed":
            break
        now += A_WHILE

    assert state == "removed"
    assert deaths >= 2
    assert "of that name there is nothing" in told
    world.end_environments()
    assert held(world, "rival") == {}
    assert mentions(world, rival) == []
    assert [path for path in read_documents(world.ssm, STAGE) if rival in path] == []
    assert key.id not in json.loads(keys._path.read_text()).values()
    assert held(world, "acme") == theirs
    with suppress(world.secrets.exceptions.ResourceNotFoundException):
        world.secrets.delete_secret(
            SecretId=names.tenant_secret(STAGE, world.tenants["acme"], "token"),
            ForceDeleteWithoutRecovery=True,
        )


def test_items_that_others_have_too_stay_and_what_is_a_tenants_own_of_them_goes(world):
    rival, acme = world.tenants["rival"], world.tenants["acme"]
    for first in ("rival", "acme"):
        an_undelivered_item(world, first, "docs", "shared")
    an_undelivered_item(world, "rival", "docs", "of-rival-alone")
    control = world.own.nodes.control
    before = held(world, "rival")

    service, now = world.context().removals, datetime.now(UTC)
    for _ in range(4):
        tree = world.own.config.current()
        service.advance(tree, rival, now, in_flight=lambda: 0, delete=True)
        now += A_WHILE

    assert before["mongodb", "stream deliveries"] == 2
    assert before["mongodb", "stream receivers"] == 1
    assert held(world, "rival") == {}
    assert control("stream_deliveries").count_documents({"tenant": acme}) == 1
    items = list(control("stream_items").find())
    # What is not known of anybody stays until it expires.
    assert len(items) == 2
    assert not [one for one in items if rival in repr(one)]
    assert all(one["expires_at"] < datetime.now(UTC) + timedelta(days=60) for one in items)


class Dying:
    """SSM for a process that is killed before it announces what it has written."""

    def __init__(self, real) -> None:
        self._real = real

    def __getattr__(self, name):
        return getattr(self._real, name)

    def put_parameter(self, **arguments):
        if arguments["Name"].endswith("/revision"):
            raise KilledError
        return self._real.put_parameter(**arguments)


def test_what_was_written_and_never_announced_is_waited_for_from_when_it_is(world):
    """The functions learn of it then, and no earlier."""
    rival, service, begin = world.tenants["rival"], world.context().removals, datetime.now(UTC)
    dying = dataclasses.replace(
        service, tenants=dataclasses.replace(service.tenants, ssm=Dying(world.ssm))
    )

    def advance(removals, minutes: int):
        tree, now = world.own.config.current(), begin + timedelta(minutes=minutes)
        world.redis.delete("cf:{fleet}:turns")
        return removals.advance(tree, rival, now, in_flight=lambda: 0, delete=True)

    def killed(minutes: int) -> None:
        with pytest.raises(KilledError):
            advance(dying, minutes)

    killed(0)
    begun = advance(service, 10)
    killed(20)
    withdrawn = advance(service, 30)
    still = advance(service, 31)

    assert (begun.state, begun.due_at > begin + timedelta(minutes=10)) == ("settling", True)
    assert (withdrawn.state, still.state) == ("withdrawn", "withdrawn")
    assert still.due_at > begin + timedelta(minutes=30)
