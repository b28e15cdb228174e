"""What runs take, in the SDK: demands of spiders, and the run of a job.

Jobs: start one, follow it, cancel it, have what failed worked on again.
"""

import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from crawlfleet.sdk.calls import Calls, parameters, path_of
from crawlfleet.sdk.errors import WaitTimeoutError
from crawlfleet.sdk.pages import Pages
from crawlfleet.sdk.requests import Pauses

#: Entries of one page of a list.
PAGE_SIZE = 500


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """Of one resource: on average while it ran, and at its highest."""

    average: float = 0.0
    maximum: float = 0.0


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What is taken of a worker: bytes, the CPU index (GHz in use), bytes a second."""

    memory: Amount = Amount()
    cpu: Amount = Amount()
    bandwidth: Amount = Amount()


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What a spider's runs have taken: an average of all ``runs``, the maxima of the latest 20."""

    spider: str
    runs: int = 0
    measured_at: datetime | None = None
    usage: Usage = Usage()

    @property
    def id(self) -> str:
        """What tells it from the others of its biz: the spider."""
        return self.spider


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The run of a job. While it goes on ``ended_at`` is None, and all of it is up to now.

    ``usage`` is what it took of each worker, ``seconds`` the time of all ``workers`` together in
    which tasks of it were under way. ``requests`` counts attempts, ``errors`` those that failed,
    ``counts`` its tasks by how they ended. ``learnt_at`` is when it became part of the demand.
    """

    job: str
    spider: str | None = None
    usage: Usage = Usage()
    seconds: float = 0.0
    workers: int = 0
    requests: int = 0
    records: int = 0
    errors: int = 0
    bytes: int = 0
    counts: dict[str, int] = {}
    started_at: datetime | None = None
    ended_at: datetime | None = None
    learnt_at: datetime | None = None


class DemandsPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of demands, as it travels."""

    demands: tuple[Demand, ...]
    cursor: str | None = None
    more: bool = False


class DemandCalls(Calls):
    """Reading demands, and the run of a job."""

    def demands(self, biz: str, *, page_size: int = PAGE_SIZE) -> Pages[Demand]:
        """What the runs of each spider or rule take of a worker, by name."""
        path = path_of(biz, "demands")

        def read(at: str | None) -> tuple[tuple[Demand, ...], str | None, bool]:
            page = self._get(path, DemandsPage, parameters(limit=page_size, cursor=at))
            return page.demands, page.cursor, page.more

        return Pages(read, None, clock=self._clock)

    def demand(self, biz: str, spider: str) -> Demand:
        """What the runs of one take.

        Raises:
            NotFoundError: nothing was learnt of it yet.
        """
        return self._get(path_of(biz, "demands", spider), Demand)

    def run(self, biz: str, job: str) -> Run:
        """What the run of a job took; while it goes on, up to now.

        Raises:
            NotFoundError: nothing was measured of such a job, or it was more than a month ago.
        """
        return self._get(path_of(biz, "jobs", job, "run"), Run)


#: A job in one of these has ended; ``done`` is the only one in which all of its tasks were tried.
ENDED: Final = frozenset({"done", "cancelled", "unplaced"})


class JobLedger(msgspec.Struct, frozen=True, kw_only=True):
    """Where the tasks of a job are: ``submitted`` is the sum of the others."""

    submitted: int = 0
    pending: int = 0
    leased: int = 0
    waiting: int = 0
    done: int = 0
    dead: int = 0
    cancelled: int = 0
    expired: int = 0
    others: int = 0


class JobProgress(msgspec.Struct, frozen=True, kw_only=True):
    """``ended`` of ``tasks``, those its pages led to among them; shares are from 0 to 1.

    ``per_second`` is since the job began, ``ends_at`` when it will have ended at that rate; None
    where nothing tells.
    """

    tasks: int = 0
    expanded_share: float = 0.0
    ended: int = 0
    ended_share: float = 0.0
    per_second: float | None = None
    ends_at: datetime | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job: one run of a spider, a schedule or a list of URLs.

    ``state`` is placing, expanding, running, cancelling, done, cancelled or unplaced. ``size`` is
    how many tasks it has, ``expanded`` how many of them are made, ``refused`` how many of these
    have a URL that may not be asked for. ``counts`` are how they ended, once the job has;
    ``trouble`` is why it does not go on. Where jobs wait for a worker, ``worker`` has won it at
    ``placed_at``, its demand ``lowered`` so often until one did; ``pool`` is then the winner's,
    None for the usual one. ``ledger`` and ``progress`` are there where one job is asked for, not in
    lists.
    """

    name: str
    state: str
    rule: str
    size: int
    created_at: datetime
    by: str = ""
    rule_version: str = ""
    spider: str | None = None
    spider_version: int | None = None
    schedule: str | None = None
    fire_at: datetime | None = None
    values: dict[str, str] = {}
    priority: int = 5
    pool: str | None = None
    worker: str | None = None
    placed_at: datetime | None = None
    lowered: int = 0
    expanded: int = 0
    refused: int = 0
    expanded_at: datetime | None = None
    cancelled_at: datetime | None = None
    ended_at: datetime | None = None
    counts: dict[str, int] = {}
    trouble: str | None = None
    pattern: str | None = None
    refusals: tuple[str, ...] = ()
    ledger: JobLedger | None = None
    progress: JobProgress | None = None

    @property
    def id(self) -> str:
        """Its name, which is what it is known by."""
        return self.name

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.state in ENDED


class Retried(msgspec.Struct, frozen=True, kw_only=True):
    """So many failed tasks are worked on again; ``skipped`` are past their biz's time to live."""

    retried: int
    skipped: int
    more: bool
    job: Job


class JobsPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of jobs."""

    jobs: tuple[Job, ...] = ()
    cursor: str | None = None
    more: bool = False


#: Is told of the job after each look.
Followed = Callable[[Job], None]


class JobCalls(Calls):
    """Starting, following and ending jobs."""

    def start_job(
        self,
        biz: str,
        *,
        spider: str | None = None,
        version: int | None = None,
        rule: str | None = None,
        urls: Iterable[str] | None = None,
        start: Mapping[str, Any] | None = None,
        values: Mapping[str, str] | None = None,
        priority: int | None = None,
        pool: str | None = None,
        name: str | None = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """Start a job: a run of a kept ``spider``, or of a ``rule`` on ``urls`` or a ``start``.

        ``start`` is a pattern with its values, such as ``{"pattern": "https://shop.example/{page}",
        "values": {"page": {"last": 50}}}``; ``values`` fill the places that it leaves open. The
        newest ``version`` of the spider runs unless another is named. Workers of the ``pool`` alone
        do it, of the spider's own unless another is named. It is started once, however often the
        call has to be repeated; give a ``name`` or an ``idempotency_key`` of your own to be able to
        repeat it later. With neither it gets a name that says what it is a run of, and when.

        Raises:
            InvalidRequestError: a field is wrong; each is named.
            NotFoundError: the biz keeps no such spider.
            ConflictError: the name stands for another job.
            KeyReusedError: the key stands for another job.
            QuotaExceededError: the biz has as many open jobs as it may.
        """
        if name is None and idempotency_key is None:
            name = _name_of(spider or rule or "job")
        given = {
            "spider": spider,
            "version": version,
            "rule": rule,
            "urls": [urls] if isinstance(urls, str) else None if urls is None else list(urls),
            "start": start,
            "values": values,
            "priority": priority,
            "pool": pool,
            "name": name,
        }
        document = {field: value for field, value in given.items() if value is not None}
        answer = self._transport.call(
            "POST",
            path_of(biz, "jobs"),
            body=msgspec.json.encode(document),
            headers={} if idempotency_key is None else {"Idempotency-Key": idempotency_key},
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
        """Jobs of a biz, the newest first, all pages; ``state`` is one or several.

        A name that was only submitted under, as ``job`` of a page, is no job here.
        """
        states = state if state is None or isinstance(state, str) else ",".join(state)
        path = path_of(biz, "jobs")
        params = parameters(state=states, spider=spider, schedule=schedule, limit=page_size)

        def read(at: str | None) -> tuple[tuple[Job, ...], str | None, bool]:
            page = self._get(path, JobsPage, {**params, **parameters(cursor=at)})
            return page.jobs, page.cursor, page.more

        return Pages(read, cursor, clock=self._clock)

    def job(self, biz: str, name: str) -> Job:
        """One job, with its ledger and its progress.

        Raises:
            NotFoundError: there is none of that name.
        """
        return self._get(path_of(biz, "jobs", name), Job)

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
        """Have the failed tasks of a job worked on again; a job that was done runs again.

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
        """Wait until a job has ended, in whichever way; the job then.

        ``timeout`` is in seconds, None for no end. Looks come at a growing interval; ``progress``
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
                pace = job.progress or JobProgress(tasks=job.size)
                raise WaitTimeoutError(timeout or 0.0, max(0, pace.tasks - pace.ended))


def _name_of(what: str) -> str:
    """A new name of a run of this, by which it is one job: ``shop-20261121-030000-4f2a91``."""
    short = re.sub(r"[^A-Za-z0-9_-]+", "-", what)[:32].lstrip("-_") or "job"
    return f"{short}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
