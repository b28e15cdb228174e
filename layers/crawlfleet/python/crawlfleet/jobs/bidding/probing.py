"""Probe the links from a pool to the sites of jobs, and keep the results for a while (B4, B12).

::

    cached for the pool? -> one worker probes: robots.txt, a host slot, the test link -> cached

A probe has the biz's proxies and politeness like any other request. Where the host has no slot for
it now the link is unknown, which is not the job's fault.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from crawlfleet.config.documents.biz import FetchLimits
from crawlfleet.config.documents.rule import Rule
from crawlfleet.config.in_force import SsmConfig
from crawlfleet.config.lookup import biz_of
from crawlfleet.crawling.fetching.models import Fetcher
from crawlfleet.crawling.politeness.hop_guard import SingleRequest, fetch_context_of, threaded
from crawlfleet.crawling.politeness.redis import RedisHosts, RedisRobotsCache
from crawlfleet.jobs.bidding.models import JobListing, Probe, ProbeKey, UnknownLink, Wanted
from crawlfleet.kernel import errors
from crawlfleet.kernel.hosts import origin_of
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.redis.connection import RedisConnection, several, text, whole
from crawlfleet.kernel.redis.server import Script
from crawlfleet.kernel.time import Clock, to_ms
from crawlfleet.requests.leased import LeasedRequest
from crawlfleet.requests.models import Body, Claim, Entry, Request

if TYPE_CHECKING:
    from crawlfleet.jobs.bidding.prober import HttpProber

#: The longest probe, and the bytes of the body that it reads.
PROBE_SECONDS: Final = 5.0
PROBE_BYTES: Final = 65_536
#: More redirects lead nowhere: each hop may have to wait for a slot.
PROBE_REDIRECTS: Final = 5
#: For how long a probe is cached by default; one with a fault for this part of it, within bounds.
KEPT_SECONDS: Final = 60.0
_FAULT_PART: Final = 6
_FAULT_SECONDS: Final = (1.0, 15.0)
_LONGEST_FAULT: Final = 300


def limits_of(fetch: FetchLimits) -> FetchLimits:
    """Reduce a biz's limits to those of a probe."""
    return replace(
        fetch,
        # A test link may be anybody's.
        headers={name: text for name, text in fetch.headers.items() if isinstance(text, str)},
        cookies=False,
        content_types=(),
        connect_seconds=min(fetch.connect_seconds, PROBE_SECONDS),
        first_byte_seconds=min(fetch.first_byte_seconds, PROBE_SECONDS),
        total_seconds=min(fetch.total_seconds, PROBE_SECONDS),
        max_body_bytes=PROBE_BYTES,
        max_redirects=min(fetch.max_redirects, PROBE_REDIRECTS),
    )


def kept_seconds(probe: Probe, seconds: float = KEPT_SECONDS) -> float:
    """Compute for how long a probe is cached, where one without a fault is for ``seconds``."""
    if probe.seconds is not None:
        return seconds
    least, most = _FAULT_SECONDS
    return min(seconds, max(least, min(most, seconds / _FAULT_PART)))


def fault(text: str) -> str:
    """Bound a fault, and put it into one line."""
    return " ".join(text.encode(errors="replace").decode().split())[:_LONGEST_FAULT]


_LOOK: Final = Script("jobs/bidding/probe_look")
_SAVE: Final = Script("jobs/bidding/probe_save")

#: How long slots are waited for, that of robots.txt included.
SLOT_SECONDS: Final = 2.0
#: All of it: robots.txt, slots and the request. A probe ends before another worker may begin one,
#: and that is before those give up that wait for the result.
ASK_SECONDS: Final = PROBE_SECONDS + 2 * SLOT_SECONDS
HOLD: Final = timedelta(seconds=ASK_SECONDS + 1.0)
WAIT_SECONDS: Final = ASK_SECONDS + 3.0
LOOK_SECONDS: Final = 0.2
#: The default of when a probe is worth repeating.
_AGAIN_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """Seconds for a probe, for waiting for one of another worker, and between two reads of it."""

    ask_seconds: float = ASK_SECONDS
    wait_seconds: float = WAIT_SECONDS
    look_seconds: float = LOOK_SECONDS


def _digest(key: ProbeKey) -> str:
    """Hash a key into 32 hex digits, whatever tenants have put into it."""
    hashed = blake2b(digest_size=16)
    for word in (key.tenant, key.biz, key.pool, key.origin):
        text = word.encode(errors="surrogatepass")
        hashed.update(b"%d:%b" % (len(text), text))
    return hashed.hexdigest()


def probe_keys(key: ProbeKey) -> tuple[str, str]:
    """Return the Redis keys of a probe."""
    stem = f"cf:{{probe:{_digest(key)}}}"
    return f"{stem}:probe", f"{stem}:probing"


class RedisProbeCache:
    """The probes that the workers of each pool share in Redis; one at a time makes one.

    ================================  ======  ====  ==========================
    key                               type    TTL   holds
    ================================  ======  ====  ==========================
    ``cf:{probe:<digest>}:probe``     STRING  yes   a probe as JSON
    ``cf:{probe:<digest>}:probing``   STRING  yes   the worker that is probing
    ================================  ======  ====  ==========================

    The digest is of tenant, biz, pool and origin: no part of a URL stands in a key, and no tenant's
    probes are another's. Both keys may be evicted at any time.
    """

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection

    def get_or_claim(self, key: ProbeKey, worker: str, hold: timedelta) -> Probe | bool:
        """Get a cached probe; else whether this worker is to make one, within ``hold``."""
        answer = self._redis.again(_LOOK, probe_keys(key), worker, _ms(hold))
        known, mine = several(answer, 2)
        if known is not None:
            try:
                return msgspec.json.decode(text(known), type=Probe)
            except msgspec.DecodeError:
                return True  # an unreadable one is made anew
        return whole(mine) == 1

    def save(self, key: ProbeKey, worker: str, probe: Probe, keep: timedelta) -> None:
        """Cache the probe that the worker has made."""
        content, keep_ms = msgspec.json.encode(probe), max(1, _ms(keep))
        whole(self._redis.again(_SAVE, probe_keys(key), worker, content, keep_ms))

    def release(self, key: ProbeKey, worker: str) -> None:
        """Give up making a probe, so that another worker may."""
        whole(self._redis.again(_SAVE, probe_keys(key), worker, "", 1))


def _ms(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProber:
    """The service that probes links; ``fetcher`` fetches robots.txt."""

    config: SsmConfig
    hosts: RedisHosts
    robots: RedisRobotsCache
    fetcher: Fetcher
    prober: "HttpProber"
    cache: RedisProbeCache
    clock: Clock
    pauses: Pauses = Pauses()

    async def probe(
        self, key: ProbeKey, url: str, worker: str, keep_seconds: float = KEPT_SECONDS
    ) -> Probe | UnknownLink:
        """Get the probe of ``url``, at the key's origin, from the cache or by a request.

        Raises UnknownBizError (the biz is gone).
        """
        leased = self._request(key, url)
        give_up_at = time.monotonic() + self.pauses.wait_seconds
        try:
            while True:
                known = await threaded(self.cache.get_or_claim, key, worker, HOLD)
                if isinstance(known, Probe):
                    return known
                if known:
                    break
                if time.monotonic() + self.pauses.look_seconds > give_up_at:
                    why = "another worker of the pool has been probing the site for too long"
                    return UnknownLink(why=why, again_seconds=_AGAIN_SECONDS)
                await asyncio.sleep(self.pauses.look_seconds)
        except errors.StoreError as error:
            # Each worker for itself, then: the host's slots bound how often the site is asked.
            warn("cached probes cannot be read", error)
        found = await self._ask(key, leased, url, worker)
        try:
            if isinstance(found, Probe):
                keep = timedelta(seconds=kept_seconds(found, keep_seconds))
                await threaded(self.cache.save, key, worker, found, keep)
            else:
                await threaded(self.cache.release, key, worker)
        except errors.StoreError as error:
            warn("a probe cannot be cached", error)
        return found

    async def _ask(
        self, key: ProbeKey, leased: LeasedRequest, url: str, worker: str
    ) -> Probe | UnknownLink:
        limits = limits_of(leased.biz.fetch)
        fetch_context = fetch_context_of(self.config.current(), leased, key.pool)
        single = SingleRequest(
            *(self.config, self.hosts, self.robots, self.fetcher, self.clock),
            *(leased, worker, self.pauses.ask_seconds, SLOT_SECONDS),
            proxied=fetch_context.proxies is not None,
        )
        try:
            return await single.ask(
                lambda hop_guard: self.prober.probe(url, limits, hop_guard, fetch_context),
                lambda probe: probe.seconds or 0.0,
            )
        except errors.ThrottledError as error:
            # No slot, or the site throttles us: it is no worse for that.
            again = error.retry_after_seconds or _AGAIN_SECONDS
            return UnknownLink(why=fault(str(error)), again_seconds=again)
        except (errors.RobotsUnknownError, errors.NotReadyError) as error:
            return UnknownLink(why=fault(str(error)), again_seconds=_AGAIN_SECONDS)
        except errors.FetchError as error:
            if isinstance(error.__cause__, TimeoutError) and not single.was_sent:
                # Other pages had the slots, or robots.txt took the time.
                return UnknownLink(why=fault(str(error)), again_seconds=_AGAIN_SECONDS)
            return Probe(at=self.clock(), fault=fault(str(error)))
        except errors.StoreError as error:
            warn("host slots cannot be read", error)
            why = "the slots of the host cannot be read"
            return UnknownLink(why=why, again_seconds=_AGAIN_SECONDS)

    def _request(self, key: ProbeKey, url: str) -> LeasedRequest:
        """Make the request that politeness goes by; it is stored nowhere."""
        queue_key, biz = biz_of(self.config.current(), key.tenant, key.biz)
        if origin_of(url) != key.origin:
            raise ValueError("the key of a probe is another site's")
        now = self.clock()
        body = Body(url=url, rule="probe", rule_version="")
        request = Request(id=0, tenant=key.tenant, biz=key.biz, queued_at=now, body=body)
        entry = Entry(0, key.biz, to_ms(now))
        claim = Claim(request=request, entry=entry, token="", attempt=1)
        return LeasedRequest(queue_key, biz, claim, Rule())


#: Links that are probed at once, and how long a round waits for them: slower ones are read by a
#: later round.
MOST: Final = 12
PATIENCE_SECONDS: Final = 1.0


class LinkProbes:
    """The probes that one worker has under way while it reads the board."""

    def __init__(self, prober: LinkProber, pool: str, worker: str) -> None:
        self._prober = prober
        self._pool = pool
        self._id = worker
        self._tasks: dict[ProbeKey, asyncio.Task[Probe | UnknownLink]] = {}

    @property
    def are_open(self) -> bool:
        """Tell whether a probe is under way."""
        return bool(self._tasks)

    @property
    def room(self) -> int:
        """The number of probes that may begin now."""
        return max(0, MOST - len(self._tasks))

    def is_new(self, listing: JobListing, wanted: Wanted) -> bool:
        """Tell whether no probe of the job's link was begun here; ValueError where that is none."""
        return self._key(listing, wanted) not in self._tasks

    def is_done(self, listing: JobListing, wanted: Wanted) -> bool:
        """Tell whether its probe has ended, well or not."""
        task = self._tasks.get(self._key(listing, wanted))
        return task is not None and task.done()

    async def run(self, jobs: Sequence[tuple[JobListing, Wanted]], keep_seconds: float) -> None:
        """Begin the probes of these jobs, and wait a little for them."""
        for listing, wanted in jobs:
            key = self._key(listing, wanted)
            if key not in self._tasks:
                probe = self._prober.probe(key, wanted.url, self._id, keep_seconds)
                self._tasks[key] = asyncio.create_task(probe)
        under_way = [task for task in self._tasks.values() if not task.done()]
        if under_way:
            await asyncio.wait(under_way, timeout=PATIENCE_SECONDS)

    def result(self, listing: JobListing, wanted: Wanted) -> Probe | UnknownLink | None:
        """Return the result of a probe, or raise what it failed with; None while it goes on."""
        task = self._tasks.get(self._key(listing, wanted))
        return task.result() if task is not None and task.done() else None

    def forget(self) -> None:
        """Drop the probes that have ended: the cache has their results."""
        for task in self._tasks.values():
            if task.done() and not task.cancelled():
                task.exception()  # it was logged, or concerns no job any more
        self._tasks = {key: task for key, task in self._tasks.items() if not task.done()}

    async def close(self) -> None:
        """Cancel what is under way."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks = {}

    def _key(self, listing: JobListing, wanted: Wanted) -> ProbeKey:
        return ProbeKey(
            tenant=listing.tenant, biz=listing.biz, pool=self._pool, origin=origin_of(wanted.url)
        )
