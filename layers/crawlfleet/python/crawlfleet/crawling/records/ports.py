"""Records on their way from whoever reads pages to the store (SPEC.md B9)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from crawlfleet.config.documents.rule import RecordSchema
from crawlfleet.kernel.errors import Problem
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.models import Coverage, QueuedItem


class Validator(Protocol):
    """Checks records against schemas."""

    def check_schema(self, schema: RecordSchema, field: str = "") -> list[Problem]:
        """Every mistake of a schema, its place below ``field``; empty for one that can be used."""
        ...

    def problems(self, schema: RecordSchema, fields: dict[str, object]) -> list[Problem]:
        """What is wrong with a record, each with its field; empty for a right one."""
        ...


class DataQueue(Protocol):
    """Items that arrive from outside of workers, such as a Scrapy project's, until stored.

    Leased like requests: what a worker does not finish is handed out again. Each item counts how
    often it was handed out, so that one that kills its workers can be told.
    """

    def put(self, queue_key: QueueKey, items: Sequence[bytes]) -> int:
        """Append; returns how many wait. All are taken, or none.

        Their ids say when, by one clock for all who put (crawling.records.normalise.put_of).

        Raises:
            InvalidRequestError: names the items that are too large.
            BacklogFullError: the lane has as many bytes of items as it may.
        """
        ...

    def lease(
        self, queue_key: QueueKey, token: str, count: int, now: datetime, until: datetime
    ) -> list[QueuedItem]:
        """Up to ``count`` items, oldest first, those of ended leases before them.

        Fewer where they are large.
        """
        ...

    def finish(self, queue_key: QueueKey, token: str, items: Sequence[str]) -> int:
        """They are stored, or dropped for good; returns how many of these the token held."""
        ...

    def give_back(self, queue_key: QueueKey, token: str, items: Sequence[str]) -> int:
        """They could not be stored, through no fault of theirs: the attempt does not count.

        Returns how many the token held; they are served next.
        """
        ...

    def waiting(self, queues: Sequence[QueueKey]) -> list[int]:
        """How many items each lane has, leased ones included."""
        ...


class Coverages(Protocol):
    """How many records each rule gave, and of how many each field had a value (SPEC.md H8)."""

    def add(self, queue_key: QueueKey, rule: str, version: str, coverage: Coverage) -> None:
        """Count."""
        ...

    def of(self, queue_key: QueueKey) -> dict[tuple[str, str], Coverage]:
        """All counts by rule and version; of a lane's many versions the latest counted."""
        ...
