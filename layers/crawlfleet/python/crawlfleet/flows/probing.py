"""A worker finds out what its way to a job's site is like (SPEC.md B4, B12).

::

    known to the pool? -> one of it asks: robots.txt, a turn, the test link -> known for a while

A probe is a request like any other: it has the biz's way out and its manners, and where the host
has no turn for it now nothing is known and nothing is the job's fault.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from crawlfleet.errors import (
    FetchError,
    NoProxyError,
    RobotsUnknownError,
    StoreError,
    ThrottledError,
)
from crawlfleet.flows.configuration import biz_of
from crawlfleet.flows.holding import Held
from crawlfleet.flows.visiting import Patience, Visit, errand_of, threaded
from crawlfleet.model.probing import NotJudged, ProbeKey
from crawlfleet.model.request import Body, Claim, Entry, Request
from crawlfleet.model.rule import Rule
from crawlfleet.model.times import to_ms
from crawlfleet.model.usage import Probe
from crawlfleet.policy.probing import KEPT_SECONDS, PROBE_SECONDS, fault, kept_seconds, limits_of
from crawlfleet.policy.robots import origin_of
from crawlfleet.ports import Clock, ConfigCentre, Fetcher, Hosts, RobotsCache
from crawlfleet.ports.probing import ProbeBook, Prober

#: How long turns are waited for, that of robots.txt included.
TURN_SECONDS: Final = 2.0
#: All of it: robots.txt, turns and the request. Who asks has to be done before another one may
#: begin, and that is before those give up who wait for what comes of it.
ASK_SECONDS: Final = PROBE_SECONDS + 2 * TURN_SECONDS
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
    hosts: Hosts
    robots: RobotsCache
    fetcher: Fetcher
    prober: Prober
    book: ProbeBook
    clock: Clock
    warn: Callable[[str, Exception], None]
    pauses: Pauses = Pauses()


async def probed(
    ports: ProbingPorts,
    key: ProbeKey,
    url: str,
    worker: str,
    keep_seconds: float = KEPT_SECONDS,
) -> Probe | NotJudged:
    """What the way to ``url``, which is at the key's origin, is like for a worker.

    Raises:
        UnknownBizError: the biz is gone.
    """
    held = _held(ports, key, url)
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
                return NotJudged(why=why, again_seconds=_AGAIN_SECONDS)
            await asyncio.sleep(ports.pauses.look_seconds)
    except StoreError as error:
        # Each for itself, then: the host's turns bound how often the site is asked.
        ports.warn("what is known of ways to sites cannot be read", error)
    found = await _asked(ports, held, url, worker)
    try:
        if isinstance(found, Probe):
            keep = timedelta(seconds=kept_seconds(found, keep_seconds))
            await threaded(ports.book.save, key, worker, found, keep)
        else:
            await threaded(ports.book.release, key, worker)
    except StoreError as error:
        ports.warn("what was found out of the way to a site cannot be kept", error)
    return found


async def _asked(ports: ProbingPorts, held: Held, url: str, worker: str) -> Probe | NotJudged:
    limits = limits_of(held.biz.fetch)
    errand = errand_of(ports.config.current(), held)
    visit = Visit(ports, held, worker, Patience(ports.pauses.ask_seconds, TURN_SECONDS))
    try:
        return await visit.ask(
            lambda passage: ports.prober.probe(url, limits, passage, errand),
            lambda probe: probe.seconds or 0.0,
        )
    except ThrottledError as error:
        # Without a turn, or the site itself asks for patience: it is no worse for that.
        again = error.retry_after_seconds or _AGAIN_SECONDS
        return NotJudged(why=fault(str(error)), again_seconds=again)
    except (RobotsUnknownError, NoProxyError) as error:
        return NotJudged(why=fault(str(error)), again_seconds=_AGAIN_SECONDS)
    except FetchError as error:
        if isinstance(error.__cause__, TimeoutError) and not visit.was_sent:
            # Other pages had the turns, or robots.txt took the time.
            return NotJudged(why=fault(str(error)), again_seconds=_AGAIN_SECONDS)
        return Probe(at=ports.clock(), fault=fault(str(error)))
    except StoreError as error:
        ports.warn("whose turn it is at a host cannot be said", error)
        why = "nobody can say whose turn it is at the host"
        return NotJudged(why=why, again_seconds=_AGAIN_SECONDS)


def _held(ports: ProbingPorts, key: ProbeKey, url: str) -> Held:
    """The request that the probe would be, for those who go by one; nobody stores it."""
    lane, biz = biz_of(ports.config.current(), key.tenant, key.biz)
    if origin_of(url) != key.origin:
        raise ValueError("the key of a probe is another site's")
    now = ports.clock()
    body = Body(url=url, rule="probe", rule_version="")
    request = Request(id=0, tenant=lane.tenant, biz=lane.biz, queued_at=now, body=body)
    entry = Entry(0, lane.biz, to_ms(now))
    return Held(lane, biz, Claim(request=request, entry=entry, token="", attempt=1), Rule())
