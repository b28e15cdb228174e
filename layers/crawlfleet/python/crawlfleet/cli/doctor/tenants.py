"""Diagnose tenants for `crawlfleet doctor`: their keys, suspensions and removals."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from crawlfleet.cli.console import counted, moment
from crawlfleet.cli.doctor.diagnosis import Level, Saying

if TYPE_CHECKING:
    from crawlfleet.sdk import KeyLeftover, TenantSummary

#: Key that ends sooner is told of: its tenant's programs may have it still.
_SOON: Final = timedelta(days=1)
#: Removal that began longer ago has been given up, or was cut off.
_LONG: Final = timedelta(hours=1)
#: Tenant whose key is the deployment's, and in no document.
_DEFAULT: Final = "default"


def of_tenants(tenants: "Sequence[TenantSummary]", now: datetime) -> Iterator[Saying]:
    """Check each tenant's keys, and what a suspension or removal holds up."""
    for one in tenants:
        if one.removing_since is not None:
            yield _removal(one.name, one.removing_since, now)
            continue
        if one.suspended and one.ready:
            yield Level.NOTE.saying(
                "tenants",
                f"{one.name} is suspended, and {counted(one.ready, 'request')} of it cannot go on",
                f"`crawlfleet tenant resume {one.name}` has its work go on where it stood.",
            )
        if not one.keys and one.name != _DEFAULT:
            yield Level.NOTE.saying(
                "tenants",
                f"{one.name} has no key: none of its programs is let in",
                f"`crawlfleet tenant rotate-key {one.name}` gives it one.",
            )
        if one.key_ends_at is not None and one.key_ends_at - now <= _SOON:
            yield Level.NOTE.saying(
                "tenants",
                f"a key of {one.name} that was replaced ends at {moment(one.key_ends_at)}",
                "Whoever still calls with it is refused from then on: give its programs the newer "
                "one until then.",
            )


def _removal(tenant: str, since: datetime, now: datetime) -> Saying:
    if now - since <= _LONG:
        return Level.NOTE.saying(
            "tenants",
            f"{tenant} is being removed since {moment(since)}",
            "`crawlfleet tenant remove` goes on with it, as it was begun.",
        )
    return Level.LOOK.saying(
        "tenants",
        f"{tenant} is half removed: that began at {moment(since)} and has not ended",
        f"`crawlfleet tenant remove` goes on where it stopped; "
        f"`crawlfleet tenant resume {tenant}` gives it up where nothing is deleted yet.",
    )


def of_leftover_keys(leftovers: "Sequence[KeyLeftover]") -> Iterator[Saying]:
    """Check for keys that were made for tenants, and that no document has."""
    for tenant in sorted({one.tenant for one in leftovers}):
        count = sum(one.tenant == tenant for one in leftovers)
        yield Level.LOOK.saying(
            "tenants",
            f"{counted(count, 'key')} {'was' if count == 1 else 'were'} made for {tenant} by a "
            "call that died, and opens nothing",
            f"Where {tenant} was to be added, add it again; `crawlfleet tenant rotate-key "
            f"{tenant}` removes what is left, and gives it another key.",
        )
