"""Tenants in the API, for operators: add, list, show, change, suspend, remove; other keys."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Final

import msgspec
from aws_lambda_powertools.event_handler import Response
from msgspec import Meta

from crawlfleet.api.fleet import share_view
from crawlfleet.api.inputs import read, read_or
from crawlfleet.api.quotas import USERS_SHOWN, quota_view
from crawlfleet.api.responses import at, shown
from crawlfleet.api.routing import Call, Routes
from crawlfleet.config.documents.biz import Tenant
from crawlfleet.config.lookup import must_operate, operates
from crawlfleet.fleet.quotas.models import for_tenant, limits_of_tenant
from crawlfleet.kernel.errors import NotFoundError
from crawlfleet.kernel.names import CONFIG_BIZS, DEFAULT_TENANT
from crawlfleet.kernel.validation import decode
from crawlfleet.tenancy.models import MOST_OVERLAP, OVERLAP, Standing, standing_of, tenants_in
from crawlfleet.tenancy.removal import REMAINS
from crawlfleet.tenancy.service import IN_FORCE_SECONDS
from crawlfleet.wire.tenants import (
    KeyLeftover,
    TenantBiz,
    TenantDetails,
    TenantInventory,
    TenantKey,
    TenantRemoval,
    TenantsAnswer,
    TenantSummary,
    TenantWithKey,
)

Revision = Annotated[str, Meta(min_length=1, max_length=64)]


class TenantInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tenant that is to be there, with the settings that a document of it may have."""

    name: Annotated[str, Meta(min_length=1, max_length=64)]
    settings: dict[str, Any] = {}


class TenantChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that are merged into a tenant's (RFC 7396); what is null goes.

    With a ``revision`` they are refused where the tenant has another one by now.
    """

    settings: dict[str, Any]
    revision: Revision | None = None


class TenantSwitch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The revision that a tenant must have."""

    revision: Revision | None = None


class KeyRotation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The time for which a tenant's keys stay valid beside the new one; 0 ends them at once."""

    overlap_seconds: Annotated[int, Meta(ge=0, le=MOST_OVERLAP // timedelta(seconds=1))] = (
        OVERLAP // timedelta(seconds=1)
    )
    revision: Revision | None = None


class TenantRemovalInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step of a removal: `delete` has what has settled deleted; the tenant has the revision."""

    delete: bool = False
    revision: Revision | None = None


ROUTES: Final = Routes()


@ROUTES.add("GET", "/v1/fleet/tenants", TenantsAnswer)
def list_tenants(call: Call) -> Response[str]:
    """List the tenants, and what they do now. Operators only."""
    must_operate(call.tree, call.tenant)
    documents = call.context.tenants.documents()
    ready, in_flight = call.context.shares.at_work(call.tree, call.now)
    summaries = []
    for name, standing in sorted(_all(documents).items()):
        document, keys = standing.document, _keys(call, standing)
        removing = document.removing
        summaries.append(
            TenantSummary(
                name=name,
                managed=document.managed,
                suspended=document.suspended,
                operator=operates(call.tree, name),
                in_force=_in_force(call, standing),
                bizs=len(standing.bizs),
                keys=len(keys),
                share=document.share,
                workers=None if document.needs is None else document.needs.workers,
                ready=ready[name],
                in_flight=in_flight[name],
                key_ends_at=min((key.ends_at for key in keys if key.ends_at), default=None),
                removing_since=None if removing is None else at(removing.since),
            )
        )
    left = tuple(
        KeyLeftover(tenant=one.tenant, key=one.id, made_at=at(one.made_at))
        for one in call.context.tenants.leftovers(documents, call.now)
    )
    return shown(200, TenantsAnswer(tenants=tuple(summaries), leftovers=left))


@ROUTES.add(
    "POST", "/v1/fleet/tenants", {201: TenantWithKey}, problems=(409, 413), body=(TenantInput,)
)
def add_tenant(call: Call) -> Response[str]:
    """Add a tenant; the answer has its key, which nobody can read again. Operators only."""
    must_operate(call.tree, call.tenant)
    given = read(call.body, TenantInput)
    standing, key = call.context.tenants.add(given.name, given.settings, call.now)
    return shown(201, TenantWithKey(tenant=_details(call, standing), key=key.key))


@ROUTES.add("GET", "/v1/fleet/tenants/{tenant}", TenantDetails, problems=(404,))
def get_tenant(call: Call, tenant: str) -> Response[str]:
    """Get a tenant: its settings, keys and bizs, and how much of its limits is used.

    Operators only.
    """
    must_operate(call.tree, call.tenant)
    documents = call.context.tenants.documents()
    standing = _all(documents).get(tenant) or standing_of(documents, tenant)
    return shown(200, _details(call, standing))


@ROUTES.add(
    "PATCH",
    "/v1/fleet/tenants/{tenant}",
    TenantDetails,
    problems=(404, 409, 413),
    body=(TenantChange,),
)
def set_tenant(call: Call, tenant: str) -> Response[str]:
    """Change settings of a tenant. Operators only."""
    must_operate(call.tree, call.tenant)
    given = read(call.body, TenantChange)
    changed = call.context.tenants.set(tenant, given.settings, given.revision, call.now)
    return shown(200, _details(call, changed))


@ROUTES.add(
    "POST",
    "/v1/fleet/tenants/{tenant}/suspend",
    TenantDetails,
    problems=(404, 409, 413),
    body=(TenantSwitch,),
    body_required=False,
)
def suspend_tenant(call: Call, tenant: str) -> Response[str]:
    """Suspend a tenant: nothing of it is taken, started or leased. Operators only."""
    return _switched(call, tenant, suspended=True)


@ROUTES.add(
    "POST",
    "/v1/fleet/tenants/{tenant}/resume",
    TenantDetails,
    problems=(404, 409, 413),
    body=(TenantSwitch,),
    body_required=False,
)
def resume_tenant(call: Call, tenant: str) -> Response[str]:
    """Have a suspended tenant go on where it stood. Operators only."""
    return _switched(call, tenant, suspended=False)


@ROUTES.add(
    "POST",
    "/v1/fleet/tenants/{tenant}/rotate-key",
    TenantWithKey,
    problems=(404, 409, 413),
    body=(KeyRotation,),
    body_required=False,
)
def rotate_tenant_key(call: Call, tenant: str) -> Response[str]:
    """Give a tenant another key, which nobody can read again; the earlier ones end after a while.

    Operators only.
    """
    must_operate(call.tree, call.tenant)
    given = read_or(KeyRotation(), call.body)
    standing, key = call.context.tenants.rotate(
        tenant, timedelta(seconds=given.overlap_seconds), given.revision, call.now
    )
    return shown(200, TenantWithKey(tenant=_details(call, standing), key=key.key))


@ROUTES.add("GET", "/v1/fleet/tenants/{tenant}/bizs/{biz}", TenantBiz, problems=(404,))
def get_biz_of_tenant(call: Call, tenant: str, biz: str) -> Response[str]:
    """Get the document of a tenant's biz as it was pushed. Operators only."""
    must_operate(call.tree, call.tenant)
    text = call.context.tenants.documents().get(f"{CONFIG_BIZS}/{tenant}/{biz}")
    document = None if text is None else decode(text, dict[str, Any])[0]
    if document is None:
        raise NotFoundError(f"the tenant {tenant[:64]!r} has no document of a biz {biz[:64]!r}")
    return shown(200, TenantBiz(tenant=tenant, biz=biz, document=document))


@ROUTES.add("GET", "/v1/fleet/tenants/{tenant}/inventory", TenantInventory, problems=(404,))
def get_tenant_inventory(call: Call, tenant: str) -> Response[str]:
    """Count what the stores have of a tenant, or of a removed one's name. Operators only."""
    must_operate(call.tree, call.tenant)
    found = call.context.removals.counts(call.tree, tenant)
    return shown(200, TenantInventory(tenant=tenant, counts=found))


@ROUTES.add(
    "POST",
    "/v1/fleet/tenants/{tenant}/remove",
    TenantRemoval,
    problems=(404, 409, 413),
    body=(TenantRemovalInput,),
    body_required=False,
)
def remove_tenant(call: Call, tenant: str) -> Response[str]:
    """Begin to remove a tenant, or go on with it: repeat the call until it is `removed`.

    It is suspended first. Once nothing of it can be worked on, it is `settled`: then `delete` has
    all of it deleted, which cannot be undone. Operators only.
    """
    must_operate(call.tree, call.tenant)
    given = read_or(TenantRemovalInput(), call.body)
    found = call.context.removals.advance(
        call.tree,
        tenant,
        call.now,
        in_flight=lambda: call.context.shares.at_work(call.tree, call.now)[1][tenant],
        delete=given.delete,
        expected=given.revision,
    )
    removal = TenantRemoval(
        tenant=tenant,
        state=found.state.value,
        due_at=None if found.due_at is None else at(found.due_at),
        in_flight=found.in_flight,
        before=found.before,
        left=found.left,
        remains=REMAINS,
    )
    return shown(200, removal)


def _switched(call: Call, tenant: str, *, suspended: bool) -> Response[str]:
    must_operate(call.tree, call.tenant)
    given = read_or(TenantSwitch(), call.body)
    standing = call.context.tenants.suspend(
        call.tree, tenant, given.revision, call.now, suspended=suspended
    )
    return shown(200, _details(call, standing))


def _all(documents: Mapping[str, str]) -> dict[str, Standing]:
    """Read all tenants, the default one too, which needs no document."""
    found = tenants_in(documents)
    if DEFAULT_TENANT not in found:
        found |= tenants_in({f"tenants/{DEFAULT_TENANT}": "{}", **documents})
    return found


def _in_force(call: Call, standing: Standing) -> bool:
    return call.tree.tenants.get(standing.name) == standing.document


def _keys(call: Call, standing: Standing) -> tuple[TenantKey, ...]:
    document, default = standing.document, call.context.settings.default_api_key_id
    own = (default,) if standing.name == DEFAULT_TENANT and default else ()
    ids = dict.fromkeys((*document.api_keys, *own))
    retiring = sorted(document.retiring_keys.items(), key=lambda one: one[1])
    return (
        *(TenantKey(id=one) for one in ids),
        *(TenantKey(id=one, ends_at=at(moment)) for one, moment in retiring if moment > call.now),
    )


def _details(call: Call, standing: Standing) -> TenantDetails:
    name, document = standing.name, standing.document
    # Limits are those of the document, which may not be in force yet.
    tenants: dict[str, Tenant] = {**call.tree.tenants, name: document}
    tree = msgspec.structs.replace(call.tree, tenants=tenants)
    state = share_view(call.context.shares.of(tree, name, call.now))
    limits = limits_of_tenant(tree, name, USERS_SHOWN)
    quotas = call.context.quotas.standings(limits, call.now) if limits else []
    return TenantDetails(
        name=name,
        revision=standing.revision,
        managed=document.managed,
        suspended=document.suspended,
        operator=operates(call.tree, name),
        in_force=_in_force(call, standing),
        in_force_seconds=IN_FORCE_SECONDS,
        bizs=standing.bizs,
        keys=_keys(call, standing),
        settings=standing.settings,
        part=state.part,
        ready=state.ready,
        in_flight=state.in_flight,
        ceilings=state.ceilings,
        quotas=tuple(quota_view(for_tenant(one, tree)) for one in quotas),
    )
