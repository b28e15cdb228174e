"""The twin of MongoDB's rule store."""

import threading

from crawlfleet.model.lane import Lane
from crawlfleet.model.rule import Rule
from crawlfleet.model.spider import Spider


class MemoryRules:
    """ports.RuleStore in memory."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, str, str], Rule | Spider] = {}
        self._lock = threading.Lock()

    def freeze(self, lane: Lane, name: str, rule: Rule | Spider) -> None:
        """See ports.RuleStore.freeze."""
        with self._lock:
            self._kept.setdefault((lane.tenant, lane.biz, name, rule.version), rule)

    def frozen(self, lane: Lane, name: str, version: str) -> Rule | Spider | None:
        """See ports.RuleStore.frozen."""
        with self._lock:
            return self._kept.get((lane.tenant, lane.biz, name, version))
