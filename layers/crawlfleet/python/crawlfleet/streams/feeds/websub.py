"""WebSub, the subscriber's side (W3C Recommendation of 23 January 2018): pushes of a feed's hub.

1. A feed names its hub and its topic by links, of the header first, else of the document.
2. The subscriber asks the hub to push the topic to a URL of its own, and gives it a secret.
3. The hub asks that URL whether it is meant, and for how long it pushes; the challenge is echoed.
4. What it pushes is signed by the secret; anything else is acknowledged and ignored.
5. The lease is renewed before it ends, as a new subscription is made.

No hub is trusted alone: polling goes on, more rarely once a push has come (``interval``). Where
polling finds an item that no push has brought, the hub is trusted no longer, until the next push.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlencode, urljoin

import msgspec
from msgspec.structs import replace

from crawlfleet.kernel.urls import problem_with
from crawlfleet.streams.feeds.models import About, Hub, Lease

#: The hub decides; this is what the recommendation advises to ask for.
LEASE: Final = timedelta(days=10)
#: A shorter lease is taken for this one, a longer one for that: hubs are asked again neither every
#: moment nor never.
LEASE_LEAST: Final = timedelta(hours=1)
LEASE_MOST: Final = timedelta(days=30)
#: The part of a lease after which it is renewed.
RENEWED: Final = 0.8
#: A hub that has not asked back is asked again after so long.
UNANSWERED: Final = timedelta(hours=6)
#: Another hub than the last one is asked after so long: a feed may name others in turn.
ANOTHER: Final = timedelta(hours=1)
#: Bytes of a secret in hex: fewer than 200 are allowed.
SECRET_MAX: Final = 199
_CHALLENGE_MAX: Final = 4_000
_METHODS: Final = frozenset({"sha1", "sha256", "sha384", "sha512"})
#: Where one link of a Link header ends and the next one begins (RFC 8288).
_BETWEEN: Final = re.compile(r",\s*(?=<)")
_LINKS_MAX: Final = 16_000


class Meant(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a hub that asks: 200 with ``challenge``, else 404; the lease as it is now."""

    challenge: str = ""
    lease: Lease | None = None

    @property
    def status(self) -> int:
        """The status of the answer."""
        return 200 if self.challenge else 404


def hub_of(headers: Mapping[str, str], about: About, url: str) -> Hub | None:
    """Return the hub that a feed offers; None without one that can be asked.

    ``url`` is where redirects ended, which is the topic unless the feed names another one. Links of
    the header count before those of the document.
    """
    hubs, topics = _links(headers.get("link", "")[:_LINKS_MAX])
    if not hubs:
        hubs, topics = list(about.hubs), topics or [about.topic]
    for hub in hubs:
        place = _joined(url, hub)
        topic = _joined(url, next(filter(None, topics), url))
        if place and topic:
            return Hub(url=place, topic=topic)
    return None


def _links(header: str) -> tuple[list[str], list[str]]:
    """Find the targets of a Link header whose relation is ``hub``, and those of ``self``."""
    found: dict[str, list[str]] = {"hub": [], "self": []}
    for link in _BETWEEN.split(header):
        target, ended, parameters = link.strip().removeprefix("<").partition(">")
        if not ended:
            continue
        for parameter in parameters.split(";"):
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "rel":
                for relation in value.strip().strip('"').lower().split():
                    if relation in found:
                        found[relation].append(target.strip())
                break  # of several the first counts
    return found["hub"], found["self"]


def _joined(base: str, url: str) -> str:
    try:
        joined = urljoin(base, url.strip())
    except ValueError:
        return ""
    return joined if problem_with(joined) is None else ""


def wants_asking(lease: Lease | None, hub: Hub | None, now: datetime) -> bool:
    """Tell whether a hub is to be asked now: it is new, has not answered, or its lease ends."""
    if hub is None:
        return False
    if lease is None:
        return True
    if lease.hub != hub:
        return now - lease.asked_at >= ANOTHER
    return now >= renewed_at(lease)


def renewed_at(lease: Lease) -> datetime:
    """Return when a hub is asked again: well before its lease ends, or where it is silent."""
    if lease.until is None or lease.until <= lease.asked_at:
        return lease.asked_at + UNANSWERED
    return lease.asked_at + (lease.until - lease.asked_at) * RENEWED


def asked(lease: Lease | None, hub: Hub, secret: str, now: datetime) -> Lease:
    """Return the lease once a hub is asked; one that is renewed keeps its secret and goes on."""
    if lease is not None and lease.hub == hub:
        return replace(lease, asked_at=now)
    if not 16 <= len(secret) <= SECRET_MAX:
        raise ValueError("a secret has 16 to 199 characters")
    return Lease(hub=hub, secret=secret, asked_at=now)


def form(lease: Lease, callback: str, *, ends: bool = False) -> str:
    """Write the body by which a hub is asked to push, or to end that."""
    fields = {
        "hub.mode": "unsubscribe" if ends else "subscribe",
        "hub.topic": lease.hub.topic,
        "hub.callback": callback,
    }
    if not ends:
        fields["hub.lease_seconds"] = str(int(LEASE.total_seconds()))
        fields["hub.secret"] = lease.secret
    return urlencode(fields)


def answer(lease: Lease | None, query: Mapping[str, str], now: datetime) -> Meant:
    """Answer a hub that asks a callback whether a subscription is meant, or says that it is denied.

    ``lease`` is that of the callback, None where no feed has it: nobody subscribes us to a topic
    that we have not asked for, nor ends one that we want.
    """
    mode, challenge = query.get("hub.mode", ""), query.get("hub.challenge", "")
    if not 0 < len(challenge) <= _CHALLENGE_MAX:
        challenge = ""
    if lease is None:
        # What the hub still has of a feed that nobody wants ends.
        return Meant(challenge=challenge if mode == "unsubscribe" else "")
    if query.get("hub.topic") != lease.hub.topic:
        return Meant(lease=lease)
    if mode == "denied":
        return Meant(lease=replace(lease, until=None, trusted=False))
    seconds = query.get("hub.lease_seconds", "")
    if mode != "subscribe" or not challenge:
        return Meant(lease=lease)
    # The hub sets the lease; one that does not say it breaks the rules, and gets the advised one.
    span = LEASE
    if seconds.isascii() and seconds.isdecimal():
        span = timedelta(seconds=min(int(seconds[:12]), LEASE_MOST.total_seconds()))
    until = now + min(max(span, LEASE_LEAST), LEASE_MOST)
    return Meant(challenge=challenge, lease=replace(lease, asked_at=now, until=until))


def is_signed(lease: Lease, header: str, body: bytes) -> bool:
    """Tell whether a push is the hub's: ``X-Hub-Signature: method=hex`` of its body."""
    method, _, signature = header.strip().partition("=")
    if method not in _METHODS or not signature.isascii():
        return False
    expected = hmac.new(lease.secret.encode(), body, getattr(hashlib, method)).hexdigest()
    return hmac.compare_digest(expected, signature.lower())


def pushed(lease: Lease) -> Lease:
    """Return the lease after a signed push with items."""
    return replace(lease, trusted=True)


def is_pushing(lease: Lease | None, now: datetime) -> bool:
    """Tell whether a feed may be asked more rarely."""
    return lease is not None and lease.trusted and lease.until is not None and now < lease.until


def missed(lease: Lease) -> Lease:
    """Return the lease after polling has found an item that no push has brought."""
    return replace(lease, trusted=False)
