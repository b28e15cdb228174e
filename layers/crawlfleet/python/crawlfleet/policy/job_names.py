"""Names of jobs that nobody has named (SPEC.md C2)."""

import re
import secrets
from datetime import datetime


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


def _short(of: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", of)[:32]
