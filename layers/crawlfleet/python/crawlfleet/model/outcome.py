"""What became of one attempt at a request: values, not exceptions."""

from datetime import datetime
from typing import TypeAlias

import msgspec

from crawlfleet.model.harvest import Link
from crawlfleet.model.ids import RequestId
from crawlfleet.model.record import Record
from crawlfleet.model.recrawl import Visit
from crawlfleet.page import Answer


class Done(msgspec.Struct, frozen=True):
    """The page was read; these are its records (possibly none) and the links to go on with.

    ``stored`` are records that were stored while the page was still being read: these are the first
    of the page, and ``records`` go on from their index. ``rejected`` says of some that were not
    stored why, and ``rejected_count`` how many there are of those. ``visit`` is what is known of
    the page from now on.
    """

    records: tuple[Record, ...]
    status: int = 200
    links: tuple[Link, ...] = ()
    stored: int = 0
    rejected: tuple[str, ...] = ()
    rejected_count: int = 0
    visit: Visit | None = None


class Retry(msgspec.Struct, frozen=True):
    """The attempt failed in a way that another one may mend, not before ``due_at``.

    ``reason`` and ``answer`` are as in :class:`Dead`, the answer without its sample.
    """

    due_at: datetime
    error: str
    reason: str = ""
    answer: Answer | None = None


class Dead(msgspec.Struct, frozen=True):
    """The request is given up on; ``error`` says why in words.

    ``reason`` is the class of the error by which dead letters are found, such as ``PageGone``;
    ``answer`` the site's last one, if there was any.
    """

    error: str
    reason: str = ""
    answer: Answer | None = None


Outcome: TypeAlias = Done | Retry | Dead


class Settled(msgspec.Struct, frozen=True):
    """What became of outcomes that were to be written.

    Of ``lost`` requests another has the lease, so nothing was written. ``buried`` are those that
    were done with records that the store cannot hold: they have ended so instead.
    """

    lost: set[RequestId]
    buried: dict[RequestId, Dead] = {}
