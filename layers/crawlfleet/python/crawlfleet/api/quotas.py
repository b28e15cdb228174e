"""Quotas in the API: what they are, how much is used, when it goes on (SPEC.md D9)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
from aws_lambda_powertools.event_handler import Response

from crawlfleet.api.inputs import job_in
from crawlfleet.api.responses import at, filled, shown
from crawlfleet.api.routing import JOB, Call, Parameter, Routes
from crawlfleet.config.documents.quota import (
    AtLimit,
    Quota,
    QuotaUnit,
    UserName,
    nano_dollars,
    stated,
    written,
)
from crawlfleet.config.lookup import biz_of
from crawlfleet.fleet.quotas.models import (
    NO_TERMS,
    JobTerms,
    Limit,
    Scope,
    Standing,
    described,
    for_biz,
    for_tenant,
    limits_of,
    limits_of_tenant,
    stated_limits,
)
from crawlfleet.kernel.errors import (
    InvalidRequestError,
    NotFoundError,
    QuotaExceededError,
    StoreUnavailableError,
)
from crawlfleet.kernel.log import warn
from crawlfleet.wire.costs import Band
from crawlfleet.wire.quotas import QuotasAnswer, QuotaState

#: Users whose quotas are listed with their tenant's, at most.
USERS_SHOWN: Final = 200

_USER: Final = Parameter(
    name="user",
    meaning="Also those of this user of the tenant.",
    shape={"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"},
)

#: Whom work is for: a user, and a job that it is submitted under.
Owner: TypeAlias = tuple[str | None, str | None]

ROUTES: Final = Routes()


def quota_view(standing: Standing) -> QuotaState:
    """Shape a quota."""
    limit, ends_at = standing.limit, standing.window.ends_at
    amounts = {
        name: stated(limit.quota.unit, getattr(standing, name))
        for name in ("used", "held", "in_doubt", "left")
    }
    return filled(
        QuotaState,
        standing,
        **amounts,
        **msgspec.structs.asdict(limit.quota),
        scope=limit.account.scope.value,
        owner=limit.account.owner,
        field=limit.field,
        used_up=standing.is_used_up,
        ends_at=None if ends_at is None else at(ends_at),
    )


@ROUTES.add("GET", "/v1/quotas", QuotasAnswer, parameters=(_USER,))
def list_quotas(call: Call) -> Response[str]:
    """List the quotas of the tenant, its users and its bizs, and how much of each is used.

    With a user those of the tenant and of that user alone.
    """
    user = _user_in(call.query.get("user"))
    if user is None:
        return _shown(call, limits_of_tenant(call.tree, call.tenant, USERS_SHOWN))
    return _shown(call, stated_limits(call.tree, call.tenant, None, user))


@ROUTES.add("GET", "/v1/{biz}/quotas", QuotasAnswer, parameters=(_USER, JOB))
def list_quotas_of_biz(call: Call, biz: str) -> Response[str]:
    """List the quotas that work of a biz is under: of its tenant, a user, the biz, a job."""
    biz_of(call.tree, call.tenant, biz)
    user, job = _user_in(call.query.get("user")), job_in(call.query.get("job"))
    terms: JobTerms | None = NO_TERMS
    if job is not None:
        terms = call.context.jobs.starter.jobs.quota_terms(call.tenant, biz, job)
        if terms is None:
            raise NotFoundError(f"there is no job {job!r}")
    return _shown(call, stated_limits(call.tree, call.tenant, biz, user, job, terms or NO_TERMS))


def _shown(call: Call, limits: Sequence[Limit]) -> Response[str]:
    standings = call.context.quotas.standings(limits, call.now)
    views = tuple(quota_view(for_tenant(standing, call.tree)) for standing in standings)
    return shown(200, QuotasAnswer(quotas=views))


def _user_in(text: str | None) -> str | None:
    try:
        return None if text is None else msgspec.convert(text, UserName)
    except msgspec.ValidationError:
        said = "must be up to 64 letters, digits, ., _, @ and -, a letter or a digit first"
        raise InvalidRequestError.of("user", said) from None


def budgets_reached(
    call: Call, biz: str, user: str | None, quotas: Sequence[Quota], usd: Band
) -> tuple[str, ...]:
    """Say which quotas of money a forecast run reaches; nothing while they cannot be read."""
    limits = [
        one
        for one in limits_of(call.tree, call.tenant, biz, user, "", JobTerms(quotas=tuple(quotas)))
        if one.quota.unit is QuotaUnit.USD
    ]
    own = [one for one in limits if one.account.scope is Scope.JOB]
    try:
        others = [one for one in limits if one not in own]
        found = call.context.quotas.standings(others, call.now)
    except StoreUnavailableError as error:
        warn("forecast without knowing how much of budgets is used", error)
        found = []
    left = [(one.limit, one.left) for one in found] + [(one, one.quota.amount) for one in own]
    said = []
    for limit, amount in left:
        if nano_dollars(usd.high) <= amount:
            continue
        how = "is likely to reach" if nano_dollars(usd.likely) > amount else "may reach"
        whose = "its own budget" if limit in own else f"the budget of {limit.account.owner}"
        rest, most = written(QuotaUnit.USD, amount), written(QuotaUnit.USD, limit.quota.amount)
        said.append(f"it {how} {whose}: {rest} of {most} are left ({limit.field})")
    return tuple(said)


def must_have_room(call: Call, biz: str, owners: Iterable[Owner]) -> bool:
    """Pass work that no limit ends at once; return whether any may begin, or all has to wait.

    While that cannot be known there is room.

    Raises:
        QuotaExceededError: a limit that ends work is used up; says which, and when it goes on.
    """
    owners = set(owners)
    names = {job for _, job in owners if job is not None}
    terms: Mapping[str, JobTerms] = {}
    try:
        if names:
            terms = call.context.jobs.starter.jobs.quota_terms_of(call.tenant, biz, sorted(names))
        each = [
            limits_of(call.tree, call.tenant, biz, user, job, terms.get(job or "", NO_TERMS))
            for user, job in owners
        ]
        limits = list(dict.fromkeys(limit for own in each for limit in own))
        if not limits:
            return True
        found = call.context.quotas.standings(limits, call.now)
    except StoreUnavailableError as error:
        warn("admitted without knowing how much of a quota is used", error)
        return True
    own_biz = biz_of(call.tree, call.tenant, biz)[1]
    standings = [for_biz(one, call.tree.stage, own_biz) for one in found]
    used_up = [standing for standing in standings if standing.is_used_up]
    for standing in used_up:
        if standing.limit.quota.at_limit is AtLimit.END:
            raise QuotaExceededError(described(standing))
    closed = {standing.limit for standing in used_up}
    return any(closed.isdisjoint(own) for own in each)
