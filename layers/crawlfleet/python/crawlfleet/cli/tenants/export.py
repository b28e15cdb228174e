"""Export what a suspended tenant has, by a key of its own: a folder of JSON lines for each biz."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from crawlfleet.cli import console
from crawlfleet.kernel.errors import RejectedError
from crawlfleet.wire.tenants import TenantDetails

if TYPE_CHECKING:
    from crawlfleet.sdk import Client

#: What is exported of each biz, and how it is read.
_PARTS: Final[dict[str, Callable[["Client", str], Iterable[Any]]]] = {
    "records": lambda tenant, biz: tenant.records(biz),
    "requests": lambda tenant, biz: tenant.requests(biz),
    "dead_letters": lambda tenant, biz: tenant.dead_letters(biz).pages(),
    "jobs": lambda tenant, biz: tenant.jobs(biz),
    "schedules": lambda tenant, biz: tenant.schedules(biz),
    "spiders": lambda tenant, biz: tenant.spiders(biz),
    "seeds": lambda tenant, biz: tenant.seeds(biz),
    "subscriptions": lambda tenant, biz: tenant.subscriptions(biz),
    "undelivered": lambda tenant, biz: tenant.undelivered(biz),
}
_PAUSE_SECONDS: Final = 2.0


def export(fleet: "Client", name: str, folder: Path) -> None:
    """Write all that a tenant has into a folder; files that are there are complete, and stay.

    It is read by another key of the tenant's, which ends with it.
    """
    from crawlfleet.sdk import Client

    folder.mkdir(parents=True, exist_ok=True)
    made = fleet.rotate_tenant_key(name)
    _write(folder / "settings.json", [made.tenant.settings])
    with Client(fleet.api_url, made.key) as tenant:
        _wait_for(tenant, made.tenant)
        for biz in made.tenant.bizs:
            (folder / biz).mkdir(exist_ok=True)
            _write(folder / biz / "biz.json", [fleet.tenant_biz(name, biz).document])
            for part, read in _PARTS.items():
                file = folder / biz / f"{part}.jsonl"
                if not file.exists():
                    count = _write(file, read(tenant, biz))
                    console.note(f"{file}: {console.counted(count, 'line')}")


def _wait_for(tenant: "Client", details: TenantDetails) -> None:
    """Wait until the API knows the new key, which takes seconds."""
    until = time.monotonic() + details.in_force_seconds
    while time.monotonic() < until:
        with suppress(RejectedError):
            tenant.bizs()
            return
        time.sleep(_PAUSE_SECONDS)
    tenant.bizs()


def _write(file: Path, found: Iterable[Any]) -> int:
    """Write a line of JSON for each thing; the file is there once all of it is."""
    fresh, count = file.with_suffix(".part"), 0
    with fresh.open("wb") as stream:
        for one in found:
            stream.write(msgspec.json.encode(one) + b"\n")
            count += 1
    fresh.replace(file)
    return count
