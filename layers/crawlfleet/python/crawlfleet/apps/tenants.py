"""The service that manages tenants, as the router opens it."""

from pathlib import Path

from crawlfleet.apps.context import Parts
from crawlfleet.config.redis import RedisRevisions
from crawlfleet.fleet.redis.registry import RedisFailureDetector
from crawlfleet.tenancy.keys import KeyFile
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
