"""Seeds while MongoDB is dead, slow or lying: every call is an error of ours, in time."""

from collections.abc import Callable

import pytest

from tests.contract.requests.test_mongo_faults import SOON, broken_uri
from tests.contract.seed_cases import HOUR, TODAY, a_seed
from tests.contract.store_cases import NOW, a_biz, a_generation
from tests.kit.frontier import MongoSeeds
from tests.kit.kernel import QueueKey, StoreUnavailableError
from tests.kit.mongo_nodes import nodes_at
from tests.waiting import in_time

__all__ = ["broken_uri"]

SEED = a_seed(1, request=7, handed_at=NOW)
BIZ = a_biz(generations=(a_generation(nodes=("east",)),))

CALLS: dict[str, Callable[[MongoSeeds, QueueKey], object]] = {
    "insert": lambda s, queue_key: s.insert(queue_key, BIZ, [SEED]),
    "known": lambda s, queue_key: s.known(queue_key, BIZ, TODAY, [SEED.key]),
    "ready": lambda s, queue_key: s.ready(queue_key, BIZ, NOW, 9),
    "dispatch": lambda s, queue_key: s.dispatch(queue_key, BIZ, [7], NOW, NOW + HOUR),
    "overdue": lambda s, queue_key: s.overdue(queue_key, BIZ, NOW, 9),
    "extend": lambda s, queue_key: s.extend(queue_key, BIZ, [SEED], NOW + HOUR),
    "ended": lambda s, queue_key: s.ended(queue_key, BIZ, {SEED.id: (7, "")}, NOW),
    "release": lambda s, queue_key: s.release(queue_key, BIZ, [SEED.id], "again", NOW),
    "forget": lambda s, queue_key: s.forget(queue_key, BIZ, [SEED.id]),
    "totals": lambda s, queue_key: s.totals(queue_key, BIZ, NOW),
    "find": lambda s, queue_key: s.find(
        queue_key, BIZ, segment=None, state=None, after=None, limit=9
    ),
}


def test_every_call_about_seeds_is_an_error_of_ours_in_time(broken_uri: str, tenant: str) -> None:
    with nodes_at(broken_uri, waits=SOON) as nodes:
        seeds, queue_key = MongoSeeds(nodes), QueueKey(tenant, "shop", "main")
        for name, call in CALLS.items():
            with in_time(SOON.selection, name), pytest.raises(StoreUnavailableError):
                call(seeds, queue_key)
