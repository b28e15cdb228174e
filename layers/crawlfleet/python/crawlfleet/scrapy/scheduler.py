"""``SCHEDULER``: requests in Redis, leased and not popped (SPEC.md E1).

The life of a request:

1. A callback yields it. It waits here until some are together, or the engine asks for work.
2. One script marks it as seen and queues it.
3. Some process leases it with others and passes it to its engine. The lease is renewed while the
   process lives; when it dies the lease ends, and another process leases the request.
4. The engine is done with it: its callback is exhausted, or its download has become a redirect, a
   retry or an error. What that yielded, requests and items, is sent to Redis.
5. Then, and not before, it is finished.

A step that fails because Redis is away is repeated; the engine gets no work meanwhile.
"""

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Self

from scrapy import Request, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.exceptions import DontCloseSpider
from scrapy.utils.misc import build_from_crawler, load_object

from crawlfleet.crawling.executors.scrapy_wire import NotPortableError, load_request
from crawlfleet.kernel.errors import BacklogFullError, StoreError
from crawlfleet.scrapy import engine
from crawlfleet.scrapy.engine import session_of
from crawlfleet.scrapy.fingerprints import DupeFilter
from crawlfleet.scrapy.in_flight import MOST, TOGETHER, InFlight, SendBuffer
from crawlfleet.scrapy.journal import Kept
from crawlfleet.scrapy.loss import LossCheck
from crawlfleet.scrapy.redis import CrawlLoad, Forget, Marks, Pushed, Taken, url_in

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
_log = logging.getLogger(__name__)

#: Between two checks of leases, waiting requests and a queue that others may have filled.
_TICK_SECONDS: Final = 1.0
#: Leases are renewed this often in their time.
_RENEWALS: Final = 3
#: A queue that was empty is not asked again sooner, unless this process has put something in it.
_EMPTY_SECONDS: Final = 0.2
#: A Redis that was away is not asked again sooner.
_AWAY_SECONDS: Final = 1.0
#: What has ended elsewhere, and whether Redis has lost anything, is found out this often.
_CHECK_SECONDS: Final = 5.0
#: Attempts of a process that ends to leave a crawl while Redis is away.
_LEAVE_TRIES: Final = 3
#: In the meta of a start request that was queued, and of what middlewares make of it.
_QUEUED: Final = "crawlfleet_queued"
#: What a crawl closes with when Redis was away for too long.
AWAY_REASON: Final = "redis_unavailable"


class Scheduler(BaseScheduler):
    """The scheduler of one crawler; ``looping`` makes the loop for what the engine does not call.

    ``together`` requests are sent at once. When ``most`` wait for a Redis that is away the crawl
    ends.
    """

    def __init__(
        self,
        crawler: "Crawler",
        *,
        looping: Callable[[Callable[[], object]], engine.Loop] = engine.looping,
        clock: Callable[[], float] = time.monotonic,
        together: int = TOGETHER,
        most: int = MOST,
    ) -> None:
        self._clock = clock
        self._together, self._most = together, most
        self._crawler = crawler
        self._session = session_of(crawler)
        self._settings = self._session.settings
        self._crawl = self._session.crawl
        self._filter = self._make_filter()
        self._in_flight = InFlight(
            self._crawl, self._session.journal, lambda: engine.under_way(crawler)
        )
        self._loss = LossCheck(self._session, self._restored)
        self._local: set[Request] = set()
        self._loop = looping(self._tick)
        self._away_until = self._empty_until = self._renew_at = self._check_at = 0.0
        self._busy_at = clock()
        self._away = self._waited = self._ending = False

    @classmethod
    def from_crawler(cls, crawler: "Crawler") -> Self:
        """Make it for a crawler."""
        return cls(crawler)

    def open(self, spider: "Spider") -> Any:
        """Take part in the crawl, which may be under way; StoreError where Redis is not there."""
        self._spider = spider
        self._outgoing = SendBuffer(self._session, spider)
        found = self._crawl.enter(flush=self._settings.flush)
        if self._settings.biz:
            self._crawl.belong_to(self._settings.biz)
        self._session.fingerprints = found.fingerprints
        self._session.spoil = self._in_flight.spoil
        if found.flushed:
            self._session.journal.forget()
        self._loss.is_whole()
        self._session.check_items()
        if self._settings.flush and not found.flushed:
            self._say("others take part in the crawl: SCHEDULER_FLUSH_ON_START has no effect")
        if found.queued or found.leased:
            left = f"{found.queued} requests scheduled, {found.leased} leased"
            self._say(f"Resuming crawl ({left}, {found.others} other processes)")
        self._renew_at = self._clock() + self._settings.lease_seconds / _RENEWALS
        self._crawler.signals.connect(self._on_idle, signal=signals.spider_idle)
        self._loop.start(_TICK_SECONDS, now=False)
        return self._filter.open()

    def close(self, reason: str) -> Any:
        """Return what is leased; forget the crawl if it has come to its end."""
        if self._loop.running:
            self._loop.stop()
        if self._outgoing.local or self._local:
            left = len(self._outgoing.local) + len(self._local)
            _log.warning("%d requests that only this process had are lost", left)
        forget = self._settings.forget
        if forget is Forget.FINISHED and reason != "finished":
            forget = Forget.NEVER
        for _ in range(_LEAVE_TRIES):
            try:
                self._exchange(at_last=True)
                self._in_flight.release()
                if not self._loss.is_whole():
                    forget = Forget.NEVER if forget is Forget.FINISHED else forget
                elif reason == "finished":
                    self._session.journal.forget()
                self._session.check_items()
                if self._crawl.leave(forget):
                    self._session.forgotten = True
                    self._session.journal.forget()
                    self._outgoing.forget()
                break
            except (StoreError, BacklogFullError) as error:
                last: Exception = error
        else:
            _log.error("the requests of this process are free when its leases end: %s", last)
        self._session.connection.close()
        self._session.journal.close()
        return self._filter.close(reason)

    def enqueue_request(self, request: Request) -> bool:
        """Take a request from the engine; False if it is known here as a duplicate."""
        if len(self._outgoing) >= self._most:
            return self._overflow(request)
        marks, mark = self._mark(request)
        if marks is None:
            return self._refuse(request)
        if marks is Marks.STARTS:
            request.meta[_QUEUED] = True
        try:
            if not self._outgoing.add(request, marks, mark):
                return self._refuse(request)
        except NotPortableError as reason:
            return self._enqueue_here(request, marks, mark, reason)
        if len(self._outgoing) >= self._together:
            self._try_exchange()
        return True

    def next_request(self) -> Request | None:
        """Return the next request, or None if there is none now."""
        if self._outgoing.local:
            request = self._outgoing.local.popleft()
            self._local.add(request)
            return self._counted(request)
        if not self._in_flight and not self._lease():
            return None
        request_or_none = self._in_flight.dispatch()
        return None if request_or_none is None else self._counted(request_or_none)

    def has_pending_requests(self) -> bool:
        """Tell whether anything is left, here or with others, whose leases may end."""
        if len(self):
            return True
        load = self._load()
        if load is None or load.queued:
            return True
        if not load.leased and not self._is_still_whole():
            return True
        if load.leased and not self._waited:
            self._waited = True
            self._say(f"nothing is queued; waiting for {load.leased} requests under way elsewhere")
        return load.leased > 0

    def __len__(self) -> int:
        return len(self._outgoing) + len(self._outgoing.local) + len(self._in_flight)

    def _make_filter(self) -> Any:
        """Make the project's dupefilter, by default ours."""
        settings = self._crawler.settings
        if not settings.getpriority("DUPEFILTER_CLASS"):
            return DupeFilter.from_crawler(self._crawler)
        return build_from_crawler(load_object(settings["DUPEFILTER_CLASS"]), self._crawler)

    def _mark(self, request: Request) -> tuple[Marks | None, bytes]:
        """Make the mark of a request; None if another dupefilter knows it."""
        ours = self._filter if isinstance(self._filter, DupeFilter) else None
        if not request.dont_filter:
            if ours is not None:
                return Marks.SEEN, ours.mark(request)
            return (None if self._filter.request_seen(request) else Marks.NONE), b""
        meta = request.meta
        if ours is None or not self._settings.start_once or not meta.get("is_start_request"):
            return Marks.NONE, b""
        # A retry or a redirect of it has the same meta, and must not be taken for it.
        return (Marks.NONE, b"") if meta.get(_QUEUED) else (Marks.STARTS, ours.mark(request))

    def _refuse(self, request: Request) -> bool:
        self._filter.log(request, self._spider)
        return False

    def _enqueue_here(
        self, request: Request, marks: Marks, mark: bytes, reason: NotPortableError
    ) -> bool:
        self._count("scheduler/unserializable")
        if marks is Marks.SEEN:
            try:
                if not self._crawl.learn([mark]):
                    return self._refuse(request)
            except StoreError as error:
                self._note_away(error)
        return self._outgoing.keep_here(request, reason)

    def _overflow(self, request: Request) -> bool:
        """End the crawl in good order, as Redis is away and the buffer full."""
        self._try_exchange()
        if len(self._outgoing) < self._most:
            return self.enqueue_request(request)
        self._in_flight.spoil()
        if not self._ending:
            self._ending = True
            _log.error("Redis is away and %d requests wait for it; the crawl ends", self._most)
            engine.close_spider(self._crawler, AWAY_REASON)
        return False

    def _lease(self) -> bool:
        """Lease more requests; return whether there are any."""
        now = self._clock()
        if not self._try_exchange() or self._in_flight.is_closed or now < self._empty_until:
            return False
        try:
            self._take(self._settings.batch)
            wanted = self._settings.batch - len(self._in_flight)
            more = wanted > 0 and self._settings.start_urls_key and not self._in_flight.is_closed
            if more and self._absorb(wanted):
                self._take(wanted)
        except StoreError as error:
            self._note_away(error)
        if not self._in_flight:
            self._empty_until = now + _EMPTY_SECONDS
        return len(self._in_flight) > 0

    def _absorb(self, wanted: int) -> int:
        number = self._settings.start_urls_batch or wanted
        taken = self._crawl.absorb(self._settings.start_urls_key or "", number)
        if taken:
            starts = (Kept(id_, Pushed(content=url, start=True)) for id_, url in taken)
            self._session.journal.add(starts)
            self._loss.is_whole()
        return len(taken)

    def _take(self, number: int) -> None:
        taken, inherited = self._in_flight.lease(number, len(self._local))
        if inherited:
            self._say(f"took over {inherited} requests whose process has ended")
            self._count("scheduler/inherited", inherited)
        for each in taken:
            if each.deaths >= self._settings.attempts:
                self._drop_deadly(each)
                continue
            try:
                self._take_start(each) if each.start else self._take_request(each)
            except Exception as error:  # noqa: BLE001  the spider's own code may raise anything
                _log.error("a request cannot be read and is dead: %s", error)
                self._count("scheduler/unreadable")
                self._crawl.mark_dead(each.id, f"{type(error).__name__}: {error}")

    def _take_request(self, taken: Taken) -> None:
        request = load_request(taken.content, self._spider)
        self._in_flight.keep(taken.id, request, alone=self._is_last(taken))

    def _take_start(self, taken: Taken) -> None:
        """Take a start URL: a single request of it keeps the lease."""
        if len(taken.content) > self._settings.max_request_bytes:
            raise NotPortableError("start URL", f"has {len(taken.content):,} bytes")
        spider: Any = self._spider
        made = spider.make_request_from_data(taken.content)
        requests = [made] if isinstance(made, Request) else list(made or ())
        if not all(isinstance(each, Request) for each in requests):
            raise TypeError("make_request_from_data returned something that is no request")
        if len(requests) == 1 and requests[0].dont_filter:
            self._in_flight.keep(taken.id, requests[0], alone=self._is_last(taken))
            return
        for each in requests:
            if not self.enqueue_request(each) and self._ending:
                return  # another process takes it when its lease ends
        self._in_flight.drop(taken.id)

    def _is_last(self, taken: Taken) -> bool:
        return taken.deaths == self._settings.attempts - 1

    def _drop_deadly(self, taken: Taken) -> None:
        """Drop a request that has ended every process that began it."""
        why = f"was begun {taken.deaths} times, and its process ended each time"
        url = url_in(taken)
        _log.error("a request %s; it is kept in %s: %s", why, self._crawl.keys.dead, url)
        self._count("scheduler/deadly")
        self._crawl.mark_dead(taken.id, why)

    def _counted(self, request: Request) -> Request:
        self._busy_at = self._clock()
        self._waited = False
        self._count("scheduler/dequeued")
        self._count("scheduler/dequeued/redis")
        return request

    def _exchange(self, *, at_last: bool = False) -> None:
        """Send what was yielded, then finish the requests that yielded it.

        Raises:
            StoreError: Redis is away; no request is finished before its yield is sent.
            BacklogFullError: the biz has as many items as it may; the same.
        """
        under_way = engine.under_way(self._crawler)
        self._local = {each for each in self._local if each in under_way}
        self._in_flight.settle(self._session.items_given)
        queued, known = self._outgoing.flush()
        if queued:
            self._loss.is_whole()
            self._empty_until = 0.0
            self._count("scheduler/enqueued", queued)
            self._count("scheduler/enqueued/redis", queued)
        for request in known:
            self._refuse(request)
            self._crawler.signals.send_catch_log(
                signals.request_dropped, request=request, spider=self._spider
            )
        self._in_flight.finish(self._session.flush_items(at_last))

    def _try_exchange(self) -> bool:
        """Do so unless Redis was away just now; return whether it was done."""
        if self._clock() < self._away_until:
            return False
        try:
            self._exchange()
        except (StoreError, BacklogFullError) as error:
            self._note_away(error)
            return False
        if self._away:
            self._away = False
            self._say("Redis takes what is given again")
        return True

    def _is_still_whole(self) -> bool:
        try:
            return self._loss.is_whole()
        except StoreError as error:
            self._note_away(error)
            return False

    def _restored(self, number: int) -> None:
        """Note that Redis had lost the crawl, and so many requests are queued again."""
        self._in_flight.lose()
        self._empty_until = 0.0
        _log.warning("Redis has lost the crawl: %d requests are queued again", number)
        self._count("scheduler/restored", number)

    def _check(self) -> None:
        """Find out what has ended elsewhere or was lost, requests and items."""
        self._check_at = self._clock() + _CHECK_SECONDS
        self._loss.end_what_is_gone()
        if self._settings.biz:
            self._crawl.belong_to(self._settings.biz)
        self._session.check_items()

    def _load(self) -> CrawlLoad | None:
        if not self._try_exchange():
            return None
        try:
            return self._crawl.load()
        except StoreError as error:
            self._note_away(error)
            return None

    def _note_away(self, error: Exception) -> None:
        self._away_until = self._clock() + _AWAY_SECONDS
        if not self._away:
            self._away = True
            _log.warning("no more work until this has passed: %s", error)

    def _tick(self) -> None:
        """Renew leases and exchange with Redis, without the engine's calls."""
        if self._clock() >= self._renew_at:
            try:
                self._in_flight.renew()
                self._renew_at = self._clock() + self._settings.lease_seconds / _RENEWALS
            except StoreError as error:
                self._note_away(error)
        if self._try_exchange() and self._clock() >= self._check_at:
            try:
                self._check()
            except (StoreError, BacklogFullError) as error:
                self._note_away(error)
        engine.wake(self._crawler)

    def _on_idle(self) -> None:
        """Keep the spider open while more may come: start URLs, or as long as configured."""
        if self._clock() - self._busy_at < self._settings.idle_seconds:
            raise DontCloseSpider

    def _say(self, sentence: str) -> None:
        _log.info(sentence, extra={"spider": self._spider})

    def _count(self, stat: str, number: int = 1) -> None:
        if self._crawler.stats is not None:
            self._crawler.stats.inc_value(stat, number)
