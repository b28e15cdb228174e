"""A record: extracted data, keyed so that storing it twice is impossible."""

from datetime import datetime
from typing import Any

import msgspec

from crawlfleet.model.ids import RequestId


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One record. ``request_id`` and ``index`` (its place on the page, from 0) are its key.

    A record with a ``key`` of its own, in hex, has that instead: whatever page it is found on, it
    replaces what was stored under it, unless that was stored later.

    What came from outside without a request always has a key, of its content if of nothing else,
    and the first 32 digits of it as ``request_id``: so the same item, delivered twice, is one
    record, and its request is one that nobody finds.
    """

    request_id: RequestId
    index: int
    biz: str
    url: str
    rule: str
    rule_version: str
    stored_at: datetime
    fields: dict[str, Any]
    key: str | None = None

    @property
    def id(self) -> str:
        """The key as clients see it: ``{request id}-{index}``, or the record's own."""
        return self.key or f"{self.request_id}-{self.index}"
