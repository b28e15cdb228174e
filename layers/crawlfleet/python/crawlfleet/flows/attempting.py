"""One attempt at a request: download it, read it; whatever happens becomes an outcome."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from crawlfleet.errors import CrawlfleetError, ExtractError, LeaseLostError, UnknownRuleError
from crawlfleet.flows.holding import Held, Holding
from crawlfleet.flows.phases import Phases
from crawlfleet.flows.work_ports import WorkPorts
from crawlfleet.model.lane import Lane
from crawlfleet.model.outcome import Answer, Dead, Done, Outcome, Page, Retry
from crawlfleet.model.record import Record
from crawlfleet.model.times import from_ms, to_ms
from crawlfleet.model.worker import WorkReport
from crawlfleet.policy.retry import CUT_OFF, INTERNAL, after_failure, cut_off, reason_of

#: Reading pages holds the event loop. After this long in one go, whoever else is due gets it.
SPELL_SECONDS: Final = 0.25
#: No page is read while outcomes that are still to be written take more than about this.
HEAVY_BYTES: Final = 64_000_000
HEAVY_PAUSE_SECONDS: Final = 0.1
#: What a record takes beside its text.
RECORD_BYTES: Final = 500


class Attempts:
    """The attempts of one worker, all in its event loop.

    Args:
        ports: The world.
        holding: Says how much waits to be written.
        report: Counts bytes.
        phases: Gets the seconds of fetch, wait and extract.
        ours: Whether a held request is still this worker's; asked before its page is.
    """

    def __init__(
        self,
        ports: WorkPorts,
        holding: Holding,
        report: WorkReport,
        phases: Phases,
        ours: Callable[[Held], Awaitable[bool]],
    ) -> None:
        self._ports = ports
        self._holding = holding
        self._report = report
        self._phases = phases
        self._ours = ours
        self._spell = 0.0

    async def attempt(self, held: Held) -> Outcome:
        """Download and extract one request: every failure becomes an outcome."""
        body, biz, lane = held.claim.request.body, held.biz, held.lane
        now = self._ports.clock
        if (reason := cut_off(held.claim.attempt, biz.retry)) is not None:
            return Dead(reason, CUT_OFF)
        if held.rule is None:
            gone = f"rule {body.rule!r} version {body.rule_version} is not known any more"
            return Dead(gone, reason_of(UnknownRuleError()))
        started = time.perf_counter()
        page: Page | None = None
        try:
            page = await self._ports.fetcher.fetch(body, biz.fetch, partial(self._ours, held))
            fetched = time.perf_counter()
            # A polite worker waits for its turn at a host: that is not the host being slow.
            self._phases.add(lane, "fetch", page.seconds)
            self._phases.add(lane, "wait", max(0.0, fetched - started - page.seconds))
            self._report.bytes += len(page.body)
            await self._turn_to_read()
            reading = time.perf_counter()
            try:
                found = self._ports.extractor.extract(held.rule, page)
            except ExtractError as error:
                error.answer = Answer.of_page(page)
                raise
            finally:
                self._has_read(lane, time.perf_counter() - reading)
        except LeaseLostError as error:
            return Retry(now(), str(error))  # of what is not held any more nothing is written
        except CrawlfleetError as error:
            return after_failure(error, held.claim.attempt, biz.retry, now(), self._ports.jitter())
        except Exception as error:  # noqa: BLE001  a page or a rule provoked what nobody foresaw
            self._ports.warn("a request failed in a way nobody foresaw", error)
            answer = None if page is None else Answer.of_page(page)
            return Dead(f"{type(error).__name__}: {error}"[:500], INTERNAL, answer)
        held.weight = len(page.body) + len(found) * RECORD_BYTES
        stored_at = from_ms(to_ms(now()))
        return Done(
            tuple(
                Record(
                    request_id=held.claim.request.id,
                    index=index,
                    biz=held.lane.biz,
                    url=page.url,
                    rule=body.rule,
                    rule_version=body.rule_version,
                    stored_at=stored_at,
                    fields=fields,
                )
                for index, fields in enumerate(found)
            ),
            page.status,
        )

    async def _turn_to_read(self) -> None:
        while True:
            if self._holding.weight > HEAVY_BYTES:
                await asyncio.sleep(HEAVY_PAUSE_SECONDS)
            elif self._spell > SPELL_SECONDS:
                await asyncio.sleep(0)
            else:
                return

    def _has_read(self, lane: Lane, seconds: float) -> None:
        """Add to what the event loop was held for; it starts from nothing in the loop's next round.

        A hundred pages that arrive at once and take seconds each would else keep the leases from
        being renewed until all are read, and other workers would read them again.
        """
        if not self._spell:
            asyncio.get_running_loop().call_soon(self._breathe)
        self._spell += seconds
        self._phases.add(lane, "extract", seconds)

    def _breathe(self) -> None:
        self._spell = 0.0
