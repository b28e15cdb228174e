"""Schedules as clients write them. Every mistake is named with its field."""

import re
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from crawlfleet.edge.inputs import Url, read
from crawlfleet.errors import InvalidRequestError
from crawlfleet.model.plan import Priority, SpiderName
from crawlfleet.model.schedule import (
    USUAL_TOLERANCE_SECONDS,
    Jitter,
    Missed,
    Overlap,
    Schedule,
    Tolerance,
)
from crawlfleet.model.start import PlaceName, PlaceValue, Start

#: Runs of a preview, unless the caller asks for fewer or more.
RUNS: Final = 5
MOST_RUNS: Final = 50

_SLUG: Final = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")

Line = Annotated[str, Meta(min_length=1, max_length=200)]
Zone = Annotated[str, Meta(min_length=1, max_length=64)]


class ScheduleInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule as clients write it. Times are in ``time_zone``, an IANA name.

    Its jobs are runs of a kept ``spider`` (its newest ``version`` unless one is given), or of a
    ``rule`` on ``urls`` or on a ``start``; ``values`` fill the places that the start leaves open.
    """

    cron: Line
    rule: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    urls: Annotated[tuple[Url, ...], Meta(max_length=10_000)] = ()
    start: Start | None = None
    spider: SpiderName | None = None
    version: Annotated[int, Meta(ge=1, le=2**31)] | None = None
    values: Annotated[dict[PlaceName, PlaceValue], Meta(max_length=8)] = {}
    priority: Priority | None = None
    time_zone: Zone = "UTC"
    overlap: Overlap = Overlap.ALLOW
    missed: Missed = Missed.ALL
    tolerance_seconds: Tolerance = USUAL_TOLERANCE_SECONDS
    jitter_seconds: Jitter = 0
    enabled: bool = True


class PreviewInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a schedule would run that need not be kept; ``name`` matters for its jitter alone."""

    cron: Line
    time_zone: Zone = "UTC"
    jitter_seconds: Jitter = 0
    name: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]{0,31}\Z")] = "preview"


def schedule_in(body: bytes) -> ScheduleInput:
    """A schedule.

    Raises:
        InvalidRequestError: names every field that is wrong.
    """
    return read(body, ScheduleInput)


def schedule_of(given: ScheduleInput, tenant: str, biz: str, name: str) -> Schedule:
    """The schedule that a client has written.

    Raises:
        InvalidRequestError: the name is none.
    """
    if not _SLUG.match(name):
        message = "must be 1 to 32 of a-z, 0-9 and -, beginning with a letter"
        raise InvalidRequestError.of("name", message)
    return Schedule(
        tenant=tenant,
        biz=biz,
        name=name,
        cron=given.cron,
        time_zone=given.time_zone,
        rule=given.rule,
        urls=given.urls,
        start=given.start,
        spider=given.spider,
        spider_version=given.version,
        values=given.values,
        priority=given.priority,
        overlap=given.overlap,
        missed=given.missed,
        tolerance_seconds=given.tolerance_seconds,
        jitter_seconds=given.jitter_seconds,
        enabled=given.enabled,
    )


def preview_in(body: bytes, tenant: str, biz: str) -> Schedule:
    """A schedule to be previewed.

    Raises:
        InvalidRequestError: names every field that is wrong.
    """
    given = read(body, PreviewInput)
    return Schedule(
        tenant=tenant,
        biz=biz,
        name=given.name,
        cron=given.cron,
        time_zone=given.time_zone,
        jitter_seconds=given.jitter_seconds,
    )
