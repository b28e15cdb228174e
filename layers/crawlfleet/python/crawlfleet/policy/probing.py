"""How ways to sites are measured, and for how long that counts (SPEC.md B4)."""

from hashlib import blake2b
from typing import Final

from msgspec.structs import replace

from crawlfleet.model.biz import FetchLimits
from crawlfleet.model.probing import ProbeKey
from crawlfleet.model.usage import Probe

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
_TELLING_BYTES: Final = 16_384
_TELLING_SECONDS: Final = 0.25
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
    if count < _TELLING_BYTES and seconds < _TELLING_SECONDS:
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
