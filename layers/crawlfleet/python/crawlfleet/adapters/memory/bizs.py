"""The twin of what Redis tells of bizs."""

from collections.abc import Mapping, Sequence

from crawlfleet.model.lane import Lane


class MemoryBizs:
    """ports.Bizs in memory."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[bool, str]] = {}

    def tell(self, lanes: Mapping[str, Sequence[Lane]]) -> list[Lane]:
        """See ports.Bizs.tell."""
        for key, (_, queue) in self._known.items():
            if key[0] in lanes:
                self._known[key] = (False, queue)
        for each in lanes.values():
            self._known |= {(lane.tenant, lane.biz): (True, lane.queue) for lane in each}
        return [
            Lane(tenant, biz, queue)
            for (tenant, biz), (there, queue) in self._known.items()
            if tenant in lanes and not there
        ]

    def gone(self, lanes: Mapping[str, Sequence[Lane]]) -> list[Lane]:
        """See ports.Bizs.gone."""
        there = {(lane.tenant, lane.biz) for each in lanes.values() for lane in each}
        return [
            Lane(*key, queue)
            for key, (_, queue) in self._known.items()
            if key[0] in lanes and key not in there
        ]

    def ask(self, lane: Lane) -> tuple[bool | None, list[str]]:
        """As RedisBizs.ask."""
        key = lane.tenant, lane.biz
        if self._known.get(key, (False, ""))[0]:
            return True, []
        others = sorted(b for (t, b), (there, _) in self._known.items() if t == key[0] and there)
        if others:
            return False, others[:20]
        self._known.setdefault(key, (False, lane.queue))
        return None, []
