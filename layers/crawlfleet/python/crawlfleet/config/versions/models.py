"""Versions of the configuration and what they change, document by document.

A version is a revision that stood in the config centre. What it changes is kept beside it; a
document at some version is its latest change up to there. Changes belong to the tenant whose
document it is, or to the stage: so a tenant is shown its own ones, and they go with it.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final

import msgspec

from crawlfleet.config.documents.biz import Tenant
from crawlfleet.config.parameters import REVISION_TIME, made_at
from crawlfleet.config.publishing import compact
from crawlfleet.kernel.names import CONFIG_STAGE, CONFIG_TENANTS
from crawlfleet.kernel.validation import decode

#: Paths that a listed version names; it says how many there are.
MOST_PATHS: Final = 100


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """The author of a version, by tenant and API key id, and why it was made.

    All are empty of a revision that was pushed past the API.
    """

    by: str = ""
    key: str = ""
    why: str = ""
    rolled_back_to: str = ""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A document that a version changes: its text, or None where it goes."""

    path: str
    text: str | None


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """A version of the configuration; ``paths`` are the first of the documents that it changes."""

    revision: str
    at: datetime
    note: Note
    paths: tuple[str, ...] = ()
    changes: int = 0


def owner_of(path: str) -> str:
    """Return the tenant that a document belongs to; none of the stage's.

    >>> owner_of("stage"), owner_of("tenants/acme"), owner_of("bizs/acme/shop")
    ('', 'acme', 'acme')
    """
    return "" if path == CONFIG_STAGE else path.split("/")[1]


def digest_of(text: str | None) -> str:
    """Return what tells a document's text from another one; nothing where there is none."""
    return "" if text is None else blake2b(compact(text).encode(), digest_size=12).hexdigest()


def order_of(revision: str, now: datetime) -> str:
    """Return what puts versions in order: when the revision was made, as far as its name tells.

    >>> order_of("20260301T120000.007Z-ab", datetime(2030, 1, 1, tzinfo=UTC))
    '20260301T120000.007Z-ab'
    >>> order_of("mine", datetime(2030, 1, 1, tzinfo=UTC))
    '20300101T000000.000Z-mine'
    """
    if made_at(revision) is not None:
        return revision
    return f"{now.astimezone(UTC).strftime(REVISION_TIME)[:-3]}Z-{revision}"


def moment_of(order: str) -> datetime:
    """Return when a version was made.

    >>> moment_of("20260301T120000.007Z-ab").isoformat()
    '2026-03-01T12:00:00.007000+00:00'
    """
    moment = made_at(order)
    if moment is None:
        raise ValueError(order)
    return moment


def changes_between(known: Mapping[str, str], documents: Mapping[str, str]) -> list[Change]:
    """Find what changes from documents that are ``known`` by their digests to other ones, by path.

    Of a tenant that is being removed for good nothing is kept any more.

    >>> changes_between({"stage": digest_of("{}"), "tenants/a": "0"}, {"stage": "{ }"})
    [Change(path='tenants/a', text=None)]
    """
    leaving = set(_leaving(documents.items()))
    paths = sorted(known.keys() | documents.keys())
    return [
        Change(path=path, text=documents.get(path))
        for path in paths
        if owner_of(path) not in leaving and known.get(path, "") != digest_of(documents.get(path))
    ]


def _leaving(documents: Iterable[tuple[str, str]]) -> Iterable[str]:
    for path, text in documents:
        if not path.startswith(f"{CONFIG_TENANTS}/") or '"removing"' not in text:
            continue
        tenant = decode(text, Tenant)[0]
        if tenant is not None and tenant.removing and tenant.removing.withdrawn_at:
            yield owner_of(path)
