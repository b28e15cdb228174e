"""A submission that its client may repeat: under one key it is one submission (SPEC.md D13)."""

from datetime import datetime

import msgspec

from crawlfleet.model.ids import RequestId


class Keyed(msgspec.Struct, frozen=True, kw_only=True):
    """What a key stands for: the ids its entries have, and a digest of what was submitted."""

    key: str
    digest: bytes
    ids: tuple[RequestId, ...]
    queued_at: datetime
