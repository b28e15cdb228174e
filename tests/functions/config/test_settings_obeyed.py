"""Every setting of stage, tenant and biz reaches what runs: a push changes all of them at once.

The six functions run on real servers, a worker all the while. After the push nobody reads a
setting from what was in force before, and each setting is read from what is in force now. A setting
that is new in the documents' types fails until it has a row in ``settings_table``; one that nothing
reads fails as well. What a read setting does is other tests' to show; those that a running worker
could have kept for itself are below and in tests/unit/worker/test_changed_while_running.py.
"""

import json
import sys
import threading
import typing
import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest

from tests.functions.apps.test_clock import LOOK, TICK
from tests.functions.config import settings_table
from tests.functions.http import ask, submit
from tests.kit.apps import now
from tests.kit.config import Biz, Stage, Tenant, Tree
from tests.kit.kernel import Pool, names
from tests.kit.worlds.functions import STAGE, World, a_world
from tests.waiting import eventually

SHAPES = {"stage": Stage, "tenant": Tenant, "biz": Biz}
#: A job is given to a worker that has to say so in time, and to another one otherwise; a page that
#: failed is tried again later. Beside other tests one of these may take a lease's whole time.
PATIENCE = 120
#: What reads all of a document, to check it and to put it in force.
LOADERS = ("crawlfleet.config.", "crawlfleet.kernel.validation", "tests.", "msgspec")
#: What others use of the room's own.
USED = (
    "crawlfleet.config.lookup",
    "crawlfleet.config.documents.",
    "crawlfleet.config.versions.",
)
#: Words for those who read the documents.
NOTES = {"tenant.description", "biz.description"}
#: Read by workers of another pool; functions/worker/test_crawl.py has one.
OF_OTHER_POOLS = {"stage.pools.proxies"}
#: Read where addresses are judged, which this stage's are not; test_fetcher_proxies.py has one.
OF_GUARDED_STAGES = {"stage.proxies.resolves_names"}
#: Whoever pushes reads these, and no function.
OF_PUSHES = {"tenant.managed"}
#: Read where somebody subscribes, and nobody does here; tests/contract/streams has who does.
OF_STREAMS = ("stage.streams.", "tenant.ceilings.subscriptions")
#: But for what every reader of the document compares, to check it.
CHECKED = {f"stage.streams.channels.quotas.{name}" for name in ("at_limit", "per")}
#: Read by calls that remove tenants.
OF_REMOVALS = {
    f"tenant.removing.{name}" for name in ("since", "settled_at", "withdrawn_at", "before")
}
#: A document of its own that is versioned with each request.
WHOLE = {"rules", "spiders"}


def inner(hint: Any) -> list[type[msgspec.Struct]]:
    """The struct types that a field's type is made of."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return [hint]
    return [found for part in typing.get_args(hint) for found in inner(part)]


def settings(shape: type[msgspec.Struct], path: str) -> Iterator[str]:
    """Every setting of a document, by the names of its fields."""
    for name, hint in typing.get_type_hints(shape, include_extras=True).items():
        if name not in shape.__struct_fields__:
            continue
        parts = [] if name in WHOLE else inner(hint)
        if parts:
            yield from settings(parts[0], f"{path}.{name}")
        else:
            yield f"{path}.{name}"


SETTINGS = [each for name, shape in SHAPES.items() for each in settings(shape, name)]


def test_every_setting_has_a_row_and_every_row_is_a_setting():
    assert sorted(settings_table.ROWS) == sorted(SETTINGS)


def structs(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every part of a document, by its path in the types."""
    if isinstance(value, msgspec.Struct):
        yield path, value
        for name in value.__struct_fields__:
            if name not in WHOLE:
                yield from structs(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, dict):
        for one in value.values():
            yield from structs(one, path)
    elif isinstance(value, tuple):
        for one in value:
            yield from structs(one, path)


class Reads:
    """The settings that were read, by document and module."""

    def __init__(self) -> None:
        self.by: dict[tuple[int, str], set[str]] = defaultdict(set)
        self.kept: dict[int, Any] = {}
        #: What was read once the rounds had ended that were under way when it was pushed.
        self.late: dict[tuple[int, str], set[str]] = defaultdict(set)
        self.is_late = False

    def note(self, part: Any, name: str, module: str) -> None:
        if module.startswith(USED) or not module.startswith(LOADERS):
            self.kept[id(part)] = part  # so that nobody else gets its number
            self.by[id(part), name].add(module)
            if self.is_late:
                self.late[id(part), name].add(module)

    @contextmanager
    def listening(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            shapes = set()
            for shape in SHAPES.values():
                shapes |= set(all_shapes(shape))
            for shape in shapes:
                for name in shape.__struct_fields__:
                    patch.setattr(shape, name, self._noting(shape.__dict__[name], name))
            yield

    def _noting(self, member: Any, name: str) -> property:
        def read(part: Any) -> Any:
            self.note(part, name, sys._getframe(1).f_globals["__name__"])
            return member.__get__(part)

        return property(read, member.__set__)  # what copies a part sets it


def all_shapes(shape: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    yield shape
    for name, hint in typing.get_type_hints(shape, include_extras=True).items():
        for part in [] if name in WHOLE else inner(hint):
            yield from all_shapes(part)


class Pages(BaseHTTPRequestHandler):
    """A site with links, a redirect, a large page, and some that are gone, too much, or fail.

    What is too much it says once of a URL: each time doubles the pause in which nothing of the host
    is downloaded.
    """

    protocol_version = "HTTP/1.1"
    refused: typing.ClassVar[set[str]] = set()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        status = {"/gone": 404, "/busy": 429, "/fails": 500, "/moved": 302}.get(path, 200)
        if status == 429 and self.path in self.refused:
            status = 200
        self.refused.add(self.path)
        body = b"<title>a page</title><a href='/linked#part'>more</a>"
        if path == "/job":
            body += b"x" * 300_000
        if path == "/robots.txt":
            body = b"User-agent: *\nCrawl-delay: 0.001\n"
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        if status == 302:
            self.send_header("Location", "/there")
        if status == 429:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class Site:
    """The stage of the table, and everything that its functions do."""

    def __init__(self, world: World, port: int) -> None:
        self.world, self.rounds = world, 0
        # By its address it has limits of its own, by its name those of all hosts.
        self.own, self.any = f"http://127.0.0.1:{port}", f"http://localhost:{port}"
        self.left = 600.0
        self.workers = [
            threading.Thread(target=self._work, args=(one,))
            for one in world.environments(names.CONSUMER)
        ]

    def learn_demand(self) -> None:
        """Have runs of the rule been measured."""
        tenant = self.world.tenants["acme"]
        facts = {"tenant": tenant, "biz": "docs", "spider": "page", "runs": 3}
        usage = {"memory": 1.0, "memory_max": 1.0}
        found = {"_id": f"{tenant}/docs/page", **facts, "usage": usage}
        self.world.control["demands"].replace_one({"_id": found["_id"]}, found, upsert=True)

    def _work(self, consumer: Any) -> None:
        consumer.work(str(uuid.uuid4()), lambda: self.left)

    def push(self, number: int) -> None:
        world, stage = self.world, settings_table.document(settings_table.STAGE, number)
        biz = settings_table.document(settings_table.BIZ, number)
        tenant = settings_table.document(settings_table.TENANT, number)
        by_proxy = {**biz, "collection": "away", "fetch": {"proxies": "p"}}
        bizs = {"docs": biz, "away": by_proxy}
        world.push({"acme": bizs, "rival": {}}, stage=stage, tenants={"acme": tenant})

    def trees(self) -> list[Tree]:
        """The configurations in force, one an environment."""
        return [parts.config.current() for parts in self.world.parts]

    def open(self, *states: str) -> int:
        """The number of requests that are pending or leased."""
        found = ask(self.world, "GET", "/v1/docs/stats").json["states"]
        return sum(int(found.get(state, 0)) for state in states or ("pending", "leased"))

    def age_coverage(self) -> None:
        """Have the rule read pages an hour ago, too: hours are compared."""
        key = f"cf:{{{self.world.tenants['acme']}:docs}}:coverage_hours"
        # Records are counted when they are stored, which is after their requests are done.
        eventually(lambda: self.world.redis.hlen(key), PATIENCE, what="its records are counted")
        for name, counted in dict(self.world.redis.hgetall(key)).items():  # type: ignore[arg-type]
            hour, _, rule = name.decode().partition(" ")
            self.world.redis.hset(key, f"{int(hour) - 1} {rule}", counted)

    def use(self) -> None:
        """Have every function do all that it can."""
        self.rounds += 1
        world, mark = self.world, f"?r={self.rounds}"
        world.redis.delete("cf:{fleet}:turns")
        for site in (self.own, self.any):
            paths = ("0", "1", "gone", "busy", "fails", "moved")
            ids = submit(world, *(f"{site}/{path}{mark}" for path in paths), rule="page")
        submit(world, f"{self.own}/0{mark}", biz="away", rule="page")
        # One user has quotas of its own, the other one those of every user.
        for user in ("ann", "bob"):
            submit(world, f"{self.own}/{user}{mark}", rule="page", user=user)
        seeds = [{"url": f"{self.own}/seed{mark}&sid=1#part", "rule": "page"}]
        assert ask(world, "POST", "/v1/docs/seeds", {"seeds": seeds}).status == 200
        order = {"rule": "page", "urls": [f"{self.own}/job{mark}"], "name": f"june-{self.rounds}"}
        assert ask(world, "POST", "/v1/docs/jobs", order).status == 201
        asked = {"requests": ["17"], "from_state": "done", "to_state": "reviewed"}
        assert ask(world, "POST", "/v1/docs/requests/transition", asked).status == 200
        trial = {"rule": {"follow": [{"css": "a"}]}, "page": {"body": "<a href=/>"}}
        assert ask(world, "POST", "/v1/docs/rules/try", trial).status == 200
        ask(world, "GET", "/v1/incidents")
        assert ask(world, "GET", "/v1/costs").status == 200
        ask(world, "GET", "/v1/fleet", key=names.DEFAULT_TENANT)
        for _ in range(2):
            world.call(names.SCHEDULER, TICK)
            world.call(names.MONITOR, LOOK)
        job = f"/v1/docs/jobs/june-{self.rounds}"
        eventually(
            lambda: ask(world, "GET", job).json["state"] == "done", PATIENCE, what="its job is done"
        )
        # What was read before is known by the second reading.
        submit(world, f"{self.own}/0{mark}", rule="page")
        eventually(lambda: self.open() == 0, PATIENCE, what="the second reading is over")
        ask(world, "GET", f"/v1/docs/requests/{ids[0]}/explain")
        self.age_coverage()
        world.clocks.clear()
        world.call(names.MONITOR, LOOK)
        world.redis.delete("cf:{fleet}:turns")
        world.call(names.SCHEDULER, TICK)
        later = timedelta(minutes=6 * self.rounds)  # ledgers are compared every few minutes
        world.clocks[names.MONITOR] = lambda: now() + later
        world.call(names.MONITOR, LOOK)


class Obeyed:
    """The reads after the push, of the configuration in force and of the one before."""

    def __init__(self, reads: Reads, before: list[Tree], after: list[Tree], tenant: str) -> None:
        self._reads = reads
        self._before, self._after = (parts(trees, tenant) for trees in (before, after))
        self._old = {id(one) for each in self._before.values() for one in each}
        self._new = {id(one) for each in self._after.values() for one in each}

    def by(self, setting: str) -> set[str]:
        """The modules that have read the setting as it is now; copies of its part count as well."""
        path, _, name = setting.rpartition(".")
        now = {id(one) for one in self._after[path]}
        shape, value = type(self._after[path][0]), getattr(self._after[path][0], name)
        found = set()
        for (number, field), modules in self._reads.by.items():
            part = self._reads.kept[number]
            is_copy = number not in self._old | self._new and isinstance(part, shape)
            if field == name and (
                number in now or (is_copy and is_changed(setting) and getattr(part, name) == value)
            ):
                found |= modules
        return found

    def before(self, setting: str) -> set[str]:
        """The modules that still read the setting as it was before the push."""
        path, _, name = setting.rpartition(".")
        old = {id(one) for one in self._before[path]}
        read = self._reads.late.items()
        return {
            one for (number, field), by in read if field == name and number in old for one in by
        }


def is_changed(setting: str) -> bool:
    before, after = settings_table.ROWS[setting]
    return before != after


def parts(trees: list[Tree], tenant: str) -> dict[str, list[Any]]:
    """The parts of the table's documents, of each environment's, by their paths in the types."""
    found: dict[str, list[Any]] = defaultdict(list)
    for tree in trees:
        roots = {"stage": tree.stage, "tenant": tree.tenants[tenant]}
        for root, document in (roots | {"biz": tree.bizs[tenant]["docs"]}).items():
            for path, part in structs(document, root):
                found[path].append(part)
    return found


@pytest.fixture(scope="module")
def used(own_redis: str, mongo_uri: str) -> Iterator[Obeyed]:
    reads = Reads()
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        large = Pool(
            name="large", memory_mb=3008, function=f"crawlfleet-{STAGE}-consumer-large", ceiling=10
        )
        patch.setenv(names.ENV_POOLS, json.dumps([msgspec.to_builtins(large)]))
        world = stack.enter_context(a_world(own_redis, mongo_uri))
        server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Pages))
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        stack.callback(server.shutdown)
        for pool in ("p", "q"):
            name = names.proxy_secret(STAGE, pool)
            world.secrets.create_secret(Name=name, SecretString="http://127.0.0.1:1")
        world.fresh()
        for token in ("token", "token-after"):
            own = names.tenant_secret(STAGE, world.tenants["acme"], token)
            for name in (own, names.collector_secret(STAGE, token)):
                world.secrets.create_secret(Name=name, SecretString=token)
        site = Site(world, server.server_port)
        site.push(0)
        site.learn_demand()
        for worker in site.workers:
            worker.start()
        try:
            site.use()
            before = site.trees()
            site.push(1)
            revision = world.own.config.current().revision
            eventually(lambda: all(tree.revision == revision for tree in site.trees()), PATIENCE)
            after = site.trees()
            # What was leased before the push is done by the configuration of that time.
            eventually(lambda: not site.open("leased"), PATIENCE)
            with reads.listening():
                site.use()
                # A worker's round goes on with the configuration that it began with.
                reads.is_late = True
                site.use()
        finally:
            site.left = 0.0
            for worker in site.workers:
                worker.join(60)
        yield Obeyed(reads, before, after, world.tenants["acme"])


@pytest.mark.long
def test_words_are_all_that_nothing_reads(used: Obeyed):
    unread = NOTES | OF_OTHER_POOLS | OF_GUARDED_STAGES | OF_PUSHES | OF_REMOVALS
    unread |= {setting for setting in SETTINGS if setting.startswith(OF_STREAMS)} - CHECKED
    assert {setting for setting in SETTINGS if not used.by(setting)} == unread


@pytest.mark.long
def test_nothing_is_read_of_the_configuration_that_a_push_has_replaced(used: Obeyed):
    assert {name: by for name in SETTINGS if (by := used.before(name))} == {}


def test_the_push_changes_every_setting_but_those_that_say_why_not():
    unchanged = {setting for setting in SETTINGS if not is_changed(setting)}

    assert unchanged == settings_table.AS_THEY_WERE.keys()
