"""The services that manage and remove tenants, as the router opens them."""

from pathlib import Path

from crawlfleet.apps.context import Parts
from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.redis import RedisRevisions
from crawlfleet.fleet.redis.registry import RedisFailureDetector
from crawlfleet.tenancy.keys import KeyFile
from crawlfleet.tenancy.mongo import MongoInventory
from crawlfleet.tenancy.redis import RedisInventory
from crawlfleet.tenancy.removal import Inventory, Removals
from crawlfleet.tenancy.secrets import SecretInventory
from crawlfleet.tenancy.service import Tenants

#: SSM writes few parameters a second for an account, and a push has dozens: it asks again.
_ATTEMPTS = 8


def open_tenants(parts: Parts, locks: RedisFailureDetector) -> Tenants:
    """Open the service over the parts of an environment."""
    settings = parts.settings
    ssm = parts.outside.client("ssm", region=settings.home_region, attempts=_ATTEMPTS)
    return Tenants(
        ssm,
        settings.stage,
        keys=KeyFile(Path(settings.keys_file)) if settings.keys_file else None,
        locks=locks,
        revisions=RedisRevisions(parts.redis),
    )


def open_removals(parts: Parts, tenants: Tenants) -> Removals:
    """Open the removal of tenants over the parts of an environment."""
    settings = parts.settings
    secrets = parts.outside.client("secretsmanager", region=settings.home_region)

    def inventories(tree: Tree) -> list[Inventory]:
        return [
            RedisInventory(parts.redis),
            MongoInventory(parts.nodes, sorted({*tree.stage.nodes, tree.stage.home_node})),
            SecretInventory(secrets, settings.stage),
        ]

    return Removals(tenants, inventories)
