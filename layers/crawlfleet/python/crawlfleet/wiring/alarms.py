"""What the monitor does with what it has seen: incidents, and messages about them."""

from uuid import uuid4

from crawlfleet.adapters.mongo.incidents import MongoIncidentBook
from crawlfleet.adapters.sns_notifier import SnsNotifier
from crawlfleet.flows.alarming import AlarmingPorts, Memory, alarm
from crawlfleet.model.biz import Stage, Tree
from crawlfleet.model.sample import Sample
from crawlfleet.policy.unseen import hosts_to_watch
from crawlfleet.ports import MetricSink
from crawlfleet.wiring.parts import Parts

#: Before there has ever been a right configuration: the defaults' thresholds, and nobody's bizs.
_NOTHING = Tree(revision="", stage=Stage(), tenants={}, bizs={})


class Alarms:
    """The incidents as this environment goes on with them, look by look."""

    def __init__(self, parts: Parts, metrics: MetricSink) -> None:
        settings = parts.settings
        self._ports = AlarmingPorts(
            book=MongoIncidentBook(parts.nodes),
            notifier=SnsNotifier(
                settings.people_topic,
                settings.machines_topic,
                settings.phones_topic,
                connect=parts.outside.client,
            ),
            metrics=metrics,
            clock=parts.now,
            stage=settings.stage,
            warn=parts.warn,
        )
        self._memory = Memory()
        self._by = f"monitor-{uuid4().hex[:12]}"

    def watched(self) -> list[str]:
        """Hosts that have incidents, as far as this environment knows: the look asks for them."""
        return hosts_to_watch(self._memory.incidents.values())

    def before(self) -> Sample | None:
        """The look before, as far as this environment knows."""
        return self._memory.before

    def look(self, seen: Sample, tree: Tree | None) -> None:
        """Go on by one look; see flows.alarming."""
        alarm(self._ports, self._memory, seen, _NOTHING if tree is None else tree, self._by)
