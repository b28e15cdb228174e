"""A submission that its client may repeat: under one key it is one submission (SPEC.md D13)."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from crawlfleet.model.ids import RequestId


class KeyKind(StrEnum):
    """What a key is of."""

    CALL = "call"
    """The ``Idempotency-Key`` of a call: it stands for all entries of the call, by position."""
    ENTRY = "entry"
    """The ``client_id`` of an entry, whatever call it comes in."""


class KeyName(NamedTuple):
    """A key, as it is told from all others of its lane."""

    kind: KeyKind
    key: str


class Pin(msgspec.Struct, frozen=True):
    """The rule that an entry was admitted with, and the version that was frozen then."""

    rule: str
    version: str


class Keyed(msgspec.Struct, frozen=True, kw_only=True):
    """What a key stands for: the ids its entries have, and a digest of what was submitted.

    It is written before the requests, so that whoever comes again goes on with the same ids, the
    same ``queued_at`` (which routes counters) and the same rules, edited since or not. ``rules``
    has None for an entry that was not admitted, or that its own ``client_id`` decides about.
    ``stored``: the requests of all entries with a rule are persisted.
    """

    name: KeyName
    digest: bytes
    ids: tuple[RequestId, ...]
    rules: tuple[Pin | None, ...]
    queued_at: datetime
    stored: bool = False
