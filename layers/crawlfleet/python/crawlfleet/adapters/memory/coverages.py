"""The twin of the coverage of rules on Redis."""

from threading import Lock

from crawlfleet.model.harvest import Coverage
from crawlfleet.model.lane import Lane
from crawlfleet.policy.coverage import MOST_VERSIONS, countable, together


class MemoryCoverages:
    """ports.Coverages in memory."""

    def __init__(self) -> None:
        # The last one was counted last.
        self._counts: dict[tuple[str, str], dict[tuple[str, str], Coverage]] = {}
        self._lock = Lock()

    def add(self, lane: Lane, rule: str, version: str, coverage: Coverage) -> None:
        """See ports.Coverages.add."""
        with self._lock:
            mine = self._counts.setdefault((lane.tenant, lane.biz), {})
            before = mine.pop((rule, version), Coverage())
            mine[rule, version] = together(before, countable(coverage))
            if len(mine) > MOST_VERSIONS:
                del mine[next(iter(mine))]

    def of(self, lane: Lane) -> dict[tuple[str, str], Coverage]:
        """See ports.Coverages.of."""
        with self._lock:
            return dict(self._counts.get((lane.tenant, lane.biz), {}))
