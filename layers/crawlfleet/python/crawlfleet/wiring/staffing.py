"""A worker's part in how many there are, of its own pool and of the others."""

from dataclasses import replace

from crawlfleet import names
from crawlfleet.errors import ConfigError, Problem
from crawlfleet.flows.staffing import StaffingPorts
from crawlfleet.wiring.parts import Parts


def staffing_ports(parts: Parts) -> StaffingPorts:
    """Everything on the real parts, as a worker of ``settings.pool`` has it.

    Raises:
        ConfigError: the worker's pool is none of those that the environment names.
    """
    settings = parts.settings
    pools = {
        pool.name: StaffingPorts(
            staffing=parts.staffing,
            workers=parts.workers_of(pool.name),
            waker=parts.waker_of(pool.function),
            warn=parts.warn,
            pool=pool.name,
        )
        for pool in settings.every_pool
    }
    own = pools.pop(settings.pool, None)
    if own is None:
        raise ConfigError([Problem(names.ENV_POOL, f"is none of the pools: {settings.pool}")])
    return replace(own, elsewhere=pools)
