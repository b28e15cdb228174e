"""Explain by which limits a request waits: its quotas, and its tenant's share (SPEC.md D9, C7)."""

from dataclasses import dataclass
from datetime import datetime

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.documents.quota import stated
from crawlfleet.config.lookup import biz_of
from crawlfleet.fleet.quotas.models import NO_TERMS, Standing, Terms, for_biz, limits_of
from crawlfleet.fleet.quotas.service import QuotaLedgers
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.log import warn
from crawlfleet.monitoring.shares import TenantShares
from crawlfleet.requests.models import Request

#: What facts are made of.
Fact = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class QuotaExplainer:
    """Finds the quotas that are used up, of a request's tenant, user, biz and job."""

    ledgers: QuotaLedgers
    terms: Terms

    def used_up(self, tree: Tree, request: Request, now: datetime) -> tuple[Standing, ...]:
        """Find the quotas that keep a request waiting; none where the stores do not answer."""
        tenant, biz, job = request.tenant, request.biz, request.job
        try:
            terms = None if job is None else self.terms(tenant, biz, job)
            limits = limits_of(tree, tenant, biz, request.user, job, terms or NO_TERMS)
            standings = self.ledgers.standings(limits, now)
        except StoreUnavailableError as error:
            warn("how much of quotas is used could not be asked", error)
            return ()
        own = biz_of(tree, tenant, biz)[1]
        return tuple(one for one in standings if for_biz(one, tree.stage, own).is_used_up)


def facts_of(standing: Standing) -> dict[str, Fact]:
    """Return the facts of a quota that is used up, for programs."""
    limit, ends_at = standing.limit, standing.window.ends_at
    return {
        "quota": limit.field,
        "quota_of": limit.account.owner,
        "quota_unit": limit.quota.unit.value,
        "quota_most": limit.quota.most,
        "quota_used": stated(limit.quota.unit, standing.used),
        "quota_until": None if ends_at is None else f"{ends_at:%Y-%m-%dT%H:%M:%SZ}",
    }


def said_of_share(
    shares: TenantShares, tree: Tree, tenant: str, now: datetime, facts: dict[str, Fact]
) -> str:
    """Say what its tenant may have, where that keeps it waiting; nothing where Redis is away."""
    try:
        own = shares.of(tree, tenant, now)
    except StoreUnavailableError as error:
        warn("the shares of tenants are not known", error)
        return ""
    facts |= {"tenant_in_flight": own.in_flight, "tenant_part": round(own.part, 4)}
    if reached := [one for one in own.ceilings if one.is_reached]:
        facts["tenant_limit"] = reached[0].limit
        return f"; waiting for its tenant's ceiling: it has {' and '.join(map(str, reached))}"
    said = ""
    if own.part < 1:
        said = (
            f"; other tenants have work too: its own has {own.part:.0%} of what workers can do, "
            f"{own.in_flight:,} in flight now"
        )
    for one in own.ceilings:
        if one.limit == "ceilings.leases_per_second" and one.allowed is not None:
            said += f"; of its tenant {one.allowed:g} a second begin at most ({one.limit})"
    return said
