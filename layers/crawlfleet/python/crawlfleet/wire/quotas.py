"""Quotas, and how much of them is used."""

from datetime import datetime

import msgspec


class OwnQuota(msgspec.Struct, frozen=True, kw_only=True):
    """A quota as a job states it: ``most`` of a ``unit`` by ``day``, by ``month`` or in ``all``.

    Of ``usd`` it is in US dollars.
    """

    unit: str
    most: int | float
    per: str = "all"
    at_limit: str = "wait"


class QuotaState(msgspec.Struct, frozen=True, kw_only=True):
    """One quota in its present period.

    ``scope`` is tenant, user, biz or job, ``owner`` says whose it is and ``field`` where it is
    said. Of ``most`` of the ``unit`` so many are ``used``; workers hold shares of ``held``, of
    which those ``in_doubt`` were of workers that died, and count as used. ``used_up`` says that
    nothing can begin under it: at ``ends_at`` another period begins, null where there is none.
    Amounts of ``usd`` are US dollars.
    """

    scope: str
    owner: str
    field: str
    unit: str
    per: str
    at_limit: str
    most: int | float
    used: int | float = 0
    held: int | float = 0
    in_doubt: int | float = 0
    left: int | float = 0
    used_up: bool = False
    ends_at: datetime | None = None


class QuotasAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The quotas of a tenant, or those that some work of its is under."""

    quotas: tuple[QuotaState, ...] = ()
