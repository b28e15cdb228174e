"""Decide what a tenant may change of its own bizs: nothing that costs others.

Documents of the stage and of tenants are operators', and which bizs there are. Of a biz a tenant
changes what reads its pages and when they are read again; it may be more polite than it is, and
never less.
"""

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Final

from crawlfleet.config.documents.biz import Biz
from crawlfleet.config.documents.policies import Politeness, Robots
from crawlfleet.config.loading import placed, shape_of
from crawlfleet.config.versions.models import owner_of
from crawlfleet.kernel.errors import Problem
from crawlfleet.kernel.validation import decode


class May(Enum):
    """The right to change a field: the tenant's, operators', the tenant's to be stricter."""

    TENANT = auto()
    STRICTER = auto()
    OPERATOR = auto()


#: Each field of a biz. Of a new one somebody has to say what it costs others.
FIELDS: Final[Mapping[str, May]] = {
    **dict.fromkeys(("description", "rules", "spiders", "recrawl"), May.TENANT),
    **dict.fromkeys(("states", "transitions"), May.TENANT),
    "politeness": May.STRICTER,
    # Where and how long things are stored.
    **dict.fromkeys(("queue", "collection", "generations", "id_kind"), May.OPERATOR),
    **dict.fromkeys(("ttl_seconds", "expiry_grace_seconds", "records_ttl_seconds"), May.OPERATOR),
    **dict.fromkeys(("seeds", "intake", "open_jobs"), May.OPERATOR),
    # What it has beside others, and what sites are asked as.
    **dict.fromkeys(("needs", "quotas", "weight", "ageing", "fetch", "retry"), May.OPERATOR),
    # What operators are woken by, and traces that they pay for.
    **dict.fromkeys(("planned_seconds", "thresholds", "trace_share"), May.OPERATOR),
}


def refusals(tenant: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Problem]:
    """Find what a tenant may not change of documents, each valid, by path before and after."""
    for path in sorted(before.keys() | after.keys()):
        if shape_of(path) is not Biz or owner_of(path) != tenant:
            yield Problem(path, "may be changed by operators alone")
            continue
        old, new = (decode(texts.get(path, ""), Biz)[0] for texts in (before, after))
        if old is None or new is None:
            yield Problem(path, "may be added, removed and mended by operators alone")
            continue
        yield from placed(path, list(_of_biz(old, new)))


def _of_biz(old: Biz, new: Biz) -> Iterator[Problem]:
    for field in Biz.__struct_fields__:
        if getattr(old, field) == getattr(new, field):
            continue
        if (may := FIELDS[field]) is May.OPERATOR:
            yield Problem(field, "may be changed by operators alone")
        elif may is May.STRICTER:
            yield from _looser(old.politeness, new.politeness)


def _looser(old: Politeness, new: Politeness) -> Iterator[Problem]:
    if old.product != new.product:
        yield Problem("politeness.product", "may be changed by operators alone")
    if new.robots is Robots.IGNORE and old.robots is not Robots.IGNORE:
        yield Problem("politeness.robots", "may be changed to ignore by operators alone")
    for field in ("per_second", "concurrency"):
        was, wanted = getattr(old, field), getattr(new, field)
        if was is not None and (wanted is None or wanted > was):
            said = f"may be lowered alone, from {was:g}; operators may raise it"
            yield Problem(f"politeness.{field}", said)
