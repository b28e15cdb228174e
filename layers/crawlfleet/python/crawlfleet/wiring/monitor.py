"""The monitor: one round of samples over the parts."""

from functools import lru_cache

from crawlfleet.adapters.emf import EmfMetrics
from crawlfleet.adapters.part_health import PartHealth
from crawlfleet.flows.sampling import SamplingPorts, sample
from crawlfleet.model.metric import Metric
from crawlfleet.settings import Need, Settings
from crawlfleet.wiring.parts import Parts, now


class Monitor:
    """One look at everything."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._metrics = EmfMetrics(parts.settings.stage)
        self._ports = SamplingPorts(
            queue=parts.queue,
            store=parts.store,
            ledgers=parts.ledgers,
            workers=parts.workers,
            health=PartHealth(parts.redis, parts.nodes, lambda: parts.config.current().stage.nodes),
            metrics=self._metrics,
            warn=parts.warn,
        )

    def look(self) -> dict[str, object]:
        """Emit one round; returns the parts that are not well, with their reasons."""
        tree = self._parts.config.current()
        moment = now()
        looks = sample(self._ports, tree, moment)
        refused = self._parts.config.refused
        self._metrics.put([Metric("ConfigRefused", int(refused is not None))], {}, moment)
        unwell = {f"{look.part}:{look.name}": look.error for look in looks if look.error}
        if unwell:
            self._parts.log.warning("parts are not well", extra={"unwell": unwell})
        return {"unwell": unwell}


@lru_cache(maxsize=1)
def monitor() -> Monitor:
    """The monitor of this environment."""
    return Monitor(Parts(Settings.from_environment(needs=(Need.REDIS, Need.NODES)), "monitor"))
