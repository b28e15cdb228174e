"""What a worker reads of itself, by where it runs."""

import os

from crawlfleet.adapters.readings import MachineReadings, function_memory_mb
from crawlfleet.wiring.parts import Parts


def machine_readings(parts: Parts) -> MachineReadings:
    """Of this machine; the pool's memory counts where it is less than the function's."""
    settings = parts.settings
    told = [pool.memory_mb for pool in settings.pools if pool.name == settings.pool]
    return MachineReadings(
        lambda_mb=function_memory_mb(os.environ), told_mb=told[0] if told else None
    )
