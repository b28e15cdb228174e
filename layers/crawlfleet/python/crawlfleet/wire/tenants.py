"""Tenants as operators manage them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from crawlfleet.wire.fleet import CeilingUse
from crawlfleet.wire.quotas import QuotaState


class TenantSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant in a list: what it may, what it has, and what it does now.

    One that is ``managed`` keeps its keys and its suspension whatever files are pushed. Until a
    change is ``in_force`` the earlier document holds. The next of its replaced keys ends at
    ``key_ends_at``.
    """

    name: str
    managed: bool = False
    suspended: bool = False
    operator: bool = False
    in_force: bool = True
    bizs: int = 0
    keys: int = 0
    share: int = 1
    workers: int | None = None
    ready: int = 0
    in_flight: int = 0
    key_ends_at: datetime | None = None
    removing_since: datetime | None = None


class KeyLeftover(msgspec.Struct, frozen=True, kw_only=True):
    """A key of a tenant that no document has: whoever made it died. It opens nothing."""

    tenant: str
    key: str
    made_at: datetime


class TenantsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The tenants of the stage, and what calls that died have left."""

    tenants: tuple[TenantSummary, ...] = ()
    leftovers: tuple[KeyLeftover, ...] = ()


class TenantKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key of a tenant, by its id; one that another replaces is valid until ``ends_at``."""

    id: str
    ends_at: datetime | None = None


class TenantDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant with its settings, as its document has them, and how much of each limit is used.

    ``revision`` names this state of it: a change that is made for it is refused once there is
    another one. A change is in force within seconds, ``in_force_seconds`` at most.
    """

    name: str
    revision: str
    managed: bool = False
    suspended: bool = False
    operator: bool = False
    in_force: bool = True
    in_force_seconds: int = 0
    bizs: tuple[str, ...] = ()
    keys: tuple[TenantKey, ...] = ()
    settings: Mapping[str, Any] = {}
    part: float = 0.0
    ready: int = 0
    in_flight: int = 0
    ceilings: tuple[CeilingUse, ...] = ()
    quotas: tuple[QuotaState, ...] = ()


class TenantWithKey(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant, and its new key. The key is in this answer alone: nobody can read it again."""

    tenant: TenantDetails
    key: str

    def __repr__(self) -> str:
        return f"TenantWithKey(tenant={self.tenant!r}, key=<api key>)"


class TenantBiz(msgspec.Struct, frozen=True, kw_only=True):
    """A biz of a tenant, with its ``document`` as it was pushed."""

    tenant: str
    biz: str
    document: Mapping[str, Any] = {}


class StoreCount(msgspec.Struct, frozen=True, kw_only=True):
    """The number of things of one kind that a store has of a tenant."""

    store: str
    kind: str
    count: int


class TenantInventory(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of what the stores have of a tenant, or of a name that is no tenant's any more."""

    tenant: str
    counts: tuple[StoreCount, ...] = ()


class TenantRemoval(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant's removal as it stands.

    ``state`` is ``settling``, ``settled`` (it may be exported, resumed, or deleted), ``withdrawn``,
    ``deleting`` or ``removed``. The next step is due at ``due_at``; ``in_flight`` requests hold it
    up. ``before`` is what there was when deletion began, ``left`` what there is now, ``remains``
    what a removal leaves by design.
    """

    tenant: str
    state: str
    due_at: datetime | None = None
    in_flight: int = 0
    before: tuple[StoreCount, ...] = ()
    left: tuple[StoreCount, ...] = ()
    remains: tuple[str, ...] = ()
