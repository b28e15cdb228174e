"""How ways to sites are measured, and for how long that counts (SPEC.md B4).

A worker finds out what its way to a job's site is like (SPEC.md B4, B12).

::

    known to the pool? -> one of it asks: robots.txt, a turn, the test link -> known for a while

A probe is a request like any other: it has the biz's way out and its manners, and where the host
has no turn for it now nothing is known and nothing is the job's fault.

What a worker's way to a site is like: measuring it, and knowing it for a while (SPEC.md B4).

The ways to sites that a worker is finding out while it reads the board (SPEC.md B4).
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b
from typing import Final, Protocol

from msgspec.structs import replace

from crawlfleet.config.documents.biz import FetchLimits
from crawlfleet.config.documents.rule import Rule
from crawlfleet.config.lookup import ConfigCentre, biz_of
from crawlfleet.crawling.fetching.models import NO_FETCH_CONTEXT, FetchContext, Fetcher, HopGuard
from crawlfleet.crawling.politeness.hop_guard import (
    Patience,
    SingleRequest,
    fetch_context_of,
    threaded,
)
from crawlfleet.crawling.politeness.redis import RedisHosts, RedisRobotsCache
from crawlfleet.jobs.bidding.models import Offer, Probe, ProbeKey, UnknownLink, Wanted
from crawlfleet.kernel.errors import (
    FetchError,
    NoProxyError,
    RobotsUnknownError,
    StoreError,
    ThrottledError,
)
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.time import Clock, to_ms
from crawlfleet.kernel.urls import origin_of
from crawlfleet.requests.models import Body, Claim, Entry, Request
from crawlfleet.requests.outcomes import LeasedRequest

#: What a probe may take, and of the body that it reads.
PROBE_SECONDS: Final = 5.0
PROBE_BYTES: Final = 65_536
#: Redirects beyond these lead nowhere: hops may have turns to wait for.
PROBE_REDIRECTS: Final = 5
#: For how long a measured way counts where nothing else is said; one that led nowhere counts for
#: this part of it, within bounds.
KEPT_SECONDS: Final = 60.0
_FAULT_PART: Final = 6
_FAULT_SECONDS: Final = (1.0, 15.0)
#: Less than so many bytes come in one flight and say nothing of speed, unless they took so long.
_CONCLUSIVE_BYTES: Final = 16_384
_CONCLUSIVE_SECONDS: Final = 0.25
#: No body is taken to have come in less.
_SHORTEST_SECONDS: Final = 0.001
#: 4xx that are not of this page but of who asks: the way is of no use. Others measure it.
REFUSALS: Final = frozenset({401, 402, 403, 407, 451})
_LONGEST_FAULT: Final = 300


def digest(key: ProbeKey) -> str:
    """Thirty-two hex digits that stand for a key, whatever tenants have put into it.

    >>> key = ProbeKey(tenant="acme", biz="docs", pool="main", origin="http://a.example")
    >>> digest(key) == digest(replace(key, origin="http://a.example:8080"))
    False
    """
    words = (key.tenant, key.biz, key.pool, key.origin)
    hashed = blake2b(digest_size=16)
    for word in words:
        text = word.encode(errors="surrogatepass")
        hashed.update(b"%d:%b" % (len(text), text))
    return hashed.hexdigest()


def limits_of(fetch: FetchLimits) -> FetchLimits:
    """A biz's limits as a probe goes by them."""
    return replace(
        fetch,
        cookies=False,
        content_types=(),
        connect_seconds=min(fetch.connect_seconds, PROBE_SECONDS),
        first_byte_seconds=min(fetch.first_byte_seconds, PROBE_SECONDS),
        total_seconds=min(fetch.total_seconds, PROBE_SECONDS),
        max_body_bytes=PROBE_BYTES,
        max_redirects=min(fetch.max_redirects, PROBE_REDIRECTS),
    )


def speed(count: int, seconds: float) -> float | None:
    """Bytes a second of a body of which so many came in so long; None where that says nothing.

    >>> speed(65_536, 0.5), speed(300, 0.0001), speed(50, 5.0)
    (131072.0, None, 10.0)
    """
    if count < _CONCLUSIVE_BYTES and seconds < _CONCLUSIVE_SECONDS:
        return None
    return count / max(seconds, _SHORTEST_SECONDS)


def kept_seconds(probe: Probe, seconds: float = KEPT_SECONDS) -> float:
    """For how long a probe counts, where a measured one counts for ``seconds``."""
    if probe.seconds is not None:
        return seconds
    least, most = _FAULT_SECONDS
    return min(seconds, max(least, min(most, seconds / _FAULT_PART)))


def fault(text: str) -> str:
    """Why a site gave no answer, as it is kept: one line, bounded."""
    return " ".join(text.encode(errors="replace").decode().split())[:_LONGEST_FAULT]


class Prober(Protocol):
    """Measures ways to sites, with one request each on a connection of its own."""

    async def probe(
        self,
        url: str,
        limits: FetchLimits,
        hop_guard: HopGuard | None = None,
        fetch_context: FetchContext = NO_FETCH_CONTEXT,
    ) -> Probe:
        """What the way to a page is like: by when its first byte came, and how fast the rest.

        Of the body ``limits.max_body_bytes`` are read at most, decoded by nobody, and what has not
        come within ``limits.total_seconds`` is not waited for: the answer is that it is slow. A
        page that is not there any more measures the way as well as one that is. Redirects are
        followed, and passed, as those of any download; they count into the first byte's time.

        Raises:
            FetchError: the site gave no answer, or one that is not for us.
        """
        ...


class ProbeCache(Protocol):
    """What is known of ways, shared by the workers of each pool; one at a time finds it out.

    It is about the present, so it may be lost at any time.
    """

    def look(self, key: ProbeKey, worker: str, hold: timedelta) -> Probe | bool:
        """What is known; else whether it is this worker that is to find it out.

        It has to within ``hold``: then it may be another one's turn.
        """
        ...

    def save(self, key: ProbeKey, worker: str, probe: Probe, keep: timedelta) -> None:
        """The worker has found it out."""
        ...

    def release(self, key: ProbeKey, worker: str) -> None:
        """The worker has not, and another one may."""
        ...


#: How long turns are waited for, that of robots.txt included.
SLOT_SECONDS: Final = 2.0
#: All of it: robots.txt, turns and the request. Who asks has to be done before another one may
#: begin, and that is before those give up who wait for what comes of it.
ASK_SECONDS: Final = PROBE_SECONDS + 2 * SLOT_SECONDS
HOLD: Final = timedelta(seconds=ASK_SECONDS + 1.0)
WAIT_SECONDS: Final = ASK_SECONDS + 3.0
LOOK_SECONDS: Final = 0.2
#: After so long it is worth asking again where nobody has said otherwise.
_AGAIN_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """Seconds for asking, for waiting for an answer, and between two looks of others for it."""

    ask_seconds: float = ASK_SECONDS
    wait_seconds: float = WAIT_SECONDS
    look_seconds: float = LOOK_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbingPorts:
    """What probing needs of the world; ``fetcher`` fetches robots.txt."""

    config: ConfigCentre
    hosts: RedisHosts
    robots: RedisRobotsCache
    fetcher: Fetcher
    prober: Prober
    book: ProbeCache
    clock: Clock
    pauses: Pauses = Pauses()


async def probe_link(
    ports: ProbingPorts,
    key: ProbeKey,
    url: str,
    worker: str,
    keep_seconds: float = KEPT_SECONDS,
) -> Probe | UnknownLink:
    """What the way to ``url``, which is at the key's origin, is like for a worker.

    Raises:
        UnknownBizError: the biz is gone.
    """
    leased = _leased(ports, key, url)
    give_up_at = time.monotonic() + ports.pauses.wait_seconds
    try:
        while True:
            known = await threaded(ports.book.look, key, worker, HOLD)
            if isinstance(known, Probe):
                return known
            if known:
                break
            if time.monotonic() + ports.pauses.look_seconds > give_up_at:
                why = "another worker of the pool has been asking the site for too long"
                return UnknownLink(why=why, again_seconds=_AGAIN_SECONDS)
            await asyncio.sleep(ports.pauses.look_seconds)
    except StoreError as error:
        # Each for itself, then: the host's turns bound how often the site is asked.
        warn("what is known of ways to sites cannot be read", error)
    found = await _asked(ports, leased, url, worker)
    try:
        if isinstance(found, Probe):
            keep = timedelta(seconds=kept_seconds(found, keep_seconds))
            await threaded(ports.book.save, key, worker, found, keep)
        else:
            await threaded(ports.book.release, key, worker)
    except StoreError as error:
        warn("what was found out of the way to a site cannot be kept", error)
    return found


async def _asked(
    ports: ProbingPorts, leased: LeasedRequest, url: str, worker: str
) -> Probe | UnknownLink:
    limits = limits_of(leased.biz.fetch)
    fetch_context = fetch_context_of(ports.config.current(), leased)
    single = SingleRequest(
        ports.config,
        ports.hosts,
        ports.robots,
        ports.fetcher,
        ports.clock,
        leased,
        worker,
        Patience(ports.pauses.ask_seconds, SLOT_SECONDS),
    )
    try:
        return await single.ask(
            lambda hop_guard: ports.prober.probe(url, limits, hop_guard, fetch_context),
            lambda probe: probe.seconds or 0.0,
        )
    except ThrottledError as error:
        # Without a turn, or the site itself asks for patience: it is no worse for that.
        again = error.retry_after_seconds or _AGAIN_SECONDS
        return UnknownLink(why=fault(str(error)), again_seconds=again)
    except (RobotsUnknownError, NoProxyError) as error:
        return UnknownLink(why=fault(str(error)), again_seconds=_AGAIN_SECONDS)
    except FetchError as error:
        if isinstance(error.__cause__, TimeoutError) and not single.was_sent:
            # Other pages had the turns, or robots.txt took the time.
            return UnknownLink(why=fault(str(error)), again_seconds=_AGAIN_SECONDS)
        return Probe(at=ports.clock(), fault=fault(str(error)))
    except StoreError as error:
        warn("whose turn it is at a host cannot be said", error)
        why = "nobody can say whose turn it is at the host"
        return UnknownLink(why=why, again_seconds=_AGAIN_SECONDS)


def _leased(ports: ProbingPorts, key: ProbeKey, url: str) -> LeasedRequest:
    """The request that the probe would be, for those who go by one; nobody stores it."""
    queue_key, biz = biz_of(ports.config.current(), key.tenant, key.biz)
    if origin_of(url) != key.origin:
        raise ValueError("the key of a probe is another site's")
    now = ports.clock()
    body = Body(url=url, rule="probe", rule_version="")
    request = Request(id=0, tenant=queue_key.tenant, biz=queue_key.biz, queued_at=now, body=body)
    entry = Entry(0, queue_key.biz, to_ms(now))
    return LeasedRequest(
        queue_key, biz, Claim(request=request, entry=entry, token="", attempt=1), Rule()
    )


#: Ways that are found out at once, and how long a round waits for them: what takes longer is
#: judged by a later one, and keeps nobody.
MOST: Final = 12
PATIENCE_SECONDS: Final = 1.0


class LinkProbes:
    """What one worker is finding out; what came of it is in its pool's book, too."""

    def __init__(self, ports: ProbingPorts, pool: str, worker: str) -> None:
        self._ports = ports
        self._pool = pool
        self._id = worker
        self._tasks: dict[ProbeKey, asyncio.Task[Probe | UnknownLink]] = {}

    @property
    def is_looking(self) -> bool:
        """Whether something is still to be found out."""
        return bool(self._tasks)

    @property
    def room(self) -> int:
        """How many more may be looked at now."""
        return max(0, MOST - len(self._tasks))

    def is_new(self, offer: Offer, wanted: Wanted) -> bool:
        """Whether nobody here is finding it out yet.

        Raises:
            ValueError: the job's test link is none.
        """
        return self._key(offer, wanted) not in self._tasks

    def is_found(self, offer: Offer, wanted: Wanted) -> bool:
        """Whether a look at it has ended, well or not."""
        task = self._tasks.get(self._key(offer, wanted))
        return task is not None and task.done()

    async def look(self, looks: Sequence[tuple[Offer, Wanted]], keep_seconds: float) -> None:
        """Begin to find these out, and wait a little for what comes of it."""
        for offer, wanted in looks:
            key = self._key(offer, wanted)
            if key not in self._tasks:
                look = probe_link(self._ports, key, wanted.url, self._id, keep_seconds)
                self._tasks[key] = asyncio.create_task(look)
        open_looks = [task for task in self._tasks.values() if not task.done()]
        if open_looks:
            await asyncio.wait(open_looks, timeout=PATIENCE_SECONDS)

    def found(self, offer: Offer, wanted: Wanted) -> Probe | UnknownLink | None:
        """What came of a look; None while it goes on.

        Raises:
            Exception: whatever the look has failed with.
        """
        task = self._tasks.get(self._key(offer, wanted))
        return task.result() if task is not None and task.done() else None

    def forget(self) -> None:
        """Let go what has ended: the next look there is answered by the book."""
        for task in self._tasks.values():
            if task.done() and not task.cancelled():
                task.exception()  # it is looked at, or of no job any more
        self._tasks = {key: task for key, task in self._tasks.items() if not task.done()}

    async def close(self) -> None:
        """Look no more."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks = {}

    def _key(self, offer: Offer, wanted: Wanted) -> ProbeKey:
        return ProbeKey(
            tenant=offer.tenant, biz=offer.biz, pool=self._pool, origin=origin_of(wanted.url)
        )
