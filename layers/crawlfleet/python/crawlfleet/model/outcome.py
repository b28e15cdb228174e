"""What became of one attempt at a request: values, not exceptions."""

from datetime import datetime
from typing import TypeAlias

import msgspec

from crawlfleet.model.record import Record


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A downloaded page. ``url`` is where redirects ended; ``seconds`` from start to last byte."""

    url: str
    status: int
    headers: dict[str, str]
    body: bytes
    redirects: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def content_type(self) -> str:
        """``Content-Type`` in lower case with its parameters, or an empty string."""
        return self.headers.get("content-type", "").lower()


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a site answered to an attempt that failed, as far as people need it to find out why.

    ``headers`` are the few that matter; ``sample`` is the beginning of the body.
    """

    url: str
    status: int = 0
    headers: dict[str, str] = {}
    seconds: float = 0.0
    sample: bytes = b""


class Done(msgspec.Struct, frozen=True):
    """The page was read; these are its records (possibly none)."""

    records: tuple[Record, ...]
    status: int = 200


class Retry(msgspec.Struct, frozen=True):
    """The attempt failed in a way that another one may mend, not before ``due_at``."""

    due_at: datetime
    error: str


class Dead(msgspec.Struct, frozen=True):
    """The request is given up on; ``error`` is the reason it keeps."""

    error: str
    status: int = 0
    sample: bytes = b""


Outcome: TypeAlias = Done | Retry | Dead
