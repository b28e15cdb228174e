"""A job's expansion goes on where it stopped, whenever its process is killed (SPEC.md C3)."""

import os
import random
import select
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from tests.contract import expand_process
from tests.contract.expand_process import BATCH
from tests.contract.job_cases import a_job
from tests.contract.seed_process import BIZ
from tests.kit.jobs import JobState, MongoJobs
from tests.kit.kernel import QueueKey
from tests.kit.mongo import MongoLedgers, MongoRequestStore
from tests.kit.mongo_nodes import NodesOnOneServer, own_control_at
from tests.kit.queue import RedisQueue
from tests.kit.spiders import Range, Start, url_at
from tests.waiting import eventually

ROOT = Path(__file__).parents[3]
SIZE = 12 * BATCH
START = Start(pattern="https://site.example/{n}", values={"n": Range(last=SIZE)})
#: Where each of the processes is killed: while it makes such a call, or before.
PLACES = (
    "in intake.admit",
    "in ids.take",
    "in jobs.open_batch",
    "before store.insert",
    "in store.insert",
    "in queue.enqueue",
    "before jobs.close_batch",
    "in jobs.close_batch",
)
#: Calls that it makes before, at most, and how long it has for the last one, at most.
CALLS = 16
CALL_SECONDS = 0.02
#: By then a batch is queued and not closed; of the others nobody can say.
SURELY_QUEUED = "before jobs.close_batch"
PERHAPS_QUEUED = {"in queue.enqueue", "in jobs.close_batch"}


@pytest.fixture
def control(mongo_uri: str) -> Iterator[NodesOnOneServer]:
    with own_control_at(mongo_uri) as nodes:
        yield nodes


def started(*arguments: str, stdin: int) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(ROOT / "layers/crawlfleet/python"), str(ROOT)])
    return subprocess.Popen(
        [sys.executable, expand_process.__file__, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        stdin=stdin,
        stdout=subprocess.PIPE,
        text=True,
    )


def killed(process: subprocess.Popen[str], place: str, calls: int, seconds: float) -> bool:
    """Have it make so many calls, and go on to that place; there it is killed, within so long.

    It ends before that where the job is not due: what the last one left open is waited for.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    when, _, call = place.partition(" ")
    with process.stdin, process.stdout:
        for number in count():
            reported = process.stdout.readline().strip()
            if not reported:
                assert process.wait() == 0
                return False
            is_there = number >= calls and reported == call
            if not is_there or when == "in":
                process.stdin.write("\n")
                process.stdin.flush()
            if is_there:
                break
        if when == "in":
            select.select([process.stdout], [], [], seconds)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    return True


def test_a_job_whose_expansion_is_killed_again_and_again_has_each_task_once(
    redis_url, redis_connection, mongo_uri, control, tenant
):
    chance = random.Random(1)
    jobs, queue_key = MongoJobs(control), QueueKey(tenant, "docs", "main")
    version = BIZ.rules["detail"].version
    jobs.create(a_job(tenant, start=START, rule_version=version))
    arguments = (redis_url, mongo_uri, control.control_name, tenant)
    killed_at = chance.sample(PLACES, len(PLACES))
    for number, place in enumerate(killed_at, 1):
        calls, seconds = chance.randrange(CALLS), chance.uniform(0, CALL_SECONDS)
        eventually(
            lambda number=number, place=place, calls=calls, seconds=seconds: killed(
                started(*arguments, str(number), stdin=subprocess.PIPE), place, calls, seconds
            ),
            what=f"{place} was not come to",
        )
    left = jobs.get(tenant, "docs", "june")

    batches = 0

    def goes_on_to_its_end() -> bool:
        nonlocal batches
        with started(*arguments, "100", stdin=subprocess.DEVNULL) as process:
            reported, _ = process.communicate(timeout=120)
        lines = reported.splitlines()
        assert process.returncode == 0, killed_at
        assert not [line for line in lines if line.startswith("warning")], killed_at
        batches += int(lines[-1].removeprefix("done "))
        return jobs.get(tenant, "docs", "june").expanded == SIZE

    eventually(goes_on_to_its_end, what=f"not all was expanded: {killed_at}")
    assert 0 < left.expanded < SIZE, "the kills were all at its beginning, or after its end"
    assert batches == (SIZE - left.expanded) // BATCH, killed_at

    job = jobs.get(tenant, "docs", "june")
    assert (job.state, job.expanded, job.batch) == (JobState.RUNNING, SIZE, None), killed_at
    assert (job.refused, job.trouble) == (0, None)
    now = datetime.now(UTC)
    store = MongoRequestStore(control)
    found = store.find(queue_key, BIZ, limit=2 * SIZE, now=now)
    urls = Counter(tracked.request.body.url for tracked in found)
    assert urls == Counter(url_at(START, index) for index in range(SIZE)), killed_at
    ledger = MongoLedgers(control).audit(queue_key, BIZ, now, "june")
    assert (ledger.submitted, ledger.pending, ledger.difference) == (SIZE, SIZE, 0), killed_at
    # Each is queued, and once more where its batch was queued and not closed; the store gives each
    # to one worker.
    queue = RedisQueue(redis_connection)
    depth = queue.depth(queue_key)
    sure, perhaps = killed_at.count(SURELY_QUEUED), len(PERHAPS_QUEUED)
    assert sure * BATCH <= depth.queued - SIZE <= (sure + perhaps) * BATCH, killed_at
    assert (depth.leased, depth.delayed) == (0, 0)
    claimed: Counter[object] = Counter()
    until = now + timedelta(minutes=1)
    for number in range(depth.queued):
        worker, token = f"w{number}", f"w{number}:1"
        entries = queue.lease(queue_key, token, 2 * BATCH, now, until)
        claims = store.claim(queue_key, BIZ, entries, worker, now, until, token)
        claimed.update(claim.request.id for claim in claims)
        if not entries:
            break
    assert claimed == Counter(tracked.request.id for tracked in found), killed_at
