"""Keep what a worker has seen and heard of proxies, and what it is yet to tell (SPEC.md C9).

Downloads tell it how proxies did, in the event loop; the heartbeat, in a thread of its own, takes
the reports along and brings the news of the fleet.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, TypeAlias

import msgspec

from crawlfleet.config.documents.biz import ProxyPool
from crawlfleet.crawling.fetching.proxy_health import (
    DOUBTFUL,
    NEVER,
    NEW,
    TRY_SECONDS,
    Fault,
    HeardProxies,
    PoolReport,
    ProxyReport,
    ProxyReports,
    Standing,
    Verb,
    after_failure,
    after_news,
    chosen,
    is_due,
    is_usable,
)

#: A worker to whom nothing of the fleet has come for so long goes by what it sees itself. It is
#: three heartbeats at their slowest.
ALONE_SECONDS: Final = 30.0
#: A pool counts as used by a worker for so long after a download.
IN_USE_SECONDS: Final = 60.0
#: An answer of a site so lately by another proxy proves that the site answers.
LATELY_SECONDS: Final = 60.0
#: Reports that go with one heartbeat; figures without a change go every ten seconds.
MOST_REPORTS: Final = 100
MOST_FIGURES: Final = 20
FIGURES_SECONDS: Final = 10.0
#: Sites of which it is kept by which proxy they have answered.
_MOST_HOSTS: Final = 1_000
#: A pool, and the key of a proxy in it.
ProxyKey: TypeAlias = tuple[str, str]


class _Counts:
    __slots__ = ("answered", "failed", "spent")

    def __init__(self, answered: int = 0, failed: int = 0, spent: float = 0.0) -> None:
        self.answered, self.failed, self.spent = answered, failed, spent

    def less(self, sent: "_Counts") -> bool:
        """Take off what was reported; tell whether anything is left."""
        self.answered -= sent.answered
        self.failed -= sent.failed
        self.spent = max(0.0, self.spent - sent.spent)
        return self.answered > 0 or self.failed > 0


class ProxyExchange:
    """The standings of proxies in one worker, as it has seen and heard. Threads may share it.

    Reports are made for each heartbeat, and made again until :meth:`hear` shows that they have
    arrived. ``clock`` counts seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._standings: dict[str, dict[str, Standing]] = {}
        self._places: dict[str, dict[str, str]] = {}
        self._counts: dict[ProxyKey, _Counts] = {}
        self._changed: dict[ProxyKey, Verb] = {}
        self._answered: OrderedDict[ProxyKey, tuple[float, str]] = OrderedDict()
        self._used_at: dict[str, float] = {}
        self._told: dict[str, tuple[float, PoolReport]] = {}
        self._sent: dict[ProxyKey, tuple[Verb | None, _Counts]] = {}
        self._seen, self._heard_at, self._figures_at = 0, NEVER, NEVER

    # ---- from the event loop that downloads ------------------------------------------------------

    def listed(self, pool: str, places: dict[str, str], renewed: Sequence[str] = ()) -> None:
        """Take the proxies of a pool, by key; nothing is known of those ``renewed`` or gone."""
        with self._lock:
            gone = self._places.get(pool, {}).keys() - places.keys()
            for key in (*gone, *renewed):
                self._clear((pool, key))
            self._places[pool] = places
            for key in gone:
                self._counts.pop((pool, key), None)

    def choose(
        self, pool: str, keys: Sequence[str], first: int, *, tries_first: bool = True
    ) -> int | None:
        """Choose the number of a proxy for a download; None where the fleet leaves all out."""
        with self._lock:
            now = self._used_at[pool] = self.clock()
            known = self._standings.get(pool)
            if not known:
                return first
            standings = [known.get(key, NEW) for key in keys]
            alone = self._alone(now)
            number = chosen(standings, first, now, alone=alone, tries_first=tries_first)
            if number is not None and now < standings[number].try_until and not alone:
                # The one download that tries it: whoever comes next waits for its end.
                known[keys[number]] = msgspec.structs.replace(
                    standings[number], try_until=NEVER, ask_at=now + TRY_SECONDS
                )
            return number

    def back_seconds(self, pool: str, keys: Sequence[str]) -> float:
        """Return after how many seconds the first proxy may be tried again."""
        with self._lock:
            now, known = self.clock(), self._standings.get(pool, {})
            return min(known.get(key, NEW).cool_down_until for key in keys) - now

    def succeeded(self, pool: str, key: str, host: str, began: float) -> None:
        """Forget a proxy's failures, as it has brought an answer that was asked for since."""
        with self._lock:
            now = self.clock()
            counts = self._counts.setdefault((pool, key), _Counts())
            counts.answered += 1
            counts.spent += max(0.0, now - began)
            self._answered[pool, host] = now, key
            self._answered.move_to_end((pool, host))
            if len(self._answered) > _MOST_HOSTS:
                self._answered.popitem(last=False)
            standing = self._standings.get(pool, {}).get(key)
            # What was asked for before others found it dead proves nothing.
            if standing is not None and not (standing.is_known and began < standing.told_at):
                self._clear((pool, key))

    def failed(
        self, pool: str, limits: ProxyPool, key: str, host: str, began: float, fault: Fault
    ) -> None:
        """Count a failure of a proxy; one in doubt is its own where the site answers another."""
        with self._lock:
            now = self.clock()
            self._counts.setdefault((pool, key), _Counts()).failed += 1
            at, by = self._answered.get((pool, host), (NEVER, key))
            proved = by != key and now - at <= LATELY_SECONDS
            standings = self._standings.setdefault(pool, {})
            before = standings.get(key, NEW)
            after = after_failure(
                before,
                limits,
                now,
                began=began,
                is_sure=fault not in DOUBTFUL or proved,
                fault=fault,
            )
            standings[key] = after
            if after.is_known and after.cool_down_until > max(before.cool_down_until, now):
                self._changed[pool, key] = Verb.AWAY

    def _clear(self, proxy: ProxyKey) -> None:
        pool, key = proxy
        before = self._standings.get(pool, {}).pop(key, None)
        if before is not None and before.is_known:
            self._changed[proxy] = Verb.WELL

    def _alone(self, now: float) -> bool:
        return now - self._heard_at > ALONE_SECONDS

    @property
    def has_changes(self) -> bool:
        """Tell whether others have yet to hear of a proxy."""
        return bool(self._changed)

    # ---- from the thread that beats --------------------------------------------------------------

    def reports(self) -> ProxyReports:
        """Make the reports for a heartbeat."""
        with self._lock:
            now = self.clock()
            verbs = dict(islice(self._changed.items(), MOST_REPORTS))
            in_use = [pool for pool, at in self._used_at.items() if now - at <= IN_USE_SECONDS]
            asked = (
                ((pool, key), Verb.TRY)
                for pool in in_use
                for key, standing in self._standings.get(pool, {}).items()
                if key in self._places.get(pool, ()) and is_due(standing, now)
            )
            for proxy, verb in islice(asked, MOST_REPORTS - len(verbs)):
                verbs.setdefault(proxy, verb)
            if now - self._figures_at >= FIGURES_SECONDS:
                self._figures_at = now
                figures = (proxy for proxy in self._counts if proxy not in verbs)
                verbs |= dict.fromkeys(islice(figures, MOST_FIGURES), Verb.FIGURES)
            reports = [self._report(proxy, verb, now) for proxy, verb in verbs.items() if proxy[0]]
            self._sent = {
                (one.pool, one.key): (
                    self._changed.get((one.pool, one.key)),
                    _Counts(one.answered, one.failed, one.spent_seconds),
                )
                for one in reports
            }
            pools = [report for pool in in_use if (report := self._pool_report(pool, now))]
            return ProxyReports(seen=self._seen, reports=tuple(reports), pools=tuple(pools))

    def _report(self, proxy: ProxyKey, verb: Verb, now: float) -> ProxyReport:
        pool, key = proxy
        counts = self._counts.get(proxy) or _Counts()
        standing = self._standings.get(pool, {}).get(key, NEW)
        return ProxyReport(
            pool=pool,
            key=key,
            place=self._places.get(pool, {}).get(key, ""),
            verb=verb,
            answered=counts.answered,
            failed=counts.failed,
            spent_seconds=counts.spent,
            cool_down_seconds=max(0.0, standing.cool_down_until - now),
            cool_downs=standing.cool_downs,
            fault=standing.fault,
        )

    def _pool_report(self, pool: str, now: float) -> PoolReport | None:
        """Report a pool where it has changed, and every ten seconds."""
        keys, known = self._places.get(pool), self._standings.get(pool, {})
        if not keys or not pool:
            return None
        alone = self._alone(now)
        away = sum(not is_usable(known[key], now, alone=alone) for key in keys if key in known)
        report = PoolReport(pool=pool, size=len(keys), away=away)
        at, told = self._told.get(pool, (NEVER, None))
        if told == report and now - at < FIGURES_SECONDS:
            return None
        self._told[pool] = now, report
        return report

    def hear(self, heard: HeardProxies) -> None:
        """Take the answer to the last reports: they have arrived, and this is the news."""
        with self._lock:
            now = self._heard_at = self.clock()
            self._seen = heard.seen
            for proxy, (verb, counts) in self._sent.items():
                if verb is not None and self._changed.get(proxy) is verb:
                    del self._changed[proxy]
                own = self._counts.get(proxy)
                if own is not None and not own.less(counts):
                    del self._counts[proxy]
            self._sent = {}
            for news in heard.news:
                # Of what was seen here meanwhile the others have yet to hear.
                if (news.pool, news.key) in self._changed:
                    continue
                standings = self._standings.setdefault(news.pool, {})
                standing = after_news(standings.get(news.key, NEW), news, now)
                if standing == NEW:
                    standings.pop(news.key, None)
                else:
                    standings[news.key] = standing
