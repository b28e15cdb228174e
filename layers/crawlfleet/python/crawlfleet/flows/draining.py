"""Draining data queues: items that came from outside of workers, lane by lane (SPEC.md B9)."""

import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from crawlfleet.flows.processing import DrainPorts, drain
from crawlfleet.model.biz import Tree
from crawlfleet.policy.tokens import new_token

#: An item that nobody was heard of is handed out again after this.
LEASE: Final = timedelta(seconds=60)
#: Batches of one lane in one go: others wait, too.
BATCHES: Final = 20


class Drainer:
    """The draining of one worker. Its method blocks.

    Args:
        ports: The data queue and where its items go.
        worker: The worker's id.
        clock: The time.
        warn: Is told what is wrong but not fatal.
        batches: Of one lane in one go: others wait, too.
    """

    def __init__(
        self,
        ports: DrainPorts,
        worker: str,
        clock: Callable[[], datetime],
        warn: Callable[[str, Exception], None],
        batches: int = BATCHES,
    ) -> None:
        self._ports = ports
        self._worker = worker
        self._clock = clock
        self._warn = warn
        self._batches = batches
        self._nonce = secrets.token_hex(4)
        self._leases = 0

    def drain(self, tree: Tree) -> int:
        """Store what waits, as far as it goes in a while; returns how many items are done with."""
        lanes = tree.lanes()
        if not lanes:
            return 0
        done = 0
        for lane, waiting in zip(lanes, self._ports.queue.waiting(lanes), strict=True):
            for _ in range(self._batches if waiting else 0):
                self._leases += 1
                token = new_token(self._worker, self._nonce, self._leases)
                now = self._clock()
                try:
                    drained = drain(self._ports, tree, lane, token, now, now + LEASE)
                except Exception as error:  # noqa: BLE001  no lane's fault may be another's
                    self._warn("items could not be stored", error)
                    break
                done += drained.stored + drained.dropped
                if drained.away or not drained.stored + drained.dropped:
                    break
        return done
