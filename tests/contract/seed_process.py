"""A process that adds, dispatches and works on seeds, to be killed at any moment.

``python seed_process.py REDIS MONGO TENANT NUMBER``: it tells on standard output what it is about
to do, and ends when every seed has ended.
"""

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from tests.kit.ceilings import ceilings_at
from tests.kit.config import Biz, Field, Generation, Rule, SeedPolicy, Span, Stage, Tree
from tests.kit.fleet import RedisWorkers
from tests.kit.frontier import (
    MongoSeeds,
    RedisSeedFilter,
    SeedDispatcher,
    SeedSpec,
)
from tests.kit.ids import Allot, position, runs
from tests.kit.kernel import IdKind, QueueKey, RequestId, to_ms
from tests.kit.mongo import MongoNodes, MongoRequestStore, MongoRules
from tests.kit.patience import PATIENT
from tests.kit.queue import RedisQueue
from tests.kit.redis import RedisConnection
from tests.kit.requests import Done
from tests.kit.submission import MongoSubmissionKeys, RedisIntake, Submissions

URLS = [f"https://site.example/{number}" for number in range(300)]
BATCH = 30
BIZ = Biz(
    generations=(
        Generation(
            starts_at=datetime(2026, 1, 1, tzinfo=UTC),
            nodes=("main",),
            databases=("one", "two"),
            shards=2,
        ),
    ),
    rules={"detail": Rule(fields={"title": Field(css="h1")})},
    seeds=SeedPolicy(span=Span.FOREVER, ahead=50, lease_seconds=1.0),
)
TREE = Tree(revision="1", stage=Stage(), tenants={}, bizs={})


class Ids:
    """Snowflake ids of a worker number that no other process of the test has."""

    def __init__(self, number: int) -> None:
        self._number, self._last = number, 0

    def take(self, queue_key: QueueKey, kind: IdKind, count: int) -> list[RequestId]:
        start = max(self._last, position(to_ms(datetime.now(UTC))))
        self._last = start + count
        return [
            first + offset
            for first, size in runs(self._number, Allot(start, self._last))
            for offset in range(size)
        ]


def wake(count: int) -> None:
    """Wake no worker, as this process is the only one."""


def report(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Process:
    def __init__(
        self, redis: RedisConnection, nodes: MongoNodes, queue_key: QueueKey, number: int
    ) -> None:
        self.queue_key, self.worker = queue_key, f"w{number}"
        self.queue, self.store = RedisQueue(redis), MongoRequestStore(nodes)
        waker: Callable[[int], None] = wake
        self.ports = SeedDispatcher(
            seeds=MongoSeeds(nodes),
            filter=RedisSeedFilter(redis),
            submission=Submissions(
                ids=Ids(number),
                store=self.store,
                queue=self.queue,
                rules=MongoRules(nodes),
                keys=MongoSubmissionKeys(nodes),
                intake=RedisIntake(redis),
                ceilings=ceilings_at(redis, nodes),
                workers=RedisWorkers(redis, fleet=queue_key.tenant),
                waker=type("Waker", (), {"wake": staticmethod(waker)})(),
            ),
        )

    def run(self) -> None:
        accepted = 0
        for start in range(0, len(URLS), BATCH):
            report(f"offer {start}")
            specs = [SeedSpec(url=url, rule="detail") for url in URLS[start : start + BATCH]]
            now = datetime.now(UTC)
            accepted += sum(o.accepted for o in self.ports.add(self.queue_key, BIZ, specs, now))
            self.turn()
        while any(t.ready or t.handed for t in self.totals()):
            self.turn()
        report(f"done {accepted}")

    def totals(self):
        return self.ports.seeds.totals(self.queue_key, BIZ, datetime.now(UTC))

    def turn(self) -> None:
        """Do the work of one tick and of one worker."""
        now = datetime.now(UTC)
        report("recheck")
        self.ports.recheck(self.queue_key, BIZ, now)
        report("dispatch")
        self.ports.dispatch(TREE, self.queue_key, BIZ, now)
        report("recover")
        lost = self.store.unqueued(
            self.queue_key, BIZ, before=[now - timedelta(seconds=1)] * 11, now=now, limit=1_000
        )
        self.queue.requeue(self.queue_key, lost)
        report("lease")
        now = datetime.now(UTC)
        until, token = now + timedelta(seconds=1), f"{self.worker}.n.{to_ms(now)}"
        entries = self.queue.lease(self.queue_key, token, 40, now, until)
        claims = self.store.claim(self.queue_key, BIZ, entries, self.worker, now, until, token)
        outcomes = [(claim, Done(())) for claim in claims]
        report("settle")
        lost_ids = self.store.settle(self.queue_key, BIZ, outcomes, self.worker, now).lost
        stood = [(claim, done) for claim, done in outcomes if claim.request.id not in lost_ids]
        report("tell the seeds")
        self.ports.end(self.queue_key, BIZ, stood, datetime.now(UTC))
        report("finish")
        self.queue.finish(self.queue_key, token, entries, len(stood), datetime.now(UTC))


def main() -> None:
    redis_url, mongo_uri, tenant, number = sys.argv[1:]
    nodes = MongoNodes(lambda _: mongo_uri, lambda: "main", waits=PATIENT)
    with RedisConnection(redis_url) as redis:
        Process(redis, nodes, QueueKey(tenant, "docs", "main"), int(number)).run()
    nodes.close()


if __name__ == "__main__":
    main()
