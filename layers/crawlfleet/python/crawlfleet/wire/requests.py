"""Requests and the answers to their submission."""

from datetime import datetime
from typing import Final

import msgspec

from crawlfleet.wire import Page, ProblemDocument

#: States in which nothing more happens to a request.
FINAL_STATES: Final = frozenset({"done", "dead", "cancelled", "expired"})


class SubmissionAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An accepted entry, or the problem that kept it from being stored.

    ``repeated``: it was stored before, under the same key or client id. ``state`` is left out then:
    it is not read.
    """

    id: str | None = None
    state: str | None = None
    repeated: bool = False
    error: ProblemDocument | None = None


class BatchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answers to a batch, one an entry, in the order of the entries."""

    accepted: int = 0
    rejected: int = 0
    requests: tuple[SubmissionAnswer, ...]


class TimelineEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a request's state: when, by whom, why."""

    at: datetime
    state: str
    by: str = ""
    why: str = ""


class RequestStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A request with its readable body, its state and its whole timeline (SPEC.md A8)."""

    id: str
    biz: str = ""
    state: str
    flag: int | None = None
    queued_at: datetime | None = None
    url: str
    rule: str = ""
    rule_version: str = ""
    method: str = "GET"
    headers: dict[str, str] = {}
    params: dict[str, str] = {}
    body: str | None = None
    meta: dict[str, str | int | float | bool | None] = {}
    attempts: int = 0
    worker: str | None = None
    error: str | None = None
    records: int = 0
    due_at: datetime | None = None
    timeline: tuple[TimelineEvent, ...] = ()
    job: str | None = None
    priority: int = 5
    pool: str | None = None

    @property
    def final(self) -> bool:
        """Tell whether nothing more will happen to it: done, dead, cancelled or expired."""
        return self.state in FINAL_STATES


class RequestsPage(Page, frozen=True):
    """A page of requests; ``cursor`` is where to go on."""

    requests: tuple[RequestStatus, ...]
