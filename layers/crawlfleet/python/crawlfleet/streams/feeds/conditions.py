"""Decide on what condition a feed is asked for, and what is kept of its answer (RFC 9110, 13.1).

Validators are opaque: kept as they came, quotes included, both of them, with every body. They are
the place's that gave them, so where a redirect leads elsewhere they are not sent. Some servers err:

- An ETag that never matches (``"...-gzip"`` of Apache, or one for each back end) overrides a date
  that would: where it comes again with the same body, the date alone is sent.
- An ETag that never changes answers 304 for ever: a body is asked for once a day whatever is known.
- A body may be the same without a 304: it is known by its digest, and not parsed again.
"""

from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final

from msgspec.structs import replace

from crawlfleet.crawling.recrawl.policy import validators_of
from crawlfleet.requests.visits import Validators
from crawlfleet.streams.feeds.models import Download, Feed

#: A body is asked for at least so often.
FULL_EVERY: Final = timedelta(days=1)


def condition(feed: Feed, place: str, now: datetime) -> Validators | None:
    """Return the validators to send to a place, or None to ask for a body."""
    if place != feed.validated or feed.full_at is None or now - feed.full_at >= FULL_EVERY:
        return None
    if feed.in_vain:
        return Validators(last_modified=feed.validators.last_modified)
    return feed.validators or None


def digest(body: bytes) -> str:
    """Return the digest by which a body is known again."""
    return blake2b(body, digest_size=16).hexdigest()


def is_unchanged(feed: Feed, download: Download) -> bool:
    """Tell whether an answer says nothing that the last one did not."""
    return download.body is None or digest(download.body) == feed.digest


def kept(feed: Feed, download: Download, now: datetime, *, sent: Validators | None) -> Feed:
    """Return the feed with what its answer says of its state; ``sent`` was the condition."""
    said = validators_of(download.headers, now)
    if download.body is None:
        # A 304 may leave out what stands (RFC 9110, 15.4.5).
        stands = feed.validators
        said = Validators(
            etag=said.etag or stands.etag, last_modified=said.last_modified or stands.last_modified
        )
        return replace(feed, validators=said, validated=download.url)
    return replace(
        feed,
        validators=said,
        validated=download.url,
        in_vain=_is_in_vain(feed, download, said, sent),
        digest=digest(download.body),
        full_at=now,
    )


def _is_in_vain(feed: Feed, download: Download, said: Validators, sent: Validators | None) -> bool:
    """Tell whether an ETag does not match itself, and there is a date that may."""
    if not said.last_modified or said.etag is None:
        return False
    if feed.in_vain:
        return True
    was_sent = sent is not None and sent.etag == said.etag
    return was_sent and is_unchanged(feed, download)
