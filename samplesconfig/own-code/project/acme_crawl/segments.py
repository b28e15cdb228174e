"""A segment resolver: a page is read once a quarter of a year."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from crawlfleet.crawling.frontier.models import Segment

_MONTHS = 3


def by_quarter(policy: Any, at: datetime) -> Segment:
    """Return the quarter that a moment lies in, by the biz's time zone: ``2026-Q1``."""
    local = at.astimezone(ZoneInfo(policy.timezone))
    quarter = (local.month - 1) // _MONTHS
    begin = local.replace(
        month=quarter * _MONTHS + 1, day=1, hour=0, minute=0, second=0, microsecond=0
    )
    year, month = divmod(begin.month - 1 + _MONTHS, 12)
    end = begin.replace(year=begin.year + year, month=month + 1)
    return Segment(f"{local.year}-Q{quarter + 1}", begin, end)
