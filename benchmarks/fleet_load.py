"""The load of many workers on what they share: `cf:{fleet}` in Redis, and the home node.

Workers of the product crawl hosts that each serve a page a second, so that a worker looks again and
again for what may be taken; then they stay though idle. What they ask of the keys of the fleet and
of the control database is counted: of a few by themselves, and of some that find a thousand in the
registry, and so do what workers of a thousand do. These calls are then asked once more in the names
of all, each as it was made, of a Redis that nobody else uses: its CPU is the share.
"""

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

import msgspec
import redis
from msgspec.structs import replace

from benchmarks.bench import Bench, BenchError, Found, environment
from benchmarks.crawl import submit
from benchmarks.fleet_workers import Asked
from benchmarks.house import tree_of
from benchmarks.placement import polite_site
from crawlfleet.config.documents.biz import FleetLimits, Tree
from crawlfleet.config.documents.policies import HostLimits
from crawlfleet.worker.affinity import ASK_EACH, SOME_WORKERS

#: Workers that are stood for.
FLEET: Final = 1_000
#: Hosts for each worker; each serves a page a second.
_HOSTS: Final = 2
#: Until all have begun, and after that.
_BEGIN_SECONDS: Final = 60.0
_SETTLED_SECONDS: Final = 1.0
#: Until their last page is done, and they have nothing to do for as long as makes them idle.
_DONE_SECONDS: Final = 1.5
#: Connections that ask in the names of all.
_CONNECTIONS: Final = 8
_ALIVE: Final = "cf:{fleet}:workers"
#: By this, each worker asks who works.
_WHO_WORKS: Final = "ZRANGEBYSCORE"
#: By these, whoever has a lock of the fleet goes on, however many workers there are.
_OF_HOLDERS: Final = frozenset({"heartbeats", "keep_lock", "release_lock"})
_HOLDER: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The calls of each of so many ``workers`` in a second, who find ``of`` in the registry."""

    workers: int
    of: int
    redis: Mapping[str, float]
    home: Mapping[str, float]

    @property
    def calls(self) -> float:
        """Calls of the fleet's keys that a worker makes in a second."""
        return sum(self.redis.values())

    @property
    def home_calls(self) -> float:
        """Commands to the home node in a second, of all these workers together."""
        return sum(self.home.values()) * self.workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The share of one Redis that a second's calls of a thousand workers take."""

    calls: int
    cores: float
    bytes_in: float
    bytes_out: float


def load_of(asked: Asked, workers: int, of: int) -> Load:
    """Count what was asked by a worker in a second."""
    each = asked.seconds * workers
    called = Counter(name for name, _ in asked.redis)
    return Load(
        workers=workers,
        of=of,
        redis={name: count / each for name, count in called.most_common()},
        home={name: count / each for name, count in asked.home.items()},
    )


def name_of(number: int) -> str:
    """Name a worker; all names are of one length."""
    return f"worker-{number:05}"


def in_names(asked: Asked, workers: int, fleet: int) -> Iterator[tuple[int, list[bytes]]]:
    """Make the calls of a fleet in a second from those of some workers; each with its worker.

    Every worker of the fleet does what one of these has done in one of the seconds. What whoever
    has a lock asks is asked by one of them all.
    """
    slices = max(1, round(asked.seconds))
    own = {name_of(number).encode(): number for number in range(workers)}
    turns = Counter[int]()
    for name, call in asked.redis:
        number = next((own[word[:12]] for word in call if word[:12] in own), 0)
        is_holders = name in _OF_HOLDERS
        turn = _HOLDER if is_holders else number
        turns[turn] += 1
        for clone in range(1 if is_holders else fleet // workers):
            # A call in so many is each clone's: together they do a second's worth of all kinds.
            if (turns[turn] + clone) % slices == 0:
                worker = number + clone * workers
                before, after = name_of(number).encode(), name_of(worker).encode()
                yield worker, [word.replace(before, after) for word in call]


def run(bench: Bench) -> Found:
    """Count a few workers, and some among a thousand, at work and idle; ask for a thousand."""
    (few, some), seconds = bench.scale.fleet_workers, bench.scale.fleet_seconds
    counted: dict[str, dict[int, Asked]] = {"at work": {}, "idle": {}}
    loads: dict[str, list[Load]] = {"at work": [], "idle": []}
    with polite_site() as port, _workers(bench, _tree()) as ask:
        for begun, count, of in ((0, few, few), (few, some, FLEET)):
            _register(bench, range(count, of))
            ask(f"more {' '.join(map(name_of, range(begun, count)))}")
            _await_workers(bench, of)
            submit(bench, _tree(), _urls(port, count, seconds))
            for how, pause in (("at work", _SETTLED_SECONDS), ("idle", _DONE_SECONDS)):
                time.sleep(pause)
                counted[how][of] = ask(f"count {seconds}")
                loads[how].append(load_of(counted[how][of], count, of))
                bench.tick(f"{count} workers of {of:,}, {how}")
        tick = ask("tick")
    shares = {}
    for how, asked in counted.items():
        asking = [call for name, call in asked[few].redis if name == _WHO_WORKS][:2]
        # The few learn only now of a thousand, and ask once more than one of these does.
        each = [one for one in asked[FLEET].redis if one[0] != _WHO_WORKS]
        counted_once = Asked(seconds=asked[FLEET].seconds, redis=each)
        calls = [*in_names(counted_once, some, FLEET), *_of_all(asking)]
        shares[how] = replayed(bench, calls)
        bench.tick(f"{FLEET:,} {how}")
    return _found(loads, tick, shares)


def _of_all(asking: Sequence[list[bytes]]) -> Iterator[tuple[int, list[bytes]]]:
    """Ask who works as often as a fleet does: less often than the counted time is long."""
    for worker in range(round(FLEET / ((FLEET - SOME_WORKERS) * ASK_EACH.total_seconds()))):
        yield from ((worker, call) for call in asking)


def _found(loads: Mapping[str, Sequence[Load]], tick: Asked, shares: Mapping[str, Share]) -> Found:
    growth = max(many.calls / few.calls for few, many in loads.values())
    home = {how: max(one.home_calls for one in found) for how, found in loads.items()}
    return Found(
        figures={
            "fleet_redis_cores": max(one.cores for one in shares.values()),
            "fleet_bytes_per_worker": max(one.bytes_out for one in shares.values()) / FLEET,
            "fleet_calls_growth": growth,
            "fleet_home_per_s": max(home.values()),
        },
        details={
            "what all workers share, a worker and second": {
                how: {f"of {one.of:,}": {"redis": one.redis, "home": one.home} for one in found}
                for how, found in loads.items()
            },
            "a tick of the scheduler beside a thousand": {
                "redis": Counter(name for name, _ in tick.redis),
                "home": tick.home,
            },
            "a thousand workers": {how: asdict(one) for how, one in shares.items()},
        },
        notes=[
            *(
                f"{FLEET:,} workers {how}: {share.calls:,} calls a second of the fleet's keys, "
                f"{share.cores:.2f} of a core of Redis, {share.bytes_in / 1e6:.2f} MB in and "
                f"{share.bytes_out / 1e6:.2f} MB out; the home node is asked {home[how]:.1f} times"
                for how, share in shares.items()
            ),
            f"a tick asks them {len(tick.redis)} and {sum(tick.home.values())} times",
        ],
    )


def _tree() -> Tree:
    tree = tree_of()
    stage = replace(
        tree.stage,
        hosts=HostLimits(per_second=1.0, adaptive=False),
        fleet=FleetLimits(min_consumers=FLEET, max_consumers=FLEET, idle_seconds=0.5),
    )
    return replace(tree, stage=stage)


def _urls(port: int, workers: int, seconds: float) -> list[str]:
    hosts = [f"127.0.{1 + host // 250}.{1 + host % 250}" for host in range(_HOSTS * workers)]
    pages = range(round(seconds + _SETTLED_SECONDS))
    return [f"http://{host}:{port}/{workers}/{page}" for page in pages for host in hosts]


def _register(bench: Bench, others: Iterable[int]) -> None:
    """Have others in the registry, who do nothing and do not die."""
    for_ever = {name_of(number): 4e12 for number in others}
    if for_ever:
        with redis.Redis.from_url(bench.addresses.redis) as client:
            client.zadd(_ALIVE, for_ever)


def _await_workers(bench: Bench, count: int) -> None:
    until = time.monotonic() + _BEGIN_SECONDS
    with redis.Redis.from_url(bench.addresses.redis) as client:
        while client.zcard(_ALIVE) < count:
            if time.monotonic() > until:
                raise BenchError(f"{client.zcard(_ALIVE)} of {count} workers have begun")
            time.sleep(0.05)
    time.sleep(_SETTLED_SECONDS)


@contextmanager
def _workers(bench: Bench, tree: Tree) -> Iterator[Any]:
    """Open what workers are asked through."""
    bench.addresses.clear()
    given = bench.variables(BENCH_TREE=msgspec.json.encode(tree).decode())
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.fleet_workers"],
        env=environment(given),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:

        def ask(line: str) -> Asked:
            if process.stdin is None or process.stdout is None:
                raise BenchError("the workers have no pipes")
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()
            said: dict[str, Any] | None = None
            while said is None:
                answer = process.stdout.readline()
                if not answer:
                    raise BenchError("the workers ended; see above")
                # What the product logs and measures is printed in JSON, too.
                found = msgspec.json.decode(answer)
                said = found if "home" in found else None
            return msgspec.convert(said, Asked)

        try:
            yield ask
        finally:
            process.kill()


def replayed(bench: Bench, calls: Sequence[tuple[int, list[bytes]]]) -> Share:
    """Ask a Redis that knows nobody else these calls, once to fill it and once to measure."""
    by_connection: list[list[list[bytes]]] = [[] for _ in range(_CONNECTIONS)]
    for worker, call in calls:
        by_connection[worker % _CONNECTIONS].append(call)
    with redis.Redis.from_url(bench.addresses.redis, protocol=2) as client:
        for key in client.scan_iter("cf:{fleet}:*"):
            client.delete(key)
        found = []
        for _ in range(2):
            before = client.info()
            _ask_all(bench.addresses.redis, by_connection)
            after = client.info()
            found.append({key: float(after[key]) - float(before[key]) for key in _COUNTED})
    used = found[-1]
    return Share(
        calls=len(calls),
        cores=used["used_cpu_user"] + used["used_cpu_sys"],
        bytes_in=used["total_net_input_bytes"],
        bytes_out=used["total_net_output_bytes"],
    )


_COUNTED: Final = (
    "used_cpu_user",
    "used_cpu_sys",
    "total_net_input_bytes",
    "total_net_output_bytes",
)


def _ask_all(url: str, by_connection: Sequence[Sequence[Sequence[bytes]]]) -> None:
    failed: list[Exception] = []

    def ask(calls: Sequence[Sequence[bytes]]) -> None:
        connection = redis.Redis.from_url(url, protocol=2).connection_pool.get_connection()
        try:
            for call in calls:
                connection.send_command(*call)  # type: ignore[no-untyped-call]
                connection.read_response()
        except redis.RedisError as error:
            failed.append(error)
        finally:
            connection.disconnect()  # type: ignore[no-untyped-call]

    asking = [threading.Thread(target=ask, args=(calls,)) for calls in by_connection]
    for one in asking:
        one.start()
    for one in asking:
        one.join()
    if failed:
        raise BenchError(f"a call could not be made again: {failed[0]}")
