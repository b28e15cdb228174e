"""Redis users of Scrapy processes, one a tenant, each of which sees its tenant's keys alone.

What they may is in ``docs/reference/redis-users.toml``, as a test holds it against a real Redis. A
stage names the tenants (``ElastiCache.scrapy_tenants``), and ElastiCache has a user group; the
local cloud is told them (``--scrapy-user``), and its Redis has an ACL file.
"""

import re
import secrets
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

RULES: Final = Path(__file__).resolve().parent.parent / "docs/reference/redis-users.toml"
#: As the config centre has them, but for those that patterns of others would match.
_TENANT: Final = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
_TAKEN: Final = frozenset({"cf"})
_PASSWORD: Final = re.compile(r"user (\S+) .*?>(\S+)")


def tenant_errors(tenants: Sequence[str]) -> list[str]:
    """List what is wrong with the tenants that are to have a user.

    >>> tenant_errors(["acme", "cf", "A"])
    ["scrapy_tenants: 'cf' would see all keys", "scrapy_tenants: 'A' is no tenant's name"]
    """
    found = [f"scrapy_tenants: {one!r} would see all keys" for one in tenants if one in _TAKEN]
    found += [
        f"scrapy_tenants: {one!r} is no tenant's name" for one in tenants if not _TENANT.match(one)
    ]
    if len(set(tenants)) < len(tenants):
        found.append("scrapy_tenants: a tenant is there twice")
    return found


def user_name(tenant: str) -> str:
    """Name the user of a tenant.

    >>> user_name("acme")
    'scrapy-acme'
    """
    return f"scrapy-{tenant}"


def rules_of_tenant(tenant: str, *, cluster: bool = False) -> str:
    """Return the rules of a tenant's user, for ACL SETUSER: all bizs and crawls, and no other's.

    Keys that a project names itself, of start URLs, items and stats, begin with ``tenant:``.
    """
    users = tomllib.loads(RULES.read_text())
    scrapy = users["scrapy"]
    parts = [scrapy["start_urls"].replace("START_URLS", f"{tenant}:*")]
    if cluster:
        parts.append(scrapy["start_urls_of_a_cluster"].replace("START_URLS", f"{tenant}:*"))
    parts.append(scrapy["rules"].replace("TENANT", tenant).replace("BIZ", "*"))
    if cluster:
        parts.append(users["crawlfleet"]["cluster"])
    return " ".join(parts)


class AclFile:
    """The ACL file of a Redis of one's own, with a password for each tenant that lasts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, tenants: Sequence[str]) -> dict[str, str]:
        """Write the users; return the password of each tenant's, that of before if it had one."""
        before = dict(_PASSWORD.findall(self.path.read_text())) if self.path.exists() else {}
        passwords = {
            tenant: before.get(user_name(tenant)) or secrets.token_hex(24) for tenant in tenants
        }
        lines = ["user default on nopass ~* &* +@all"]
        lines += [
            f"user {user_name(tenant)} on >{password} {rules_of_tenant(tenant)}"
            for tenant, password in passwords.items()
        ]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch(mode=0o600)
        self.path.write_text("\n".join(lines) + "\n")
        return passwords
