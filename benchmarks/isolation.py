"""A tenant beside a hostile one: the part of its pages a second, and of its waits, that it keeps.

Two tenants with the same share on real stores and a real worker. One, the victim, has ordinary
pages to read and asks for one more now and then. The other is harmless and has the same to do, or
is hostile in one of eleven ways, or in all of them. What the victim gets beside a hostile tenant is
divided by what it gets beside the harmless one, measured right before it on the same machine.

``python -m benchmarks.isolation [WAY ...]`` measures these ways alone.
"""

import argparse
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec
import pymongo

from benchmarks.bench import Addresses, Bench, BenchError, Found, environment
from benchmarks.figures import percentile
from benchmarks.house import PAGE_RULE, UNBOUND, BenchParts
from benchmarks.isolation_site import ROBOTS_NETWORK
from benchmarks.scale import QUICK, Scale
from benchmarks.site import Site, running_site
from benchmarks.worker import READY
from crawlfleet.apps.context import now
from crawlfleet.apps.rounds import open_seed_dispatcher
from crawlfleet.apps.submissions import open_submissions
from crawlfleet.config.documents.biz import Biz, FetchLimits, Generation, Stage, Tenant, Tree
from crawlfleet.config.documents.rule import Field, Follow, Rule, Selector
from crawlfleet.crawling.frontier.models import SeedSpec
from crawlfleet.crawling.frontier.service import add_seeds
from crawlfleet.jobs.models import Job, JobState
from crawlfleet.jobs.mongo.store import MongoJobs
from crawlfleet.jobs.spiders.models import Range, Start
from crawlfleet.kernel.ids import State
from crawlfleet.kernel.mongo.connection import database_name
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.submission.admission import BATCH_LIMIT, Accepted, Submission

VICTIM: Final = "victim"
OTHER: Final = "other"
#: The victim's backlog, and where it asks for a page now and then.
BACKLOG: Final = "pages"
ASKED: Final = "asked"
#: Between two pages that it asks for.
ASK_SECONDS: Final = 0.2
#: The measurement begins so long after the worker has.
WARM_SECONDS: Final = 2.0
#: What was asked for in the measurement is waited for so long at most; what is not done by then has
#: waited so long.
LATE_SECONDS: Final = 5.0
#: From a request to the site's answer.
FAR: Final = 0.02
#: Bizs of the hostile tenant in the way ``bizs``, and in all others.
MANY: Final = 20
FEW: Final = 3
#: What 1.0 is of: 5,000,000 submissions, and a job of as many tasks.
ENTRIES: Final = 5_000_000
#: Nobody listens here.
CLOSED_PORT: Final = 9

_RULES: Final = {
    "page": PAGE_RULE,
    "records": Rule(items=Selector(xpath="//li"), fields={"text": Field(xpath="string(.)")}),
    "links": Rule(follow=(Follow(css="a", rule="page", max_depth=3),)),
    "rules": Rule(fields={"x": Field(xpath="count(//p[count(//p[. = 'b']) < 1])")}),
}


@dataclass(slots=True)
class Scene:
    """The means of the hostile tenant: the run's parts, its site, the part of all that it does."""

    parts: BenchParts
    tree: Tree
    site: str
    size: float
    numbers: Iterator[int] = field(default_factory=count)

    def submit(self, biz: str, urls: Sequence[str], rule: str = "page") -> None:
        """Submit pages of the hostile tenant; what is refused is."""
        submissions = open_submissions(self.parts)
        for at in range(0, len(urls), BATCH_LIMIT):
            part = [Submission(url=url, rule=rule) for url in urls[at : at + BATCH_LIMIT]]
            submissions.submit(self.tree, OTHER, biz, part, now())

    def pages(self, kind: str, many: int, host: str = "127.0.0.2") -> list[str]:
        """Make addresses of pages that were not there before."""
        return [f"http://{host}:{self.site}/{kind}/{next(self.numbers)}" for _ in range(many)]

    def hosts(self, kind: str, many: int, network: str) -> list[str]:
        """Make addresses of pages, each of a host of its own in a network."""
        found = []
        for _ in range(many):
            n = next(self.numbers)
            host = f"{network}.{n // 250 % 250}.{1 + n % 250}"
            found += self.pages(kind, 1, host)
        return found

    def some(self, of: int) -> int:
        """Scale a number of the hostile tenant's."""
        return max(1, int(of * self.size))

    @property
    def bizs(self) -> list[str]:
        """The bizs of the hostile tenant."""
        return list(self.tree.bizs[OTHER])


def _bizs(scene: Scene) -> None:
    for biz in scene.bizs:
        scene.submit(biz, scene.pages("plain", 1_000))


def _entries(scene: Scene) -> None:
    scene.submit(scene.bizs[0], scene.pages("plain", scene.some(ENTRIES)))


def _rules(scene: Scene) -> None:
    scene.submit(scene.bizs[0], scene.pages("rules", 2_000), "rules")


def _robots(scene: Scene) -> None:
    scene.submit(scene.bizs[0], scene.hosts("plain", 1_000, ROBOTS_NETWORK))


def _trials(scene: Scene) -> None:
    # What the router does of a trial beside workers, whoever reads the page: it counts the trial
    # and is refused beyond the ceiling.
    ceilings = open_submissions(scene.parts).ceilings
    for _ in range(200):
        try:
            with ceilings.trial(scene.tree, OTHER):
                pass
        except Exception:  # noqa: BLE001  it is refused
            pass


def _hosts(scene: Scene) -> None:
    scene.submit(scene.bizs[1], scene.hosts("plain", 5_000, "127.200"))


def _backing_off(scene: Scene) -> None:
    closed = [f"http://127.0.0.1:{CLOSED_PORT}/{n}" for n in range(500)]
    scene.submit(scene.bizs[0], closed)
    scene.submit(scene.bizs[1], scene.pages("busy", 1_000, "127.0.0.1"))


def _jobs(scene: Scene) -> None:
    jobs, size = MongoJobs(scene.parts.nodes), scene.some(ENTRIES)
    start = Start(
        pattern=f"http://127.0.0.2:{scene.site}/plain/{{n}}", values={"n": Range(last=size)}
    )
    for biz in scene.bizs:
        jobs.create(
            Job(
                tenant=OTHER,
                biz=biz,
                name=f"long-{next(scene.numbers)}",
                state=JobState.EXPANDING,
                rule="page",
                rule_version=PAGE_RULE.version,
                start=start,
                size=size,
                created_at=from_ms(to_ms(now())),
                by="api",
            )
        )


def _records(scene: Scene) -> None:
    scene.submit(scene.bizs[0], scene.pages("records", 1_000), "records")


def _seeds(scene: Scene) -> None:
    for biz in scene.bizs:
        scene.submit(biz, scene.pages("links", 200), "links")
    dispatcher = open_seed_dispatcher(scene.parts, open_submissions(scene.parts))
    for biz in scene.bizs:
        specs = [SeedSpec(url=url, rule="links") for url in scene.pages("links", BATCH_LIMIT)]
        add_seeds(dispatcher, scene.tree, OTHER, biz, specs, now())


def _dead_letters(scene: Scene) -> None:
    scene.submit(scene.bizs[0], scene.pages("gone", 5_000))


#: The eleven ways, in the issue's words.
WAYS: Final[dict[str, Callable[[Scene], None]]] = {
    "bizs": _bizs,
    "entries": _entries,
    "rules": _rules,
    "robots": _robots,
    "trials": _trials,
    "hosts": _hosts,
    "back-off": _backing_off,
    "jobs": _jobs,
    "records": _records,
    "seeds": _seeds,
    "dead letters": _dead_letters,
}
#: All of them at once.
ALL: Final = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The victim's pages a second, and the wait that one in twenty of its single pages exceeds."""

    per_second: float
    p95_seconds: float
    #: How many requests of the other tenant are in each state, at the end.
    others: dict[str, int]


def tree_of(bizs: int) -> Tree:
    """Configure two tenants of one share; the second has so many bizs."""

    def biz(name: str) -> Biz:
        generation = Generation(
            starts_at=datetime(2025, 1, 1, tzinfo=UTC), nodes=("main",), databases=(name,)
        )
        return Biz(generations=(generation,), rules=_RULES, fetch=FetchLimits(per_host=64))

    return Tree(
        revision="1",
        stage=Stage(allow_private_addresses=True, hosts=UNBOUND),
        tenants={VICTIM: Tenant(), OTHER: Tenant()},
        bizs={
            VICTIM: {name: biz(name) for name in (BACKLOG, ASKED)},
            OTHER: {f"b{n}": biz(f"b{n}") for n in range(bizs)},
        },
    )


def ways(scale: Scale) -> tuple[str, ...]:
    """Return what is measured: all ways at once, and each alone where there is time."""
    return (ALL, *WAYS) if scale.isolation_each else (ALL,)


def run(bench: Bench) -> Found:
    """Measure all ways at once, and each alone where there is time."""
    shares, waits, details = compared(bench, ways(bench.scale))
    figures = {
        "isolation_victim_share": shares[ALL],
        "isolation_p95_wait_ratio": waits[ALL],
        "isolation_worst_way_share": min(shares.values()),
    }
    worst = min(shares, key=shares.__getitem__)
    told = ", ".join(f"{way} {share:.2f}" for way, share in shares.items())
    return Found(
        figures=figures,
        details={"isolation": details},
        notes=[f"a tenant's share beside a hostile one, by way: {told}; the worst is {worst}"],
    )


def compared(
    bench: Bench, chosen: Sequence[str]
) -> tuple[dict[str, float], dict[str, float], dict[str, Any]]:
    """Measure ways, each beside a harmless tenant: shares, ratios of waits, and all there is."""
    shares: dict[str, float] = {}
    waits: dict[str, float] = {}
    details: dict[str, Any] = {}
    with running_site(bench.scale.pages, FAR) as site, hostile_site() as port:
        for way in chosen:
            fair = _scene(bench, site, port, None)
            bench.tick(f"harmless: {fair.per_second:.0f} pages a second")
            kept = _scene(bench, site, port, way)
            shares[way] = kept.per_second / fair.per_second
            waits[way] = kept.p95_seconds / fair.p95_seconds
            details[way] = [msgspec.to_builtins(one) for one in (fair, kept)]
            bench.tick(
                f"{way}: {shares[way]:.2f} of its pages, {waits[way]:.2f} times its waits; {kept}"
            )
    return shares, waits, details


@contextmanager
def hostile_site() -> Iterator[str]:
    """Serve the hostile pages; the port."""
    command = [sys.executable, "-m", "benchmarks.isolation_site"]
    with subprocess.Popen(
        command, env=environment({}), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            if server.stdout is None or not (line := server.stdout.readline()):
                raise BenchError("the hostile site did not start")
            yield line.strip()
        finally:
            server.terminate()


def _scene(bench: Bench, site: Site, port: str, way: str | None) -> Kept:
    """Have a worker work for a while; what the victim got of it."""
    bench.addresses.clear()
    tree = tree_of(MANY if way in ("bizs", "seeds", ALL) else FEW)
    parts = BenchParts(bench.addresses, tree, "router")
    try:
        urls = site.urls(2 * bench.scale.isolation_pages)
        _submit(parts, tree, VICTIM, BACKLOG, urls[::2])
        scene = Scene(parts, tree, port, bench.scale.isolation_part)
        if way is None:
            _submit(parts, tree, OTHER, scene.bizs[0], urls[1::2])
        for name, harm in WAYS.items():
            if way in (name, ALL):
                harm(scene)
        with _worker(bench, tree):
            return _measured(bench, parts, tree, site)
    finally:
        parts.redis.close()
        parts.nodes.close()


def _submit(parts: BenchParts, tree: Tree, tenant: str, biz: str, urls: Sequence[str]) -> None:
    submissions = open_submissions(parts)
    for at in range(0, len(urls), BATCH_LIMIT):
        part = [Submission(url=url, rule="page") for url in urls[at : at + BATCH_LIMIT]]
        receipts = submissions.submit(tree, tenant, biz, part, now())
        if not all(isinstance(one, Accepted) for one in receipts):
            raise BenchError(f"not accepted: {receipts[0]}")


@contextmanager
def _worker(bench: Bench, tree: Tree) -> Iterator[None]:
    """Have a worker work until the context ends, when it is killed."""
    given = msgspec.json.encode(tree).decode()
    with ExitStack() as stack:
        worker = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.worker", "bench"],
                env=environment(bench.variables(BENCH_TREE=given)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        )
        stack.callback(worker.kill)
        if worker.stdout is None or worker.stdout.readline().strip() != READY:
            raise BenchError("the worker did not start")
        if worker.stdin is not None:
            worker.stdin.write("\n")
            worker.stdin.flush()
        yield


def _measured(bench: Bench, parts: BenchParts, tree: Tree, site: Site) -> Kept:
    with pymongo.MongoClient[dict[str, Any]](bench.addresses.mongo, tz_aware=True) as mongo:
        time.sleep(WARM_SECONDS)
        before, began = _done(mongo, BACKLOG), time.monotonic()
        asked, until = 0, began + bench.scale.isolation_seconds
        while time.monotonic() < until:
            asked += 1
            url = f"http://127.0.0.1:{site.port}/{site.names[0]}?asked={asked}"
            _submit(parts, tree, VICTIM, ASKED, [url])
            time.sleep(ASK_SECONDS)
        done, seconds = _done(mongo, BACKLOG) - before, time.monotonic() - began
        if before + done >= bench.scale.isolation_pages:
            raise BenchError("the victim's backlog was too short")
        latest = time.monotonic() + LATE_SECONDS
        while _done(mongo, ASKED) < asked and time.monotonic() < latest:
            time.sleep(0.05)
        waits = list(_waits(mongo))
        hostile = _ends(mongo, tree)
    waits += [LATE_SECONDS] * (asked - len(waits))
    p95 = percentile(waits, 95)
    return Kept(per_second=max(done, 1) / seconds, p95_seconds=p95, others=hostile)


def _requests(mongo: "pymongo.MongoClient[dict[str, Any]]", biz: str) -> Any:
    return mongo[database_name(VICTIM, biz)][f"{biz}.requests_000"]


def _done(mongo: "pymongo.MongoClient[dict[str, Any]]", biz: str) -> int:
    found: int = _requests(mongo, biz).count_documents({"flag": State.DONE})
    return found


def _ends(mongo: "pymongo.MongoClient[dict[str, Any]]", tree: Tree) -> dict[str, int]:
    """Count the other tenant's requests that are not pending, by state."""
    found: Counter[str] = Counter()
    for biz in tree.bizs[OTHER]:
        requests = mongo[database_name(OTHER, biz)][f"{biz}.requests_000"]
        for state in (State.DONE, State.DEAD, State.LEASED):
            found[state.name] += requests.count_documents({"flag": state})
        for one in requests.find({"flag": State.DEAD}, {"error": True}).limit(1):
            found[one["error"]] += 1
    return dict(found)


def _waits(mongo: "pymongo.MongoClient[dict[str, Any]]") -> Iterator[float]:
    """Yield the seconds from submission to end of each page that was asked for."""
    for one in _requests(mongo, ASKED).find({"flag": State.DONE}, {"ts": True, "log": True}):
        yield (one["log"][-1]["at"] - one["ts"]).total_seconds()


def main() -> None:
    from infra.local.mongo_server import MongoServer
    from infra.local.redis_server import RedisServer

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ways", nargs="*", choices=[*WAYS, ALL], default=[ALL, *WAYS])
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    with RedisServer() as redis, MongoServer() as mongo:
        bench = Bench(
            addresses=Addresses(redis=redis.url, mongo=mongo.uri),
            scale=QUICK,
            out=Path(),
            peers=None,
            tick=lambda what: print(f"{time.strftime('%X')} {what}", flush=True),
        )
        for _ in range(arguments.rounds):
            compared(bench, arguments.ways)


if __name__ == "__main__":
    main()
