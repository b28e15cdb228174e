"""A record: extracted data, keyed so that storing it twice is impossible."""

from datetime import datetime
from typing import Any, Final

import msgspec

from crawlfleet.model.ids import RequestId
from crawlfleet.model.times import to_ms

#: Nanoseconds of a millisecond.
NS_OF_MS: Final = 1_000_000


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One record. ``request_id`` and ``index`` (its place on the page, from 0) are its key.

    A record with a ``key`` of its own, in hex, has that instead: whatever page it is found on, it
    replaces what was stored under it, unless that is newer: ``put`` is when the item was put that
    it came as, in epoch ns, and what came in no item is as old as its storing.

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
    put: int | None = None

    @property
    def id(self) -> str:
        """The key as clients see it: ``{request id}-{index}``, or the record's own."""
        return self.key or f"{self.request_id}-{self.index}"

    @property
    def version_ns(self) -> int:
        """What tells the newer of two under one key, in epoch ns: the greater one is newer."""
        return to_ms(self.stored_at) * NS_OF_MS if self.put is None else self.put
