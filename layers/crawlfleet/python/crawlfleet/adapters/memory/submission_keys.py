"""The twin of MongoDB's keys of submissions; here they are kept for as long as the process is."""

import threading
from collections.abc import Sequence
from datetime import datetime

import msgspec

from crawlfleet.model.keyed import Keyed, KeyName
from crawlfleet.model.lane import Lane


class MemorySubmissionKeys:
    """ports.SubmissionKeys in memory."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, KeyName], Keyed] = {}
        self._lock = threading.Lock()

    def find(self, lane: Lane, names: Sequence[KeyName]) -> dict[KeyName, Keyed]:
        """See ports.SubmissionKeys.find."""
        with self._lock:
            found = ((name, self._kept.get(_key(lane, name))) for name in names)
            return {name: keyed for name, keyed in found if keyed is not None}

    def open(
        self,
        lane: Lane,
        keyed: Sequence[Keyed],
        until: datetime,  # noqa: ARG002  nothing is forgotten here
    ) -> list[Keyed]:
        """See ports.SubmissionKeys.open."""
        with self._lock:
            return [self._kept.setdefault(_key(lane, one.name), one) for one in keyed]

    def close(self, lane: Lane, keyed: Sequence[Keyed]) -> None:
        """See ports.SubmissionKeys.close."""
        with self._lock:
            for one in keyed:
                key = _key(lane, one.name)
                standing = self._kept.get(key)
                if standing is not None and standing.queued_at == one.queued_at:
                    self._kept[key] = msgspec.structs.replace(standing, stored=True)

    def forget(self, lane: Lane, keyed: Sequence[Keyed]) -> None:
        """See ports.SubmissionKeys.forget."""
        with self._lock:
            for one in keyed:
                key = _key(lane, one.name)
                standing = self._kept.get(key)
                if (
                    standing is not None
                    and standing.queued_at == one.queued_at
                    and not standing.stored
                ):
                    del self._kept[key]


def _key(lane: Lane, name: KeyName) -> tuple[str, str, KeyName]:
    return lane.tenant, lane.biz, name
