"""How politely a host is to be treated, and what its name is (SPEC.md H3).

What comes of that at one moment, whose turn it is, is for policy.turns to say.
"""

import ipaddress
import re
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote

from msgspec.structs import replace

from crawlfleet.model.biz import Biz, Stage
from crawlfleet.model.politeness import HostLimits

#: A name is no longer in the DNS; what is longer in a URL leads nowhere.
_LONGEST: Final = 253
#: What stands between the scheme and the path.
_AUTHORITY: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#\\]*)")
_PLAIN: Final = re.compile(r"[a-z0-9._-]+")


def host_limits(stage: Stage, host: str) -> HostLimits:
    """How the stage treats a host, whoever asks: what reports of it carry."""
    return stage.host_limits.get(host, stage.hosts)


def limits_for(stage: Stage, biz: Biz, host: str) -> HostLimits:
    """The limits for a biz's own requests: the stage's, or what the biz says if that is less.

    >>> from crawlfleet.model.politeness import Politeness
    >>> from msgspec import structs
    >>> biz = Biz(generations=(), politeness=Politeness(per_second=0.5, concurrency=99))
    >>> limits = limits_for(Stage(), biz, "example.org")
    >>> limits.per_second, limits.concurrency
    (0.5, 8)
    """
    limits, own = host_limits(stage, host), biz.politeness
    if own.per_second is None and own.concurrency is None:
        return limits
    return replace(
        limits,
        per_second=min(limits.per_second, own.per_second or limits.per_second),
        concurrency=min(limits.concurrency, own.concurrency or limits.concurrency),
    )


def interval_of(limits: HostLimits, crawl_delay: float | None = None) -> float:
    """Seconds between two turns: by the rate, or a longer crawl-delay within its cap.

    >>> interval_of(HostLimits(per_second=10)), interval_of(HostLimits(per_second=10), 3)
    (0.1, 3.0)
    >>> interval_of(HostLimits(max_crawl_delay_seconds=60), 86_400)
    60.0
    """
    asked = min(crawl_delay or 0.0, limits.max_crawl_delay_seconds)
    return max(1.0 / limits.per_second, float(asked))


def host_of(url: str) -> str:
    """The host of a URL as limits, turns and parked requests know it.

    Lower case, encoded as the DNS has it, without port, credentials and trailing dot; an IPv6
    address in brackets, in its shortest form. Of what no DNS can hold some text comes that is good
    as a key: the download itself will fail.

    >>> host_of("HTTPS://Bücher.Example.:8443/?q=a:b")
    'xn--bcher-kva.example'
    >>> host_of("http://[2001:DB8:0::1]:80/")
    '[2001:db8::1]'
    """
    found = _AUTHORITY.match(url)
    return "" if found is None else _host(found[1])


@lru_cache(maxsize=8_192)  # a crawl asks of few hosts, often
def _host(authority: str) -> str:
    place = authority.rpartition("@")[2]
    if place.startswith("["):
        inside = place[1:].partition("]")[0]
        try:
            return f"[{ipaddress.IPv6Address(inside).compressed}]"
        except ValueError:
            return f"[{quote(inside.lower(), safe=':', errors='replace')[:_LONGEST]}]"
    name = unquote(place.partition(":")[0]).lower()
    if not _PLAIN.fullmatch(name):
        name = _encoded(name)
    return name.removesuffix(".")[:_LONGEST]


def _encoded(name: str) -> str:
    # Here, because its tables cost a cold start more than most crawls need them.
    import idna

    try:
        found = idna.encode(name, uts46=True).decode("ascii")
    except (UnicodeError, IndexError):
        try:
            found = name.encode("idna").decode("ascii")
        except (UnicodeError, IndexError):
            found = ""
    return found if _PLAIN.fullmatch(found) else quote(name[:_LONGEST], safe="", errors="replace")
