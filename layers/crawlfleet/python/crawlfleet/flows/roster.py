"""Who works: the fleet's workers as one tenant may see them (SPEC.md C6, D1).

Workers serve every tenant. How each is doing is everybody's to know; what it holds is shown of the
one biz only.
"""

from dataclasses import dataclass

import msgspec

from crawlfleet.flows.configuration import biz_of
from crawlfleet.model.biz import Tree
from crawlfleet.model.lane import Lane
from crawlfleet.model.worker import Card, Health, WorkerStatus
from crawlfleet.policy import liveness
from crawlfleet.policy.tenancy import operates
from crawlfleet.ports import Watch

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


def seen_from(lane: Lane, status: WorkerStatus, *, counts: bool = False) -> WorkerStatus:
    """The worker without what is other lanes': what it holds of them, what it did for them.

    With ``counts`` it keeps what it has done for all of them together, for operators.
    """
    card, name = status.card, f"{lane.tenant}/{lane.biz}"
    cut = Card(
        started_ms=card.started_ms,
        held={name: card.held.get(name, 0)},
        done=card.done if counts else 0,
        failed=card.failed if counts else 0,
        pool=card.pool,
    )
    return msgspec.structs.replace(status, card=cut)
