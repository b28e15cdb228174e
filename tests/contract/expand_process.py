"""A process that makes the tasks of a job, to be killed at any moment.

``python expand_process.py REDIS MONGO CONTROL TENANT NUMBER``: before each call of a port it tells
on standard output which, and goes on once it has read a line, or the end, of standard input. It
ends when the job has all its tasks.
"""

import sys
from collections.abc import Callable
from datetime import UTC, datetime

from tests.contract.seed_process import BIZ, Ids, wake
from tests.kit.ceilings import ceilings_at
from tests.kit.config import Stage, Tenant, Tree
from tests.kit.fleet import RedisWorkers
from tests.kit.jobs import JobExpansion, MongoJobs
from tests.kit.kernel import QueueKey
from tests.kit.mongo import MongoLedgers, MongoRequestStore, MongoRules
from tests.kit.mongo_nodes import NodesOnOneServer
from tests.kit.queue import RedisQueue
from tests.kit.redis import RedisConnection
from tests.kit.submission import MongoSubmissionKeys, RedisIntake, Submissions

#: Tasks of a batch.
BATCH = 50


def report(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Reported:
    """A port whose calls are told, and waited with, before they are made."""

    def __init__(self, name: str, port: object) -> None:
        self._name, self._port = name, port

    def __getattr__(self, name: str) -> Callable[..., object]:
        call = getattr(self._port, name)

        def reported(*arguments: object, **named: object) -> object:
            report(f"{self._name}.{name}")
            sys.stdin.readline()
            return call(*arguments, **named)

        return reported


def ports(
    redis: RedisConnection, nodes: NodesOnOneServer, tenant: str, number: int
) -> JobExpansion:
    waker = type("Waker", (), {"wake": staticmethod(wake)})()
    submission = {
        "ids": Ids(number),
        "store": MongoRequestStore(nodes),
        "queue": RedisQueue(redis),
        "rules": MongoRules(nodes),
        "keys": MongoSubmissionKeys(nodes),
        "intake": RedisIntake(redis),
        "ceilings": ceilings_at(redis, nodes),
        "workers": RedisWorkers(redis, fleet=tenant),
        "waker": waker,
    }
    reported = {name: Reported(name, port) for name, port in submission.items()}
    return JobExpansion(
        jobs=Reported("jobs", MongoJobs(nodes)),
        ledgers=Reported("ledgers", MongoLedgers(nodes)),
        submission=Submissions(**reported),
        batch=BATCH,
    )


def main() -> None:
    redis_url, mongo_uri, control, tenant, number = sys.argv[1:]
    queue_key = QueueKey(tenant, "docs", "main")
    bizs = {tenant: {queue_key.biz: BIZ}}
    tree = Tree(revision="1", stage=Stage(), tenants={tenant: Tenant()}, bizs=bizs)
    nodes = NodesOnOneServer(mongo_uri, control)
    with RedisConnection(redis_url) as redis:
        expander = ports(redis, nodes, tenant, int(number))
        done = expander.expand(tree, lambda: datetime.now(UTC), lambda: 60.0)
    nodes.close()
    report(f"done {done.batches}")


if __name__ == "__main__":
    main()
