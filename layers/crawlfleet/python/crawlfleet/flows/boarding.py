"""Jobs that wait for a worker are on the board (SPEC.md B4): at once, and again if it was lost.

MongoDB says which jobs wait. Whoever starts one puts it on the board; whatever is missing there,
as Redis was away or is new, or as a winner has vanished before it wrote that down, is offered in
rounds, tenants in turns.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from crawlfleet.errors import CrawlfleetError, StoreUnavailableError, UnknownBizError
from crawlfleet.flows.configuration import biz_of
from crawlfleet.flows.learning import spider_of
from crawlfleet.model.bidding import BiddingTerms, Wanted
from crawlfleet.model.biz import Biz, Tree
from crawlfleet.model.board import Offer, Offered
from crawlfleet.model.job import Job, JobState
from crawlfleet.policy.job_turns import after_trouble
from crawlfleet.policy.robots import origin_of
from crawlfleet.policy.starting import url_at
from crawlfleet.ports import JobStore
from crawlfleet.ports.board import JobBoard

#: Jobs that are looked up at once, and how long until one is again.
JOBS_A_ROUND: Final = 100
AGAIN: Final = timedelta(seconds=20)
#: Of a longer test link its site is asked for.
_LONGEST_URL: Final = 4_096
_CROWDED: Final = "as many jobs wait for a worker as may: it is offered when some are placed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardingPorts:
    """What it needs of the world; ``warn`` is told what is wrong but not fatal."""

    jobs: JobStore
    board: JobBoard
    warn: Callable[[str, Exception], None]


def offer_job(board: JobBoard, terms: BiddingTerms, biz: Biz, job: Job, now: datetime) -> Offered:
    """Put a job on the board that has all of its start; one that is there stays as it is.

    Its biz's weight is what its award costs its tenant. Who runs the stage writes that, no tenant.
    """
    url = job.link.test_url or url_at(job.start, 0)
    if len(url.encode()) > _LONGEST_URL:
        url = f"{origin_of(url)}/"
    wanted = Wanted(url=url, spider=spider_of(job), link=replace(job.link, test_url=None))
    offer = Offer(
        tenant=job.tenant,
        biz=job.biz,
        job=job.name,
        document=msgspec.json.encode(wanted),
        priority=job.priority,
        weight=biz.weight,
        lowered=job.lowered,
        since=job.created_at,
    )
    return board.offer(offer, now, timedelta(seconds=terms.wait_seconds))


def offer_missing(
    ports: BoardingPorts,
    tree: Tree,
    terms: BiddingTerms,
    clock: Callable[[], datetime],
    time_left: Callable[[], float],
) -> int:
    """Offer the jobs that wait and are not on the board; how many were.

    Raises:
        StoreUnavailableError: the home node, or Redis, does not answer.
    """
    offered = 0
    while time_left() > 0:
        due = ports.jobs.placing(JOBS_A_ROUND, clock())
        missing = set(ports.board.missing([job.key for job in due])) if due else set()
        for job in due:
            if time_left() <= 0:
                break
            trouble, wait = job.trouble, AGAIN
            if job.key in missing:
                try:
                    found = _offer(ports, tree, terms, job.key, clock())
                    offered += found is Offered.OFFERED
                    trouble = _CROWDED if found is Offered.FULL else job.trouble
                except StoreUnavailableError:
                    raise
                except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
                    trouble, wait = _trouble(error), max(AGAIN, after_trouble(job.troubles))
                    ports.warn(f"job {'/'.join(job.key)} cannot wait for a worker", error)
            ports.jobs.look(job, clock(), trouble, clock() + wait)
        if len(due) < JOBS_A_ROUND:
            break
    return offered


def _offer(
    ports: BoardingPorts,
    tree: Tree,
    terms: BiddingTerms,
    key: tuple[str, str, str],
    now: datetime,
) -> Offered | None:
    """Offer a job; None where it does not wait any more."""
    _, biz = biz_of(tree, key[0], key[1])
    job = ports.jobs.get(*key)
    if job is None or job.state is not JobState.PLACING:
        return None
    return offer_job(ports.board, terms, biz, job, now)


def _trouble(error: Exception) -> str:
    if isinstance(error, UnknownBizError):
        return str(error)
    if isinstance(error, CrawlfleetError):
        return f"it cannot wait for a worker now ({type(error).__name__}); it is tried again"
    return "it cannot wait for a worker, for a reason that nobody foresaw; it is tried again"
