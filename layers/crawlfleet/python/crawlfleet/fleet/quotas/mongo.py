"""The ceilings of accounts, in the control database: what outlives Redis (SPEC.md D9).

One document an account and period, ``{_id: tenant/path, nonce, given, expires_at}``. The ledger of
that nonce may have granted up to ``given`` since the account began, and no more: whoever begins
another one counts all of it as used.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from pymongo import IndexModel
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from crawlfleet.fleet.quotas.models import Limit, Scope, Window
from crawlfleet.kernel.mongo import connection

#: How long a period, and a job's account, can be read after it was last raised or has ended.
_LIFE: Final = timedelta(days=40)


class Ceiling(NamedTuple):
    """The ledger that an account has, by its nonce, and how much it may have granted."""

    nonce: str
    given: int


class MongoCeilings:
    """The ceilings of all tenants' accounts."""

    def __init__(self, nodes: connection.MongoNodes) -> None:
        self._nodes = nodes
        self._is_indexed = False

    def open(self, limit: Limit, window: Window, fresh: str, stale: str, now: datetime) -> Ceiling:
        """Have the account's ledger be the ``fresh`` one; return the one that it has then.

        That is another one where somebody has begun it meanwhile. What has a ``stale`` one, or is
        "" as Redis knows of none, gets a fresh one; of one that was granted nothing none is lost.
        """
        (standing,) = self.read([(limit, window)])
        key, expires_at = _key(limit, window), _expiry(limit, window, now)
        if standing is None:
            first = {"$setOnInsert": {"nonce": fresh, "given": 0, "expires_at": expires_at}}
            with connection.border(), suppress(DuplicateKeyError):  # another one's, just now
                self._at().update_one({"_id": key}, first, upsert=True)
        elif standing.nonce == stale or (not stale and standing.given):
            match = {"_id": key, "nonce": standing.nonce}
            change = {"$set": {"nonce": fresh, "expires_at": expires_at}}
            with connection.border():
                self._at().update_one(match, change)
        else:
            return standing
        (standing,) = self.read([(limit, window)])
        # It is removed by its TTL alone, which is far away.
        return standing or Ceiling(fresh, 0)

    def raise_to(
        self, limit: Limit, window: Window, known: Ceiling, given: int, now: datetime
    ) -> bool:
        """Raise the ceiling, if it is still the ``known`` one; False if not."""
        match = {"_id": _key(limit, window), "nonce": known.nonce, "given": known.given}
        change = {"$set": {"given": given, "expires_at": _expiry(limit, window, now)}}
        with connection.border():
            return self._at().update_one(match, change).matched_count == 1

    def read(self, accounts: Sequence[tuple[Limit, Window]]) -> list[Ceiling | None]:
        """Read ceilings; None of accounts that nothing was ever granted of."""
        keys = [_key(limit, window) for limit, window in accounts]
        with connection.border():
            found = {one["_id"]: one for one in self._at().find({"_id": {"$in": keys}})}
        return [
            Ceiling(found[key]["nonce"], found[key]["given"]) if key in found else None
            for key in keys
        ]

    def _at(self) -> Collection[connection.Document]:
        if not self._is_indexed:
            ttl = IndexModel(["expires_at"], name="ttl", expireAfterSeconds=0)
            self._nodes.control("quotas").create_indexes([ttl])
            self._is_indexed = True
        return self._nodes.control("quotas")


def _key(limit: Limit, window: Window) -> str:
    return f"{limit.account.tenant}/{limit.account.path(window)}"


def _expiry(limit: Limit, window: Window, now: datetime) -> datetime | None:
    """Return when the account may be forgotten; never that of an owner's whole life."""
    if window.ends_at is not None:
        return window.ends_at + _LIFE
    return now + _LIFE if limit.account.scope is Scope.JOB else None
