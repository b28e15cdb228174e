"""The services that change tenants and the configuration, as the router opens them."""

from pathlib import Path

from crawlfleet.apps.context import Parts
from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.redis import RedisRevisions
from crawlfleet.config.versions.mongo import MongoVersions
from crawlfleet.fleet.redis.registry import RedisFailureDetector
from crawlfleet.jobs.mongo.store import MongoJobs
from crawlfleet.jobs.schedules.mongo import MongoSchedules
from crawlfleet.streams.subscriptions.mongo import MongoSubscriptions
from crawlfleet.tenancy.api_gateway import ApiGatewayKeys
from crawlfleet.tenancy.configuration import Configuration
from crawlfleet.tenancy.keys import KeyFile, KeyStore
from crawlfleet.tenancy.mongo import MongoInventory
from crawlfleet.tenancy.redis import RedisInventory
from crawlfleet.tenancy.removal import Inventory, Removals
from crawlfleet.tenancy.secrets import SecretInventory
from crawlfleet.tenancy.service import Tenants

#: SSM writes few parameters a second for an account, and a push has dozens: it asks again.
_ATTEMPTS = 8


def open_keys(parts: Parts) -> KeyStore | None:
    """Open the store of keys; None where this function may make none."""
    settings = parts.settings
    if settings.keys_file:
        return KeyFile(Path(settings.keys_file))
    if settings.keys_region is None:
        return None
    region = settings.keys_region
    return ApiGatewayKeys(
        parts.outside.client("apigateway", region=region, attempts=_ATTEMPTS),
        # A repeated call that makes a key makes another one.
        parts.outside.client("apigateway", region=region, attempts=1),
        stage=settings.stage,
        default_key_id=settings.default_api_key_id,
    )


def open_tenants(parts: Parts, locks: RedisFailureDetector) -> Tenants:
    """Open the service over the parts of an environment."""
    settings = parts.settings
    ssm = parts.outside.client("ssm", region=settings.home_region, attempts=_ATTEMPTS)
    return Tenants(
        ssm,
        settings.stage,
        keys=open_keys(parts),
        locks=locks,
        revisions=RedisRevisions(parts.redis),
    )


def open_configuration(parts: Parts, tenants: Tenants, versions: MongoVersions) -> Configuration:
    """Open the service that changes the configuration over the parts of an environment."""
    return Configuration(
        tenants,
        versions,
        is_writable=parts.settings.writes_config,
        trials=parts.trials,
        queue=parts.queue,
        jobs=MongoJobs(parts.nodes),
        schedules=MongoSchedules(parts.nodes),
        subscriptions=MongoSubscriptions(parts.nodes),
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
