"""A job made into tasks (SPEC.md C3), beside a plain submission of as many URLs as the floor.

Everything but Lambda is real: MongoDB, Redis, ids from the id-issuer's code. The memory of a job
must not depend on its size, and of its tasks none may be missing, and none be there twice.
"""

import gc
import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final, cast

import msgspec
from msgspec.structs import replace

from benchmarks.bench import Bench, BenchError, Found
from benchmarks.house import BIZ, PAGE_RULE, QUEUE_KEY, TENANT, BenchParts, tree_of
from crawlfleet.apps.context import now
from crawlfleet.apps.submissions import open_submissions
from crawlfleet.config.documents.biz import IntakeLimits, Tree
from crawlfleet.jobs.expansion import JobExpansion
from crawlfleet.jobs.models import Job, JobState
from crawlfleet.jobs.mongo.store import MongoJobs
from crawlfleet.jobs.spiders.models import Range, Start, url_at
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.models import Body
from crawlfleet.requests.routing import all_shards
from crawlfleet.requests.submission.admission import BATCH_LIMIT, Accepted, Submission
from crawlfleet.requests.submission.service import Submissions

#: The floor's part of the tasks: enough for a rate.
FLOOR_PART: Final = 5
SHARDS: Final = 2
_BITS: Final = 1 << 64
_STATUS: Final = Path("/proc/self/status")
_body: Final = msgspec.msgpack.Decoder(Body)


def run(bench: Bench) -> Found:
    """The floor first, then the job, each on empty servers."""
    size = bench.scale.expanded_tasks
    start = Start(
        pattern="https://example.org/library/{part}/page{n}.html",
        values={"part": ("a", "b", "c", "d"), "n": Range(last=size // 4)},
    )
    floor = _on_empty(bench, lambda parts: _submit(parts, start, size // FLOOR_PART))
    bench.tick("submitted")
    found = _on_empty(bench, lambda parts: _expand(parts, start, size))
    bench.tick("expanded")
    ratio = found["tasks_per_s"] / floor["tasks_per_s"]
    memory = found["rss_mb_after_all"] / found["rss_mb_after_a_tenth"]
    return Found(
        figures={
            "expansion_vs_submission": ratio,
            "expansion_tasks_per_s": found["tasks_per_s"],
            "expansion_tasks_per_cpu_s": found["tasks_per_cpu_s"],
            "expansion_memory": memory,
        },
        details={"expansion": found, "expansion, the floor": floor},
    )


def _on_empty(bench: Bench, work: Callable[[BenchParts], dict[str, float]]) -> dict[str, float]:
    bench.addresses.clear()
    tree = _roomy(tree_of(shards=SHARDS, databases=("docs", "more")), bench.scale.expanded_tasks)
    parts = BenchParts(bench.addresses, tree, "scheduler")
    try:
        return work(parts)
    finally:
        parts.nodes.close()
        parts.redis.close()


def _roomy(tree: Tree, tasks: int) -> Tree:
    # Nobody works here, so there is a backlog of all tasks; that alone is no reason to wait.
    biz = tree.bizs[TENANT][BIZ]
    intake = IntakeLimits(max_backlog=4 * tasks, jobs_ahead=2 * tasks)
    stage = replace(tree.stage, redis_memory_ratio=1.0)
    return replace(tree, stage=stage, bizs={TENANT: {BIZ: replace(biz, intake=intake)}})


def _ports(parts: BenchParts) -> Submissions:
    return open_submissions(parts)


def _submit(parts: BenchParts, start: Start, count: int) -> dict[str, float]:
    """The same URLs in batches of 1,000, of one job, through the submission's own flow."""
    ports, tree = _ports(parts), parts.config.current()
    clock, cpu = time.perf_counter(), time.process_time()
    for first in range(0, count, BATCH_LIMIT):
        part = [
            Submission(url=url_at(start, index), rule="page", job="plain")
            for index in range(first, min(first + BATCH_LIMIT, count))
        ]
        receipts = ports.submit(tree, TENANT, BIZ, part, now())
        if not all(isinstance(one, Accepted) for one in receipts):
            raise BenchError(f"not submitted: {receipts[0]}")
    return _rates(count, time.perf_counter() - clock, time.process_time() - cpu)


def _expand(parts: BenchParts, start: Start, size: int) -> dict[str, float]:
    jobs, tree = MongoJobs(parts.nodes), parts.config.current()
    ports = JobExpansion(jobs=jobs, ledgers=parts.ledgers, submission=_ports(parts))
    job = jobs.create(_job(start, size))
    memory: list[float] = []

    def time_left() -> float:
        # Asked before each batch.
        batch = len(memory)
        memory.append(rss_mb() if batch % 20 == 0 else memory[-1])
        return 60.0

    gc.collect()
    clock, cpu = time.perf_counter(), time.process_time()
    ports.expand(tree, now, time_left)
    found = _rates(size, time.perf_counter() - clock, time.process_time() - cpu)
    found["rss_mb_after_a_tenth"] = max(memory[: max(1, len(memory) // 10)])
    found["rss_mb_after_all"] = max(*memory, rss_mb())
    _check(parts, jobs.get(*job.key), size)
    return found


def _job(start: Start, size: int) -> Job:
    return Job(
        tenant=TENANT,
        biz=BIZ,
        name="large",
        state=JobState.EXPANDING,
        rule="page",
        rule_version=PAGE_RULE.version,
        start=start,
        size=size,
        created_at=from_ms(to_ms(now())),
        by="api",
    )


def _rates(count: int, seconds: float, cpu: float) -> dict[str, float]:
    return {
        "tasks": count,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "tasks_per_s": count / seconds,
        "tasks_per_cpu_s": count / cpu,
    }


def _check(parts: BenchParts, job: Job | None, size: int) -> None:
    """Check that each task is there once, by the sum of all fingerprints, and the ledger too."""
    if job is None or (job.state, job.expanded) != (JobState.RUNNING, size):
        raise BenchError(f"the job is not expanded: {job}")
    biz = parts.config.current().bizs[TENANT][BIZ]
    ledger = parts.ledgers.audit(QUEUE_KEY, biz, now(), job.name)
    if (ledger.submitted, ledger.pending, ledger.difference) != (size, size, 0):
        raise BenchError(f"its ledger says {ledger}")
    queued = parts.queue.depth(QUEUE_KEY).queued
    if queued != size:
        raise BenchError(f"{queued} of {size} are queued")
    wanted = (0, 0, 0)
    for index in range(size):
        wanted = _added(wanted, url_at(job.start, index))
    found = (0, 0, 0)
    for url in _stored(parts):
        found = _added(found, url)
    if found != wanted:
        raise BenchError(f"stored are {found[0]} tasks, and not the {wanted[0]} of the start")


def _added(sums: tuple[int, int, int], url: str) -> tuple[int, int, int]:
    """Count, sum and sum of squares: whatever is there twice for another one changes them."""
    count, first, second = sums
    digest = int.from_bytes(blake2b(url.encode(), digest_size=8).digest(), "big")
    return count + 1, (first + digest) % _BITS, (second + digest * digest) % _BITS


def _stored(parts: BenchParts) -> Iterator[str]:
    biz = parts.config.current().bizs[TENANT][BIZ]
    for shard in all_shards(biz):
        name = f"{BIZ}.{biz.collection}_{shard.number:03d}"
        requests = parts.nodes.collection(shard.node, TENANT, shard.database, name)
        for document in requests.find({}, {"data": True, "_id": False}, batch_size=10_000):
            yield _body.decode(cast("bytes", document["data"])).url


def rss_mb(status: Path = _STATUS) -> float:
    """Get this process's memory; 0 where the system does not say."""
    if not status.exists():
        return 0.0
    lines = status.read_text().splitlines()
    return next((int(one.split()[1]) / 1024 for one in lines if one.startswith("VmRSS:")), 0.0)
