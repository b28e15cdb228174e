"""Proxies: other addresses to leave through (SPEC.md C9)."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from crawlfleet.model.document import Count, Document, Seconds


class Rotation(StrEnum):
    """Which proxy a request takes: the next one, or always the same for one job and host."""

    EACH_REQUEST = "each_request"
    EACH_JOB = "each_job"


class ProxyPool(Document, frozen=True, kw_only=True):
    """Proxies that stand for one another.

    ``secret`` names the secret whose text is the list of their URLs, one a line:
    ``http://user:password@host:port``; it is read by workers and shown nowhere. One that fails
    ``max_failures`` times in a row is left out for ``rest_seconds``, doubled each time up to an
    hour. ``allow_private`` lets proxies have private addresses; targets never do.
    """

    secret: Annotated[str, Meta(min_length=1, max_length=256)]
    rotation: Rotation = Rotation.EACH_REQUEST
    max_failures: Count = 3
    rest_seconds: Seconds = 60.0
    allow_private: bool = False
