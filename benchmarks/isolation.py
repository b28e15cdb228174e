"""A tenant beside a hostile one: the part of its pages a second, and of its waits, that it keeps.

Two tenants with the same share on real stores and a real worker. One, the victim, has ordinary
pages to read and asks for one more now and then. The other is harmless and has the same to do, or
is hostile in one of eleven ways, or in all of them; its work is queued before, and goes on coming.
What the victim gets beside a hostile tenant is divided by what it gets beside the harmless one,
which is its share, measured right before it on the same machine.

``python -m benchmarks.isolation [WAY ...]`` measures these ways alone; ``--full`` all of them as a
full run does, ``--rounds`` so many times, for ``--seconds`` at most.
"""

import argparse
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec
import pymongo

from benchmarks.bench import Addresses, Bench, BenchError, Found, environment
from benchmarks.figures import percentile
from benchmarks.house import UNBOUND, BenchParts
from benchmarks.isolation_ways import OTHER, RULES, WAYS, Scene
from benchmarks.scale import FULL, QUICK, Scale
from benchmarks.site import Site, running_site
from benchmarks.worker import READY
from crawlfleet.apps.context import now
from crawlfleet.apps.submissions import open_submissions
from crawlfleet.config.documents.biz import Biz, FetchLimits, Generation, Stage, Tenant, Tree
from crawlfleet.kernel.ids import State
from crawlfleet.kernel.mongo.connection import database_name
from crawlfleet.requests.submission.admission import BATCH_LIMIT, Accepted, Submission

VICTIM: Final = "victim"
#: The victim's backlog, and where it asks for a page now and then.
BACKLOG: Final = "pages"
ASKED: Final = "asked"
#: Between two pages that it asks for.
ASK_SECONDS: Final = 0.2
#: The measurement begins so long after the worker has: it learns robots.txt, and whose pages need a
#: reader of their own, which loads its parsers first.
WARM_SECONDS: Final = 6.0
#: The hostile work that is queued at first comes again by this part of it, so often.
WAVE_PART: Final = 0.02
WAVE_SECONDS: Final = 1.0
#: From a request to the site's answer.
FAR: Final = 0.02
#: Bizs of the hostile tenant in the way ``bizs``, and in all others.
MANY: Final = 20
FEW: Final = 3
#: All of them at once.
ALL: Final = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The victim's pages a second, and the wait that one in twenty of its single pages exceeds.

    Of ``asked`` single pages ``unserved`` were not done when the run ended: these have waited for
    at least as long as they were waited for.
    """

    per_second: float
    p95_seconds: float
    asked: int
    unserved: int
    #: How many requests of the other tenant are in each state, at the end.
    others: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The victim beside the harmless tenant, and beside the hostile one right after."""

    fair: Kept
    kept: Kept

    @property
    def share(self) -> float:
        """The part of its pages a second that the victim keeps."""
        return self.kept.per_second / self.fair.per_second

    @property
    def wait_ratio(self) -> float:
        """The victim's waits, beside what they would be."""
        return self.kept.p95_seconds / self.fair.p95_seconds

    def __str__(self) -> str:
        late = f", {self.kept.unserved} of {self.kept.asked} unserved" if self.kept.unserved else ""
        return (
            f"{self.share:.2f} of its pages ({self.kept.per_second:.0f} a second of "
            f"{self.fair.per_second:.0f}), {self.wait_ratio:.2f} times its waits "
            f"({self.kept.p95_seconds:.1f} s of {self.fair.p95_seconds:.1f}){late}"
        )


def tree_of(bizs: int) -> Tree:
    """Configure two tenants of one share; the second has so many bizs."""

    def biz(name: str) -> Biz:
        generation = Generation(
            starts_at=datetime(2025, 1, 1, tzinfo=UTC), nodes=("main",), databases=(name,)
        )
        return Biz(generations=(generation,), rules=RULES, fetch=FetchLimits(per_host=64))

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
    pairs = compared(bench, ways(bench.scale))
    shares = {way: found[0].share for way, found in pairs.items()}
    everything = pairs[ALL][0]
    figures = {
        "isolation_victim_share": everything.share,
        "isolation_p95_wait_ratio": everything.wait_ratio,
        "isolation_worst_way_share": min(shares.values()),
    }
    details = {way: [msgspec.to_builtins(one) for one in found] for way, found in pairs.items()}
    told = [f"a tenant beside a hostile one, {way}: {found[0]}" for way, found in pairs.items()]
    return Found(figures=figures, details={"isolation": details}, notes=told)


def compared(
    bench: Bench, chosen: Sequence[str], rounds: int = 1, until: float = float("inf")
) -> dict[str, list[Pair]]:
    """Measure ways, each beside a harmless tenant; none is begun after ``until``."""
    pairs: dict[str, list[Pair]] = {way: [] for way in chosen}
    with running_site(bench.scale.pages, FAR) as site, hostile_site() as port:
        for way in [way for _ in range(rounds) for way in chosen]:
            if time.monotonic() >= until:
                bench.tick(f"{way}: not begun, the time is up")
                continue
            fair = _scene(bench, site, port, None)
            bench.tick(f"harmless: {fair.per_second:.0f} pages a second")
            kept = _scene(bench, site, port, way)
            pairs[way].append(Pair(fair=fair, kept=kept))
            bench.tick(f"{way}: {pairs[way][-1]}; {kept.others}")
    return pairs


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
        harms = [harm for name, harm in WAYS.items() if way in (name, ALL)]
        for harm in harms:
            harm(scene)
        more = iter(site.urls(4 * bench.scale.isolation_pages))
        with _worker(bench, tree), _waves(bench, scene, harms, more):
            return _measured(bench, parts, tree, site)
    finally:
        parts.redis.close()
        parts.nodes.close()


@contextmanager
def _waves(
    bench: Bench,
    scene: Scene,
    harms: Sequence[Callable[[Scene], None]],
    more: Iterator[str],
) -> Iterator[None]:
    """Have work of the other tenant come until the context ends, harmless but for its harms."""
    over, failed = threading.Event(), list[Exception]()
    # Connections of its own, as this is another thread.
    parts = BenchParts(bench.addresses, scene.tree, "router")
    scene = replace(scene, parts=parts, wave=WAVE_PART)
    each = max(1, int(bench.scale.isolation_pages * WAVE_PART))

    def come() -> None:
        try:
            while not over.wait(WAVE_SECONDS):
                for harm in harms:
                    harm(scene)
                    if over.is_set():
                        break
                if not harms:
                    _submit(parts, scene.tree, OTHER, scene.bizs[0], list(islice(more, each)))
        except Exception as error:  # noqa: BLE001  it is raised where the run ends
            failed.append(error)

    thread = threading.Thread(target=come, name="waves")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        parts.redis.close()
        parts.nodes.close()
    if failed:
        raise BenchError("no more work came") from failed[0]


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
        asked: list[float] = []
        until = began + bench.scale.isolation_seconds
        while time.monotonic() < until:
            asked.append(time.monotonic())
            url = f"http://127.0.0.1:{site.port}/{site.names[0]}?asked={len(asked)}"
            _submit(parts, tree, VICTIM, ASKED, [url])
            time.sleep(ASK_SECONDS)
        done, seconds = _done(mongo, BACKLOG) - before, time.monotonic() - began
        if before + done >= bench.scale.isolation_pages:
            raise BenchError("the victim's backlog was too short")
        latest = time.monotonic() + bench.scale.isolation_late_seconds
        while _done(mongo, ASKED) < len(asked) and time.monotonic() < latest:
            time.sleep(0.05)
        ended = time.monotonic()
        waits = list(_waits(mongo))
        hostile = _ends(mongo, tree)
    unserved = len(asked) - len(waits)
    # The latest were asked for last; each of them waits for longer than till now.
    waits += [ended - at for at in asked[len(asked) - unserved :]]
    return Kept(
        per_second=max(done, 1) / seconds,
        p95_seconds=percentile(waits, 95),
        asked=len(asked),
        unserved=unserved,
        others=hostile,
    )


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
    parser.add_argument("--rounds", type=int, default=1, help="pairs of each way")
    parser.add_argument("--full", action="store_true", help="on the full run's scale")
    parser.add_argument("--seconds", type=float, default=1_200.0, help="begin pairs for so long")
    arguments = parser.parse_args()
    with RedisServer() as redis, MongoServer() as mongo:
        bench = Bench(
            addresses=Addresses(redis=redis.url, mongo=mongo.uri),
            scale=FULL if arguments.full else QUICK,
            out=Path(),
            peers=None,
            tick=lambda what: print(f"{time.strftime('%X')} {what}", flush=True),
        )
        until = time.monotonic() + arguments.seconds
        pairs = compared(bench, arguments.ways, arguments.rounds, until)
    for way, found in pairs.items():
        if found:
            share = statistics.median(one.share for one in found)
            wait = statistics.median(one.wait_ratio for one in found)
            print(f"{way}: share {share:.2f}, p95 ratio {wait:.2f}, of {len(found)} pairs")


if __name__ == "__main__":
    main()
