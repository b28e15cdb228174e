"""Records on their way from whoever reads pages to the store (SPEC.md B9)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from crawlfleet.errors import Problem
from crawlfleet.model.harvest import Coverage
from crawlfleet.model.lane import Lane
from crawlfleet.model.schema import RecordSchema


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

    Leased like requests: what a worker does not finish is handed out again.
    """

    def put(self, lane: Lane, items: Sequence[bytes]) -> int:
        """Append; returns how many wait."""
        ...

    def lease(
        self, lane: Lane, token: str, count: int, now: datetime, until: datetime
    ) -> list[bytes]:
        """Up to ``count`` items, oldest first, those of ended leases before them."""
        ...

    def finish(self, lane: Lane, token: str, items: Sequence[bytes]) -> int:
        """They are stored; returns how many the token held."""
        ...

    def waiting(self, lanes: Sequence[Lane]) -> list[int]:
        """How many items each lane has, leased ones included."""
        ...


class Coverages(Protocol):
    """How many records each rule gave, and of how many each field had a value (SPEC.md H8)."""

    def add(self, lane: Lane, rule: str, version: str, coverage: Coverage) -> None:
        """Count."""
        ...

    def of(self, lane: Lane) -> dict[tuple[str, str], Coverage]:
        """All counts by rule and version."""
        ...
