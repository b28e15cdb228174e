"""Dead letters, and the answers to calls that replay or purge many."""

import base64
from datetime import datetime

import msgspec

from crawlfleet.wire import Scalars
from crawlfleet.wire.requests import TimelineEvent


class SiteAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The site's last answer; ``status`` is 0 where none came, ``seconds`` the time it took."""

    url: str = ""
    status: int = 0
    headers: dict[str, str] = {}
    seconds: float = 0.0


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The beginning of the answer's body; ``encoding`` is ``text``, or ``base64`` for bytes."""

    encoding: str
    content: str

    @property
    def body(self) -> bytes:
        r"""The bytes.

        >>> Sample(encoding="base64", content="/w==").body
        b'\xff'
        """
        if self.encoding == "base64":
            return base64.b64decode(self.content)
        return self.content.encode()


class DeadLetterSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter of a list: the request, why it was given up on, the last answer."""

    id: str
    queued_at: datetime | None = None
    url: str
    rule: str = ""
    rule_version: str = ""
    job: str | None = None
    attempts: int = 0
    reason: str | None = None
    error: str | None = None
    status: int = 0
    answer: SiteAnswer | None = None


class DeadLetter(DeadLetterSummary, frozen=True, kw_only=True):
    """A dead letter: a request that was given up on, and why.

    ``reason`` is the error's kind, such as ``PageGone``. A list leaves out ``sample``,
    ``timeline``, ``headers`` and all that follows them.
    """

    biz: str = ""
    method: str = "GET"
    headers: dict[str, str] = {}
    params: dict[str, str] = {}
    body: str | None = None
    meta: Scalars = {}
    worker: str | None = None
    state: str = "dead"
    sample: Sample | None = None
    timeline: tuple[TimelineEvent, ...] = ()


class ReplayedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The count of a replay. ``more``: there may be others; ask again with this ``cursor``.

    ``skipped`` are meant, but too old to be worked on; a call without a cursor counts them.
    """

    replayed: int
    skipped: int = 0
    cursor: str | None = None
    more: bool = False

    @property
    def count(self) -> int:
        """The number of dead letters that were replayed."""
        return self.replayed


class PurgedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The count of a purge. ``more``: there may be others; ask again with this ``cursor``."""

    purged: int
    skipped: int = 0
    cursor: str | None = None
    more: bool = False

    @property
    def count(self) -> int:
        """The number of dead letters that were removed."""
        return self.purged
