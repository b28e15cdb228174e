"""Which hosts are a worker's own (SPEC.md D3), by who lives; asked anew every few seconds."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from crawlfleet.errors import StoreUnavailableError
from crawlfleet.model.politeness import Parked
from crawlfleet.model.times import to_ms
from crawlfleet.policy.affinity import chosen, owner, salt
from crawlfleet.ports import Workers

#: Hosts of which it is remembered whose they are.
REMEMBERED: Final = 20_000
#: Of more workers than this nobody has to choose: each host has somebody near by luck alone, and
#: to ask all of them would cost more than a connection.
MOST_WORKERS: Final = 1_000


class Placing:
    """What one worker knows of that. Threads of it may ask at the same time.

    Args:
        workers: Who lives.
        worker: Who asks.
        warn: Is told what is wrong but not fatal.
    """

    def __init__(
        self, workers: Workers, worker: str, warn: Callable[[str, Exception], None]
    ) -> None:
        self._workers = workers
        self._id = worker
        self._warn = warn
        self._live: frozenset[str] = frozenset()
        self._salts: list[tuple[int, str]] = []
        self._mine: dict[str, bool] = {}

    def look(self, now: datetime) -> None:
        """Learn who lives. While nobody says so everything stays as it was."""
        try:
            live = frozenset(self._workers.live(now))
        except StoreUnavailableError as error:
            self._warn("who else works is not known", error)
            return
        if live != self._live:
            self._live = live
            alone = len(live | {self._id}) == 1 or len(live) > MOST_WORKERS
            self._salts = [] if alone else [(salt(name), name) for name in live | {self._id}]
            self._mine = {}

    def choose(self, parked: Sequence[Parked], now: datetime) -> list[Parked]:
        """Of hosts whose time has come, those that this worker looks at."""
        if not self._salts:
            return list(parked)
        return chosen(parked, self._is_mine, to_ms(now))

    def _is_mine(self, host: str) -> bool:
        mine, salts = self._mine, self._salts
        known = mine.get(host)
        if known is None:
            if len(mine) >= REMEMBERED:
                mine.clear()
            known = mine[host] = owner(host, salts) == self._id
        return known
