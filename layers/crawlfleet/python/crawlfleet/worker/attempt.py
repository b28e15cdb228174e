"""One attempt at a request: download it, read it; whatever happens becomes an outcome."""

import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

from crawlfleet.crawling.fetching.models import FetchContext
from crawlfleet.crawling.politeness.client import PolitenessClient, Waiting
from crawlfleet.crawling.politeness.hop_guard import HopGuards, NoSlotError
from crawlfleet.crawling.recrawl.policy import NOT_MODIFIED
from crawlfleet.fleet.models import WorkReport
from crawlfleet.kernel.errors import (
    CrawlfleetError,
    ExtractError,
    LeaseLostError,
    NoProxyError,
    StoreError,
    UnknownRuleError,
)
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.page import Answer, Page
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.leased import LeasedRequest
from crawlfleet.requests.outcomes import (
    CUT_OFF,
    INTERNAL,
    UNSTORABLE,
    Dead,
    Outcome,
    Retry,
    after_failure,
    cut_off,
    reason_of,
)
from crawlfleet.worker.parsing import Phases, Reading
from crawlfleet.worker.ports import WorkPorts


class Attempts:
    """The attempts of one worker, all in its event loop.

    Args:
        ports: The world.
        report: Counts bytes.
        phases: Gets the seconds of fetch and wait.
        passages: Makes the way to each page.
        courtesy: Is told how hosts answer.
        reading: Reads pages.
        ours: Whether a held request is still this worker's; asked before its page is.
        arrived: Is told of each page, for the account of its job's run.
    """

    def __init__(
        self,
        ports: WorkPorts,
        report: WorkReport,
        phases: Phases,
        hop_guards: HopGuards,
        politeness: PolitenessClient,
        reading: Reading,
        ours: Callable[[LeasedRequest], Awaitable[bool]],
        arrived: Callable[[QueueKey, str | None, Page], None],
    ) -> None:
        self._ports = ports
        self._report = report
        self._phases = phases
        self._hop_guards = hop_guards
        self._politeness = politeness
        self._reading = reading
        self._ours = ours
        self._arrived = arrived

    async def attempt(self, held: LeasedRequest) -> Outcome | Waiting:
        """Download and read one request: every failure becomes an outcome.

        One that was not begun, as its turn was needed for its site's robots.txt or its pool has no
        proxies, waits: that is no attempt.
        """
        body, biz = held.claim.request.body, held.biz
        now = self._ports.clock
        if (reason := cut_off(held.claim.attempt, biz.retry)) is not None:
            return Dead(reason, CUT_OFF)
        if held.rule is None:
            gone = f"rule {body.rule!r} version {body.rule_version} is not known any more"
            return Dead(gone, reason_of(UnknownRuleError()))
        page: Page | None = None
        try:
            page = await self._fetch(held)
            try:
                return await self._reading.read(held, held.rule, page)
            except ExtractError as error:
                error.answer = Answer.of_page(page)
                raise
        except NoSlotError as error:
            until = now() + timedelta(seconds=error.again_seconds)
            return Waiting(held.host[0], [held], until, "robots")
        except NoProxyError as error:
            # Whoever has set up the pool mends it; until then nothing can be asked for, or is lost.
            until = now() + timedelta(seconds=error.again_seconds)
            return Waiting(held.host[0], [held], until, "proxies", f"put aside: {error}"[:500])
        except LeaseLostError as error:
            return Retry(now(), str(error))  # of what is not held any more nothing is written
        except StoreError as error:
            if error.retryable:
                return after_failure(
                    error, held.claim.attempt, biz.retry, now(), self._ports.jitter()
                )
            answer = None if page is None else Answer.of_page(page)
            return Dead(f"cannot be stored: {error}"[:500], UNSTORABLE, answer)
        except CrawlfleetError as error:
            return after_failure(error, held.claim.attempt, biz.retry, now(), self._ports.jitter())
        except Exception as error:  # noqa: BLE001  a page or a rule provoked what nobody foresaw
            warn("a request failed in a way nobody foresaw", error)
            answer = None if page is None else Answer.of_page(page)
            return Dead(f"{type(error).__name__}: {error}"[:500], INTERNAL, answer)

    async def _fetch(self, held: LeasedRequest) -> Page:
        started = time.perf_counter()
        try:
            page = await self._ports.fetcher.fetch(
                held.claim.request.body,
                held.biz.fetch,
                self._hop_guards.of(held, self._ours),
                self._fetch_context(held),
            )
        except CrawlfleetError as error:
            answer = getattr(error, "answer", None)
            self._politeness.saw(held.host, 0.0 if answer is None else answer.seconds, error)
            raise
        self._politeness.saw(held.host, page.seconds, None)
        # A polite worker waits for its turn at a host: that is not the host being slow.
        waited = time.perf_counter() - started - page.seconds
        self._phases.add(held.queue_key, "fetch", page.seconds)
        self._phases.add(held.queue_key, "wait", max(0.0, waited))
        self._report.bytes += len(page.body)
        self._arrived(held.queue_key, held.claim.request.job, page)
        self._report.saved += page.status == NOT_MODIFIED
        return page

    def _fetch_context(self, held: LeasedRequest) -> FetchContext:
        stage = self._ports.config.current().stage
        pool = held.biz.fetch.proxies or stage.default_proxies
        return FetchContext(
            queue_key=held.queue_key,
            job=held.claim.request.job,
            pool=pool,
            proxies=None if pool is None else stage.proxies.get(pool),
            validators=None if held.known is None else held.known.validators,
        )
