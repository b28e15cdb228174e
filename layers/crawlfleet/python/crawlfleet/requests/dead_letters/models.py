"""Filters and pages of dead letters."""

import re
from datetime import datetime
from typing import Final
from urllib.parse import urlsplit

import msgspec

from crawlfleet.requests.models import Tracked

#: A name, of any script, or an address.
_HOST: Final = re.compile(r"(?=.*\w)[\w.:%-]+\Z")


class DeadLetterFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Select dead letters; all that is given must hold.

    ``reason`` is the error's class, such as ``PageGone``; ``host`` that of the request's URL (not
    of where redirects led); ``text`` stands somewhere in the error or in the URL, to the letter.
    ``status`` is the one that the site answered. ``since`` and ``until`` bound the time of
    queueing: from the first on, before the second.
    """

    reason: str | None = None
    status: int | None = None
    rule: str | None = None
    host: str | None = None
    job: str | None = None
    text: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class DeadLetterPage(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters of one search, oldest first, and how far it came.

    ``reached`` is the position ``(ts, id)`` that the next search begins at; None: that was all. A
    search that was cut short may have found none.
    """

    dead_letters: tuple[Tracked, ...] = ()
    reached: tuple[int, str] | None = None


def host_named(text: str) -> str | None:
    """Return the host in what people write for one; None where there is none.

    >>> host_named("Shop.Example:8443"), host_named("https://shop.example/a"), host_named("::1")
    ('shop.example', 'shop.example', '::1')
    >>> host_named("shop example") is host_named("https://") is host_named("a:b") is None
    True
    """
    given = text.strip()
    if "://" not in given:
        alone = given.count(":") > 1 and not given.startswith("[")  # an address of IPv6
        given = f"//[{given}]" if alone else f"//{given}"
    try:
        parts = urlsplit(given)
        host = parts.hostname or ""
        _ = parts.port  # a wrong one is found only when it is asked for
    except ValueError:
        return None
    return host if _HOST.match(host) else None
