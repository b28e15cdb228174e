"""Names of jobs that nobody has named (SPEC.md C2)."""

import json
import re
import secrets
from collections.abc import Mapping
from datetime import datetime
from hashlib import blake2b
from typing import Final

_TIME = r"[0-9]{8}T[0-9]{6}Z"
#: How names are that are given here or by an idempotency key: of fires, of run-now, of events.
_GIVEN: Final = re.compile(
    rf"\.(?:{_TIME}(?:\.[0-9a-f]{{6}})?|(?:now|event)\.[0-9a-f]{{16}})\Z|\Akey\.[0-9a-f]{{20}}\Z"
)
#: What is said of such a name where a client gives it.
RESERVED: Final = "is such a name as fires, events and idempotency keys give: choose another name"


def job_name(of: str, now: datetime) -> str:
    """A new name, which says what it is a run of and when: ``shop.20261121T030000Z.4f2a91``."""
    return f"{_short(of)}.{now:%Y%m%dT%H%M%SZ}.{secrets.token_hex(3)}"


def fire_name(schedule: str, fire_at: datetime) -> str:
    """The name of a schedule's job of a fire time, one for each.

    >>> from datetime import UTC
    >>> fire_name("nightly", datetime(2026, 11, 21, 3, tzinfo=UTC))
    'nightly.20261121T030000Z'
    """
    return f"{schedule}.{fire_at:%Y%m%dT%H%M%SZ}"


def event_name(spider: str, event: str, content: Mapping[str, object]) -> str:
    """The name of the job that an event starts: one for each event and what is made of it.

    An event comes more than once now and then, and may be the event of several rules.

    >>> event_name("shop", "53dc4d37-cffa", {"values": {"page": "1"}})
    'shop.event.ad863e60fe2d7245'
    """
    said = json.dumps([event, content], sort_keys=True, default=str)
    return f"{spider}.event.{blake2b(said.encode(), digest_size=8).hexdigest()}"


def run_now_name(schedule: str, key: str | None, now: datetime) -> str:
    """The name of a schedule's job that somebody wants now: one for each key, where there is one.

    >>> run_now_name("nightly", "a key", datetime(2026, 11, 21, 3))
    'nightly.now.a9539f4e9c4dd814'
    """
    if key is None:
        return f"{schedule}.now.{now:%Y%m%dT%H%M%SZ}.{secrets.token_hex(3)}"
    return f"{schedule}.now.{blake2b(key.encode(), digest_size=8).hexdigest()}"


def is_reserved(name: str) -> bool:
    """Whether a name is one that is given here: nobody may have it before, or add tasks to it.

    >>> is_reserved("nightly.20261121T030000Z"), is_reserved("nightly.20261121")
    (True, False)
    """
    return _GIVEN.search(name) is not None


def _short(of: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", of)[:32]
