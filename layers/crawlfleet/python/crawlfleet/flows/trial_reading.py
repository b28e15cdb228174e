"""What a reader gives of one page that is tried, and what of it a worker would store (SPEC.md H8).

For a worker that is asked to try a rule (flows.trials), and for whoever tries it at a terminal.
Nothing is stored.
"""

import time
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from crawlfleet.errors import ExtractError, Problem
from crawlfleet.flows.processing import LONGEST_TOLD, MOST_TOLD, prepare
from crawlfleet.model.harvest import Link, Skipped, Trial
from crawlfleet.model.request import Body, Claim, Entry, Request
from crawlfleet.model.rule import Rule
from crawlfleet.model.spider import Spider
from crawlfleet.model.times import to_ms
from crawlfleet.page import Page
from crawlfleet.policy.coverage import coverage_of
from crawlfleet.ports import Clock, Executors, RuleTrial, Validator

#: A spider is stopped after so many things, or so long.
MOST_READ: Final = 10_000
READ_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialReading:
    """What reads, and what checks records."""

    executors: Executors
    validator: Validator
    clock: Clock
    read: RuleTrial


def read_page(
    parts: TrialReading, reader: Rule | Spider, page: Page, body: Body, tenant: str, biz: str
) -> Trial:
    """What comes of a page: ``records`` are those that would be stored, as they would be.

    ``body`` is what the page's request would be, ``tenant`` and ``biz`` whose.
    """
    if isinstance(reader, Rule):
        trial = parts.read(reader, page, body.depth)
    else:
        trial = _by_spider(parts.executors, reader, page, body)
    if trial.problems:
        return trial
    now = parts.clock()
    request = Request(id=0, tenant=tenant, biz=biz, queued_at=now, body=body)
    claim = Claim(request=request, entry=Entry(0, biz, to_ms(now)), token="", attempt=1)
    prepared = prepare(parts.validator, reader, claim, page.url, trial.records, now)
    return replace(
        trial,
        records=tuple(record.fields for record in prepared.records),
        rejected=prepared.rejected,
        rejected_count=prepared.rejected_count,
    )


def _by_spider(executors: Executors, spider: Spider, page: Page, body: Body) -> Trial:
    records: list[dict[str, object]] = []
    links: list[Link] = []
    left_out: list[str] = []
    left_out_count = 0
    unread = False
    started = time.perf_counter()
    try:
        for count, one in enumerate(executors.read(spider, page, body), 1):
            if isinstance(one, Link):
                links.append(one)
            elif isinstance(one, Skipped):
                left_out_count += 1
                if len(left_out) < MOST_TOLD:
                    left_out.append(str(one)[:LONGEST_TOLD].encode(errors="replace").decode())
            else:
                records.append(one)
            if count >= MOST_READ or time.perf_counter() - started > READ_SECONDS:
                unread = True
                break
    except ExtractError as error:
        message = str(error).removeprefix(f"{error.field}: ")
        return Trial(problems=(Problem(error.field, message),))
    return Trial(
        records=tuple(records),
        links=tuple(links),
        coverage=coverage_of(records, pages=1),
        left_out=tuple(left_out),
        left_out_count=left_out_count,
        unread=unread,
        seconds=time.perf_counter() - started,
    )
