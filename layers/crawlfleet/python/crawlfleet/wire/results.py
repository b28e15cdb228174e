"""Results of a biz: records, totals with rates, the ledger."""

from datetime import datetime
from typing import Any

import msgspec

from crawlfleet.wire import Page


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """An extracted record. ``id`` is stable: seen twice, it is the same record.

    ``job`` is the job of its request, null where that has none; ``trace`` the id of its request's
    trace, null where that is not traced.
    """

    id: str
    request_id: str
    job: str | None = None
    url: str
    rule: str = ""
    rule_version: str = ""
    stored_at: datetime | None = None
    fields: dict[str, Any]
    trace: str | None = None


class RecordsPage(Page, frozen=True):
    """A page of records; ``cursor`` is where to go on, now or later.

    ``note`` is why the last page of a job's records is empty, where the job has stored some.
    """

    records: tuple[Record, ...]
    note: str | None = None


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """Depth of the queue: ready, leased to workers, delayed for a later try."""

    queued: int = 0
    leased: int = 0
    delayed: int = 0
    oldest_at: datetime | None = None


class Speeds(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={"per_1s": "1s", "per_5s": "5s", "per_60s": "60s"},
):
    """Requests per second over the last full 1, 5 and 60 seconds (SPEC.md A10)."""

    per_1s: float = 0.0
    per_5s: float = 0.0
    per_60s: float = 0.0


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Requests per second that came in, and that were worked off."""

    submitted: Speeds = Speeds()
    processed: Speeds = Speeds()


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """Totals, depth, rates, and the workers' time by phase in seconds.

    ``submitted`` is how many requests there ever were, the sum of all states.
    """

    submitted: int | None = None
    states: dict[str, int]
    records: int = 0
    queue: Queue = Queue()
    rates: Rates = Rates()
    phases: dict[str, float] = {}

    @property
    def unfinished(self) -> int:
        """Requests to which something will still happen."""
        return sum(self.states.get(state, 0) for state in ("pending", "leased", "waiting"))


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger: where everything is that was ever submitted.

    ``submitted`` is the sum of the terms, or ``difference`` tells by how much it is not: above 0 is
    lost, below 0 made up. ``others`` are in states of the biz's own, final ones counted for ever.
    """

    job: str | None = None
    submitted: int
    pending: int = 0
    leased: int = 0
    waiting: int = 0
    done: int = 0
    dead: int = 0
    cancelled: int = 0
    expired: int = 0
    others: int = 0
    difference: int = 0
    balanced: bool = True

    @property
    def terms(self) -> dict[str, int]:
        """Submitted requests by what has become of them."""
        names = ("pending", "leased", "waiting", "done", "dead", "cancelled", "expired", "others")
        return {name: getattr(self, name) for name in names}
