"""Which dead letters are meant."""

from datetime import datetime

import msgspec


class LetterFilter(msgspec.Struct, frozen=True, kw_only=True):
    """All that is given must hold.

    ``reason`` is the error's class, such as ``PageGone``; ``host`` that of the request's URL;
    ``text`` stands somewhere in the error. ``since`` and ``until`` are about when it was queued.
    """

    reason: str | None = None
    status: int | None = None
    rule: str | None = None
    host: str | None = None
    job: str | None = None
    text: str | None = None
    since: datetime | None = None
    until: datetime | None = None
