"""Tenants: add, list, read, change, suspend, resume, give another key, remove. For operators."""

from collections.abc import Mapping
from typing import Any

import msgspec

from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.sdk.calls import Calls, path_of
from crawlfleet.wire.tenants import (
    TenantBiz,
    TenantDetails,
    TenantInventory,
    TenantRemoval,
    TenantsAnswer,
    TenantWithKey,
)


class TenantCalls(Calls):
    """The calls about tenants. Any other key than an operator's raises NotOperatorError.

    A ``revision`` is that of a :class:`TenantDetails`: where somebody has changed the tenant since,
    a change is refused with ConflictError.
    """

    def tenants(self) -> TenantsAnswer:
        """List all tenants, and keys that calls which died have left."""
        return self._get(_place(), TenantsAnswer)

    def tenant(self, name: str) -> TenantDetails:
        """Read a tenant: its settings, keys and bizs, and how much of its limits is used.

        Raises:
            NotFoundError: there is none of that name.
        """
        return self._get(_place(name), TenantDetails)

    def add_tenant(self, name: str, settings: Mapping[str, Any] | None = None) -> TenantWithKey:
        """Add a tenant with settings as its document has them; return it with its key.

        Nobody can read the key again. Where the answer was lost, a repeated call finds the tenant
        there: give it another key then.

        Raises:
            InvalidRequestError: the name or a setting is wrong; names each.
            ConflictError: there is one of that name, or the stage's functions may not.
        """
        document = {"name": name, "settings": dict(settings or {})}
        return self._post(_place(), document, TenantWithKey, [])

    def set_tenant(
        self, name: str, settings: Mapping[str, Any], *, revision: str | None = None
    ) -> TenantDetails:
        """Merge settings into a tenant's (RFC 7396); what is None there goes.

        Raises:
            NotFoundError: there is none of that name.
            InvalidRequestError: a setting is wrong; names each.
            ConflictError: it has another revision by now.
        """
        body = msgspec.json.encode({"settings": dict(settings), "revision": revision})
        return self._read(self._transport.call("PATCH", _place(name), body=body), TenantDetails)

    def suspend_tenant(self, name: str, *, revision: str | None = None) -> TenantDetails:
        """Suspend a tenant: nothing of it is taken, started or leased, and it may only read.

        Raises:
            NotFoundError: there is none of that name.
            ConflictError: it is an operator, or has another revision by now.
        """
        return self._post(_place(name, "suspend"), {"revision": revision}, TenantDetails, [])

    def resume_tenant(self, name: str, *, revision: str | None = None) -> TenantDetails:
        """Have a suspended tenant go on where it stood.

        Raises:
            NotFoundError: there is none of that name.
            ConflictError: it has another revision by now.
        """
        return self._post(_place(name, "resume"), {"revision": revision}, TenantDetails, [])

    def rotate_tenant_key(
        self, name: str, *, overlap_seconds: int | None = None, revision: str | None = None
    ) -> TenantWithKey:
        """Give a tenant another key; those that it has stay valid for a day, or for the overlap.

        Nobody can read the key again. Where the answer was lost, the call may be repeated.

        Raises:
            NotFoundError: there is none of that name.
            ConflictError: it has another revision by now, or the stage's functions may not.
        """
        document: dict[str, Any] = {"revision": revision}
        if overlap_seconds is not None:
            document["overlap_seconds"] = overlap_seconds
        return self._post(_place(name, "rotate-key"), document, TenantWithKey, [])

    def tenant_biz(self, name: str, biz: str) -> TenantBiz:
        """Read the document of a tenant's biz as it was pushed.

        Raises:
            NotFoundError: there is no such biz.
        """
        return self._get(_place(name, "bizs", biz), TenantBiz)

    def tenant_inventory(self, name: str) -> TenantInventory:
        """Count what the stores have of a tenant, or of the name of one that was removed."""
        return self._get(_place(name, "inventory"), TenantInventory)

    def remove_tenant(
        self, name: str, *, delete: bool = False, revision: str | None = None
    ) -> TenantRemoval:
        """Begin to remove a tenant, or go on with it: repeat the call until it is ``removed``.

        It is suspended, and ``settled`` once nothing of it can be worked on. Only then, and with
        ``delete``, all of it is deleted, which cannot be undone. Until that it may be resumed.

        Raises:
            NotFoundError: there is none of that name, or none any more.
            ConflictError: it is an operator, has another revision, or the stage's functions may
                not.
        """
        body = {"delete": delete, "revision": revision}
        return self._post(_place(name, "remove"), body, TenantRemoval, [])


def _place(*rest: str) -> str:
    if rest and not rest[0].strip(". "):
        raise InvalidRequestError.of("name", f"{rest[0]!r} cannot be a part of an address")
    return path_of("fleet", "tenants", *rest)
