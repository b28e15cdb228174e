"""A schedule: a cron line, in a time zone, on a list of URLs (SPEC.md B1)."""

from datetime import datetime
from enum import StrEnum

import msgspec

from crawlfleet.model.ids import RequestId


class Missed(StrEnum):
    """What happens to fire times that passed while no scheduler ran."""

    ALL = "all"
    LATEST = "latest"


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """``next_at`` is the next fire time not yet created; None while the schedule is disabled."""

    tenant: str
    biz: str
    name: str
    cron: str
    time_zone: str
    rule: str
    urls: tuple[str, ...]
    missed: Missed = Missed.ALL
    enabled: bool = True
    next_at: datetime | None = None
    last_fired_at: datetime | None = None


class Fire(msgspec.Struct, frozen=True, kw_only=True):
    """One fire time of a schedule, with the ids its requests will have, written before them.

    A second scheduler, or the same one after a crash, finds this and finishes with the same ids.
    """

    tenant: str
    biz: str
    schedule: str
    fire_at: datetime
    queued_at: datetime
    ids: tuple[RequestId, ...]
    rule_version: str
    done: bool = False
