"""A crawl goes on where it stopped, whenever its process is killed (SPEC.md F4)."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.contract import seed_process
from tests.contract.seed_process import BIZ, URLS
from tests.kit.frontier import MongoSeeds, SeedState
from tests.kit.kernel import QueueKey
from tests.kit.mongo import MongoNodes, MongoRequestStore
from tests.kit.patience import PATIENT
from tests.kit.requests import State

ROOT = Path(__file__).parents[4]
#: Kills of one crawl, and lines after which one may come.
KILLS = 9
LINES = 45


def started(*arguments: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(ROOT / "layers/crawlfleet/python"), str(ROOT)])
    return subprocess.Popen(
        [sys.executable, seed_process.__file__, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_a_crawl_that_is_killed_again_and_again_does_each_page_once(
    redis_url, mongo_uri, tenant, seed
):
    chance = random.Random(seed)
    killed_at, last = [], ""
    for number in range(1, KILLS + 1):
        process = started(redis_url, mongo_uri, tenant, str(number))
        for _, line in zip(range(chance.randrange(LINES)), process.stdout, strict=False):
            last = line.strip()
        # It has told what it is about to do, and is right in it.
        process.send_signal(signal.SIGKILL)
        assert process.wait() in {-signal.SIGKILL, 0}
        process.stdout.close()
        killed_at.append(last)

    with started(redis_url, mongo_uri, tenant, "100") as process:
        reported, _ = process.communicate(timeout=120)
    assert process.returncode == 0, killed_at
    assert reported.splitlines()[-1].startswith("done "), killed_at

    nodes = MongoNodes(lambda _: mongo_uri, lambda: "main", waits=PATIENT)
    queue_key = QueueKey(tenant, "docs", "main")
    kept = MongoSeeds(nodes).find(queue_key, BIZ, segment=None, state=None, after=None, limit=999)
    found = MongoRequestStore(nodes).find(queue_key, BIZ, limit=999, now=datetime.now(UTC))
    nodes.close()
    assert Counter(seed.spec.url for seed in kept) == Counter(URLS), killed_at
    assert {seed.state for seed in kept} == {SeedState.FINISHED}, killed_at
    assert Counter(tracked.request.body.url for tracked in found) == Counter(URLS), killed_at
    assert {tracked.state for tracked in found} == {State.DONE}, killed_at
