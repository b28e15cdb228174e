"""Names of jobs that nobody has named (SPEC.md C2)."""

import re
import secrets
from datetime import datetime
from hashlib import blake2b


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


def run_now_name(schedule: str, key: str | None, now: datetime) -> str:
    """The name of a schedule's job that somebody wants now: one for each key, where there is one.

    >>> run_now_name("nightly", "a key", datetime(2026, 11, 21, 3))
    'nightly.now.a9539f4e9c4dd814'
    """
    if key is None:
        return f"{schedule}.now.{now:%Y%m%dT%H%M%SZ}.{secrets.token_hex(3)}"
    return f"{schedule}.now.{blake2b(key.encode(), digest_size=8).hexdigest()}"


def _short(of: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", of)[:32]
