"""Who works: the fleet's workers as one tenant may see them (SPEC.md C6, D1).

Workers serve every tenant. How each is doing is everybody's to know; what it holds is shown of the
one biz only.
"""

from dataclasses import dataclass

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.lookup import biz_of, operates
from crawlfleet.fleet import failure_detector as liveness
from crawlfleet.fleet.models import Health, WorkerStatus
from crawlfleet.fleet.ports import Watch
from crawlfleet.fleet.status import seen_from

#: The dead first: they are what one looks for.
_ORDER = {Health.DEAD: 0, Health.SUSPECTED: 1, Health.UNWATCHED: 2, Health.ALIVE: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class RosterPorts:
    """What the roster needs of the world."""

    watch: Watch


def workers(ports: RosterPorts, tree: Tree, tenant: str, biz_name: str) -> list[WorkerStatus]:
    """Known workers, each with what it holds of this biz; a biz that none serves has none held."""
    lane, _ = biz_of(tree, tenant, biz_name)
    limits, counts = tree.stage.detector, operates(tree, tenant)
    found = [
        seen_from(lane, liveness.status(pulse, limits), counts=counts)
        for pulse in ports.watch.pulses()
    ]
    return sorted(found, key=lambda status: (_ORDER[status.health], status.worker))
