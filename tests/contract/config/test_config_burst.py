"""The config centre under bursts: an SSM that throttles at 40 reads a second, 200 environments."""

import threading
import time
from contextlib import contextmanager

import pytest

from tests.config_documents import biz, texts
from tests.contract.throttling_ssm import READS_A_SECOND, ThrottlingSsm
from tests.kit.config import RedisRevisions, SsmConfig, write_tree
from tests.waiting import ROOM_SECONDS

ENVIRONMENTS = 200
#: The longest that one of them may take, of a machine that does nothing else.
SECONDS = 10.0


@pytest.fixture
def ssm():
    with ThrottlingSsm() as server:
        yield server


def documents(**changes):
    """A stage of thirty bizs, which are thirty parameters; the first one is changed."""
    bizs = {f"bizs__default__b{n}": biz(collection=f"c{n}") for n in range(30)}
    return texts(**bizs | {"bizs__default__b0": biz(collection="c0", **changes)})


def push(ssm, **changes):
    client = ssm.client(attempts=10)
    return write_tree(client, "test", documents(**changes)).revision


def environments(ssm, revisions=None, count=ENVIRONMENTS):
    # Ten share a client, and its connections; each reads and polls for itself.
    clients = [ssm.client() for _ in range(count // 10)]
    return [
        SsmConfig(
            clients[number // 10], "test", revisions=revisions, start_seconds=SECONDS + ROOM_SECONDS
        )
        for number in range(count)
    ]


@contextmanager
def started_together(each, until):
    """Have each environment ask until it is satisfied; yields how long each took, or its error."""
    began, took, errors, stop = time.monotonic(), [], [], threading.Event()

    def run(config):
        try:
            while not until(config.current()) and not stop.is_set():
                stop.wait(0.05)
            took.append(time.monotonic() - began)
        except Exception as error:  # noqa: BLE001  the test tells
            errors.append(error)

    threads = [threading.Thread(target=run, args=(config,)) for config in each]
    for thread in threads:
        thread.start()

    def wait():
        for thread in threads:
            thread.join(max(0.0, began + SECONDS + ROOM_SECONDS - time.monotonic()))
        stop.set()
        return took, errors

    try:
        yield wait
    finally:
        stop.set()


def answered(ssm):
    """Count the reads that the ration let through: what they take is no matter of the machine."""
    reads = [action for action in ssm.calls if action.startswith("Get")]
    return sum(ssm.calls[action] - ssm.throttled[action] for action in reads)


def test_200_start_cold_and_a_push_reaches_200_warm_within_ten_seconds_each(
    ssm, redis_connection, tenant
):
    first = push(ssm)
    found = RedisRevisions(redis_connection, fleet=tenant)
    each = environments(ssm, lambda: found)
    ssm.calls.clear()
    ssm.rations = True

    with started_together(each, lambda tree: tree.revision == first) as wait:
        took, errors = wait()
    assert errors == []
    assert len(took) == ENVIRONMENTS
    assert max(took) < SECONDS + ROOM_SECONDS
    assert ssm.throttled.total() > 0, "nothing was rationed, so nothing was shown"
    assert ssm.calls["GetParametersByPath"] == 0
    assert answered(ssm) < SECONDS * READS_A_SECOND
    ssm.calls.clear()
    ssm.throttled.clear()

    with started_together(each, lambda tree: tree.revision != first) as wait:
        second = push(ssm, queue="new")
        pushed_at = time.monotonic()
        took, errors = wait()
        late = time.monotonic() - pushed_at
    assert errors == []
    assert len(took) == ENVIRONMENTS
    assert late < SECONDS + ROOM_SECONDS
    assert answered(ssm) < SECONDS * READS_A_SECOND
    assert {config.current().revision for config in each} == {second}
    assert all(config.refused is None for config in each)
