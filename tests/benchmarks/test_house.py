"""Programs that bring their own secrets run for longer than a secret is trusted."""

from benchmarks.chaos.house import ChaosParts, World, tree_of
from tests.kit.config import FleetLimits
from tests.kit.mongo import Waits


def test_a_program_with_a_secret_of_its_own_goes_on_when_it_is_due_to_be_read_again(
    mongo_uri: str, redis_url: str, tenant: str
) -> None:
    parts = ChaosParts(
        World(redis=redis_url, mongo=mongo_uri, tree=tree_of(tenant, FleetLimits())), "router"
    )
    parts.nodes.waits = Waits(read_again=0.0)
    try:
        before = parts.nodes.client("main")
        assert parts.nodes.client("main") is before
    finally:
        parts.close()
