"""The part of a tenant's document that says how far its removal is."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from crawlfleet.kernel.validation import Document

Moment = Annotated[datetime, Meta(tz=True)]


class Removing(Document, frozen=True, kw_only=True):
    """A removal has come so far; calls alone write it.

    From ``settled_at`` on nothing of it can be worked on. At ``withdrawn_at`` its bizs were taken
    out of the configuration, and there were ``before`` so many of each thing in each store.
    """

    since: Moment
    settled_at: Moment
    withdrawn_at: Moment | None = None
    before: Annotated[dict[str, int], Meta(max_length=200)] = {}
