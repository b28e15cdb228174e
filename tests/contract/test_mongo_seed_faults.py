"""Seeds while MongoDB is dead, slow or lying: every call is an error of ours, in time."""

from collections.abc import Callable

import pytest

from tests.contract.seed_cases import HOUR, TODAY, a_seed
from tests.contract.store_cases import NOW, a_biz, a_generation
from tests.contract.test_mongo_faults import SOON, broken_uri
from tests.kit.frontier import MongoSeeds
from tests.kit.kernel import Lane, StoreUnavailableError
from tests.kit.mongo_nodes import nodes_at
from tests.waiting import in_time

__all__ = ["broken_uri"]

SEED = a_seed(1, request=7, handed_at=NOW)
BIZ = a_biz(generations=(a_generation(nodes=("east",)),))

CALLS: dict[str, Callable[[MongoSeeds, Lane], object]] = {
    "insert": lambda s, lane: s.insert(lane, BIZ, [SEED]),
    "known": lambda s, lane: s.known(lane, BIZ, TODAY, [SEED.key]),
    "ready": lambda s, lane: s.ready(lane, BIZ, NOW, 9),
    "hand_out": lambda s, lane: s.hand_out(lane, BIZ, [7], NOW, NOW + HOUR),
    "overdue": lambda s, lane: s.overdue(lane, BIZ, NOW, 9),
    "extend": lambda s, lane: s.extend(lane, BIZ, [SEED], NOW + HOUR),
    "ended": lambda s, lane: s.ended(lane, BIZ, {SEED.id: (7, "")}, NOW),
    "release": lambda s, lane: s.release(lane, BIZ, [SEED.id], "again", NOW),
    "forget": lambda s, lane: s.forget(lane, BIZ, [SEED.id]),
    "totals": lambda s, lane: s.totals(lane, BIZ, NOW),
    "find": lambda s, lane: s.find(lane, BIZ, segment=None, state=None, after=None, limit=9),
}


def test_every_call_about_seeds_is_an_error_of_ours_in_time(broken_uri: str, tenant: str) -> None:
    with nodes_at(broken_uri, waits=SOON) as nodes:
        seeds, lane = MongoSeeds(nodes), Lane(tenant, "shop", "main")
        for name, call in CALLS.items():
            with in_time(SOON.selection, name), pytest.raises(StoreUnavailableError):
                call(seeds, lane)
