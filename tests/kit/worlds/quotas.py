"""A tenant with quotas, and workers that hold shares of one."""

from datetime import datetime

from msgspec.structs import replace

from tests.kit.config import Tenant, Tree
from tests.kit.kernel import QueueKey
from tests.kit.quotas import (
    Account,
    Ask,
    Booked,
    Limit,
    Quota,
    QuotaLedgers,
    QuotaPeriod,
    QuotaUnit,
    Scope,
    Wish,
    window_of,
)


def limited(tree: Tree, tenant: str = "default", **quotas: object) -> Tree:
    """The tree with these fields in the tenant's document."""
    document = replace(tree.tenants.get(tenant, Tenant()), **quotas)
    return replace(tree, tenants={**tree.tenants, tenant: document})


def a_limit(
    most: int, per: QuotaPeriod = QuotaPeriod.ALL, tenant: str = "acme", biz: str = "docs"
) -> Limit:
    """A quota of requests of a biz."""
    quota = Quota(unit=QuotaUnit.REQUESTS, most=most, per=per)
    return Limit(Account(tenant, Scope.BIZ, biz, quota.unit, per), quota, "quotas[0]")


def hold_a_share(
    ledgers: QuotaLedgers,
    queue_key: QueueKey,
    now: datetime,
    holder: str = "a",
    most: int = 1_000,
    wanted: int = 10,
    spent: int = 0,
    limit: Limit | None = None,
) -> Booked:
    """Hold a share of a quota of a biz, or spend it: open, raise the ceiling, be granted, tell.

    The quota is of ``most`` requests in all, unless it is given as ``limit``.
    """
    nonce = ""
    if limit is None:
        limit = a_limit(most, tenant=queue_key.tenant, biz=queue_key.biz)
    found = Booked()
    for number in range(1, 10):
        is_last = number == 9 and spent
        told, left = (spent, 0) if is_last else (0, wanted)
        ask = Ask(number=number, spent=told, keep=0, wanted=left, least=1)
        wish = Wish(limit, window_of(limit.quota.per, now), nonce, ask)
        [(nonce, booked)] = ledgers.exchange(holder, [wish], now)
        found = booked or found
    return found
