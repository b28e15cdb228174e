"""The monitor: one look at everything, as a sample and as metrics."""

from collections.abc import Callable
from functools import cached_property, lru_cache

from crawlfleet.adapters.emf import EmfMetrics
from crawlfleet.errors import CrawlfleetError
from crawlfleet.flows.emitting import Emitter
from crawlfleet.flows.sampling import SamplingPorts, sample
from crawlfleet.model.biz import MonitorLimits
from crawlfleet.model.sample import Sample, Unread
from crawlfleet.model.totals import NodeHealth
from crawlfleet.settings import Need, Settings
from crawlfleet.wiring.alarms import Alarms
from crawlfleet.wiring.parts import Parts
from crawlfleet.wiring.sampling import configuration, sampling_ports


class Monitor:
    """One look at everything."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        metrics = EmfMetrics(parts.settings.stage)
        self._emitter = Emitter(metrics, parts.warn)
        self._alarms = Alarms(parts, metrics)

    @cached_property
    def _ports(self) -> SamplingPorts:
        return sampling_ports(self._parts)

    def look(self) -> dict[str, object]:
        """Emit one round; returns the parts that are not well, with their reasons."""
        tree, refused = configuration(self._parts)
        try:
            ports = self._ports
        except CrawlfleetError as error:
            seen = self._blind(error, refused)
        else:
            seen = sample(
                ports,
                tree,
                self._parts.now(),
                config_refused=refused,
                watched=self._alarms.watched(),
                before=self._alarms.before(),
            )
        self._emitter.emit(seen, MonitorLimits() if tree is None else tree.stage.monitor)
        self._alarms.look(seen, tree)
        return self._told(seen)

    def _blind(self, error: CrawlfleetError, refused: str | None) -> Sample:
        """Without so much as the address or password of Redis, which the secret store has."""
        self._parts.warn("nothing could be looked at", error)
        return Sample(
            at=self._parts.now(),
            parts=(NodeHealth(part="redis", name="redis", up=False, error=str(error)),),
            config_refused=refused,
            unread=(Unread(what="everything", why=str(error)),),
        )

    def _told(self, seen: Sample) -> dict[str, object]:
        unwell = {f"{look.part}:{look.name}": look.error for look in seen.parts if look.error}
        if unwell:
            self._parts.log.warning("parts are not well", extra={"unwell": unwell})
        missing = {f"{look.part}:{look.name}": look.missing for look in seen.parts if look.missing}
        if missing:
            self._parts.log.info("some figures are missing", extra={"missing": missing})
        return {"unwell": unwell, "unread": [one.what for one in seen.unread]}


@lru_cache(maxsize=1)
def monitor(open_parts: Callable[..., Parts] = Parts) -> Monitor:
    """The monitor of this environment."""
    settings = Settings.from_environment(needs=(Need.REDIS, Need.NODES))
    return Monitor(open_parts(settings, "monitor"))
