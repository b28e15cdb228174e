"""Jobs: start one, follow it, cancel it, retry what failed; read the usage of their runs."""

import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from crawlfleet.sdk.calls import (
    Calls,
    Pages,
    Values,
    filling,
    parameters,
    path_of,
    start_of,
    traced,
)
from crawlfleet.sdk.errors import WaitTimeoutError
from crawlfleet.sdk.requests import Pauses
from crawlfleet.wire import Page
from crawlfleet.wire.costs import Forecast
from crawlfleet.wire.jobs import Demand, DemandsPage, Job, JobProgress, Run

#: Entries of one page of a list.
PAGE_SIZE = 500


class JobsPage(Page, frozen=True):
    """A page of jobs."""

    jobs: tuple[Job, ...]


class Retried(msgspec.Struct, frozen=True, kw_only=True):
    """The count of failed tasks to be retried; ``skipped`` are past their time to live."""

    retried: int
    skipped: int
    more: bool
    job: Job


#: Called with the job after each poll.
Followed = Callable[[Job], None]


class JobCalls(Calls):
    """The calls about jobs."""

    def start_job(
        self,
        biz: str,
        *,
        spider: str | None = None,
        version: int | None = None,
        rule: str | None = None,
        urls: Iterable[str] | None = None,
        start: Mapping[str, Any] | None = None,
        values: Mapping[str, Values] | None = None,
        priority: int | None = None,
        pool: str | None = None,
        link: Mapping[str, Any] | None = None,
        demand: Mapping[str, Mapping[str, float]] | None = None,
        segment: str | None = None,
        quotas: Iterable[Mapping[str, Any]] | None = None,
        user: str | None = None,
        name: str | None = None,
        idempotency_key: str | None = None,
        traceparent: str | None = None,
    ) -> Job:
        """Start a job: a run of a kept ``spider``, or of a ``rule`` on ``urls`` or a ``start``.

        ``start`` is a pattern with its values, such as ``{"pattern": "https://shop.example/{page}",
        "values": {"page": {"last": 50}}}``; ``values`` fill the places that it leaves open: one
        value each, a list, or a ``range``. A rule that is the spider of an executor may name its
        own pages (``start_url`` of a list). The newest ``version`` of the spider runs unless
        another is named. Workers of the ``pool`` alone do it, of the spider's own unless another
        is named. It is started once, however often the
        call has to be repeated; give a ``name`` or an ``idempotency_key`` of your own to be able to
        repeat it later. With neither it gets a name that says what it is a run of, and when.

        A page that its links lead to is read once a ``segment``: once in this job unless that is
        ``biz`` (once a segment of the biz's), ``hour``, ``day``, ``week`` or ``month``.

        It uses no more than its ``quotas`` say, such as ``{"unit": "requests", "most": 1000,
        "at_limit": "end"}`` or ``{"unit": "bytes", "most": 10**9, "per": "day"}``, and than the
        tenant's document lets its ``user`` use, over all bizs.

        Where jobs are placed by bidding, ``link`` says what a worker's way to the site must be like
        (``test_url``, ``seconds_below``, ``bytes_per_second_above``), and ``demand`` what the job
        takes of a worker, in the place of what runs of its spider took: ``memory`` in bytes,
        ``cpu`` in GHz, ``bandwidth`` in bytes a second, such as ``{"memory": {"maximum": 5e8},
        "cpu": {"average": 0.5}}``.

        With the ``traceparent`` of a trace that is recorded its tasks are traced in that one.

        Raises:
            InvalidRequestError: a field is wrong; each is named.
            NotFoundError: the biz keeps no such spider.
            ConflictError: the name stands for another job.
            KeyReusedError: the key stands for another job.
            QuotaExceededError: the biz has as many open jobs as it may, or a quota is used up.
        """
        if name is None and idempotency_key is None:
            name = _name_of(spider or rule or "job")
        given = {
            "spider": spider,
            "version": version,
            "rule": rule,
            "urls": [urls] if isinstance(urls, str) else None if urls is None else list(urls),
            "start": start_of(start),
            "values": filling(values),
            "priority": priority,
            "pool": pool,
            "link": link,
            "demand": demand,
            "segment": segment,
            "quotas": None if quotas is None else [dict(one) for one in quotas],
            "user": user,
            "name": name,
        }
        document = {field: value for field, value in given.items() if value is not None}
        answer = self._transport.call(
            "POST",
            path_of(biz, "jobs"),
            body=msgspec.json.encode(document),
            headers=traced(traceparent)
            | ({} if idempotency_key is None else {"Idempotency-Key": idempotency_key}),
        )
        return self._read(answer, Job)

    def jobs(
        self,
        biz: str,
        *,
        state: str | Sequence[str] | None = None,
        spider: str | None = None,
        schedule: str | None = None,
        cursor: str | None = None,
        page_size: int = 100,
    ) -> Pages[Job]:
        """Read jobs of a biz, the newest first, all pages; ``state`` is one or several.

        A name that was only submitted under, as ``job`` of a page, is a job, too: it runs while
        anything of it is open, what its pages lead to included, and again when more is submitted.
        Of jobs that go on ``counts`` and ``open`` are as they are now, at ``counted_at``; that is
        None where a store did not answer.
        """
        states = state if state is None or isinstance(state, str) else ",".join(state)
        params = parameters(state=states, spider=spider, schedule=schedule, limit=page_size)
        return self._pages(path_of(biz, "jobs"), JobsPage, params, cursor)

    def job(self, biz: str, name: str) -> Job:
        """Read one job, with its ledger and its progress.

        Raises:
            NotFoundError: there is none of that name.
        """
        return self._get(path_of(biz, "jobs", name), Job)

    def set_job_quotas(self, biz: str, name: str, quotas: Iterable[Mapping[str, Any]]) -> Job:
        """Replace the quotas of a job that has not ended.

        What waits for one that is raised goes on at once, and what has ended at one may be retried;
        lower ones are in force within seconds.

        Raises:
            ConflictError: it has ended, or was only submitted under.
            InvalidRequestError: a quota cannot be; each is named.
            NotFoundError: there is none of that name.
        """
        body = msgspec.json.encode({"quotas": [dict(one) for one in quotas]})
        answer = self._transport.call("PUT", path_of(biz, "jobs", name, "quotas"), body=body)
        return self._read(answer, Job)

    def cancel_job(self, biz: str, name: str) -> Job:
        """Cancel a job: what is open of it ends, downloads under way within seconds.

        A small one has ended when this returns; a large one is ``cancelling`` until all of it is
        swept. Cancelling again answers the same.

        Raises:
            ConflictError: it had ended before.
            NotFoundError: there is none of that name.
        """
        return self._read(self._transport.call("POST", path_of(biz, "jobs", name, "cancel")), Job)

    def retry_job(self, biz: str, name: str, *, rule: str = "frozen") -> Retried:
        """Retry the failed tasks of a job; a job that was done runs again.

        ``rule`` is ``frozen``, as it was when the job was started, or ``current``. The counts are
        of all calls that it took.

        Raises:
            ConflictError: the job was cancelled.
            NotFoundError: there is none of that name.
        """
        retried = skipped = 0
        body = msgspec.json.encode({"rule": rule})
        while True:
            path = path_of(biz, "jobs", name, "retry")
            done = self._read(self._transport.call("POST", path, body=body), Retried)
            retried, skipped = retried + done.retried, max(skipped, done.skipped)
            if not done.more:
                return msgspec.structs.replace(done, retried=retried, skipped=skipped)

    def wait_job(
        self,
        biz: str,
        name: str,
        timeout: float | None = 3600.0,
        *,
        progress: Followed | None = None,
    ) -> Job:
        """Wait until a job has ended, in whichever way; return the job then.

        ``timeout`` is in seconds, None for no end. Polls come at a growing interval; ``progress``
        is called with the job after each.

        Raises:
            WaitTimeoutError: the time is up; ``unfinished`` is how many of its tasks are left.
            NotFoundError: there is none of that name.
        """
        pauses = Pauses(self._clock, timeout)
        while True:
            job = self.job(biz, name)
            if progress is not None:
                progress(job)
            if job.ended:
                return job
            if not pauses.pause():
                so_far = job.progress or JobProgress(tasks=job.size)
                left = max(0, so_far.tasks - so_far.ended)
                raise WaitTimeoutError(timeout or 0.0, left, biz=biz, job=name)

    def forecast(
        self,
        biz: str,
        *,
        spider: str | None = None,
        version: int | None = None,
        rule: str | None = None,
        urls: Iterable[str] | None = None,
        start: Mapping[str, Any] | None = None,
        values: Mapping[str, Values] | None = None,
        quotas: Iterable[Mapping[str, Any]] | None = None,
    ) -> Forecast:
        """Forecast a job, which is not started: pages, bytes, time and cost, each with a range.

        It is said as for :meth:`start_job`. Of ``quotas`` one of money is a budget: what part of
        the run it pays for, and when it is used up.

        Raises:
            InvalidRequestError: a field is wrong; each is named.
            NotFoundError: the biz keeps no such spider.
        """
        given = {
            "spider": spider,
            "version": version,
            "rule": rule,
            "urls": [urls] if isinstance(urls, str) else None if urls is None else list(urls),
            "start": start_of(start),
            "values": filling(values),
            "quotas": None if quotas is None else [dict(one) for one in quotas],
        }
        document = {field: value for field, value in given.items() if value is not None}
        return self._post(path_of(biz, "forecasts"), document, Forecast, [])

    def demands(self, biz: str, *, page_size: int = PAGE_SIZE) -> Pages[Demand]:
        """Read the demand of each spider or rule, by name."""
        return self._pages(path_of(biz, "demands"), DemandsPage, parameters(limit=page_size))

    def demand(self, biz: str, spider: str) -> Demand:
        """Read the demand of one spider or rule.

        Raises:
            NotFoundError: nothing was learnt of it yet.
        """
        return self._get(path_of(biz, "demands", spider), Demand)

    def run(self, biz: str, job: str) -> Run:
        """Read the usage of a job's run; while it goes on, up to now.

        Raises:
            NotFoundError: nothing was measured of such a job, or it was more than a month ago.
        """
        return self._get(path_of(biz, "jobs", job, "run"), Run)


def _name_of(what: str) -> str:
    """Make a name by which a run is one job: ``shop-20261121-030000-4f2a91``."""
    short = re.sub(r"[^A-Za-z0-9_-]+", "-", what)[:32].lstrip("-_") or "job"
    return f"{short}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
