"""Requests and the answers to their submission."""

from datetime import datetime
from typing import Final

import msgspec

from crawlfleet.wire import Page, ProblemDocument, Scalars

#: States in which nothing more happens to a request.
FINAL_STATES: Final = frozenset({"done", "dead", "cancelled", "expired"})
#: The numbers of a biz's own states in which a request has ended begin here.
OWN_FINAL: Final = 1_000


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
    """A change of a request's state: when, by whom, why.

    ``peers`` are the addresses that an attempt asked, one for each hop; ``proxy`` stands for one
    that only the proxy knows.
    """

    at: datetime
    state: str
    by: str = ""
    why: str = ""
    peers: tuple[str, ...] = ()


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
    meta: Scalars = {}
    attempts: int = 0
    worker: str | None = None
    error: str | None = None
    records: int = 0
    due_at: datetime | None = None
    timeline: tuple[TimelineEvent, ...] = ()
    job: str | None = None
    priority: int = 5
    pool: str | None = None
    user: str | None = None

    @property
    def final(self) -> bool:
        """Tell whether it has ended: done, dead, cancelled, expired, or a final state of the biz's.

        Those are its own states from number 1,000 on.
        """
        return self.state in FINAL_STATES or (self.flag or 0) >= OWN_FINAL


class TransitionAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request's answer to a transition: its state now, or the problem that left it as it is.

    ``repeated``: it was in that state already.
    """

    id: str
    state: str | None = None
    repeated: bool = False
    error: ProblemDocument | None = None


class TransitionsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answers to a transition of many requests, in their order."""

    changed: int = 0
    repeated: int = 0
    refused: int = 0
    requests: tuple[TransitionAnswer, ...] = ()


class RequestsPage(Page, frozen=True):
    """A page of requests; ``cursor`` is where to go on."""

    requests: tuple[RequestStatus, ...]
