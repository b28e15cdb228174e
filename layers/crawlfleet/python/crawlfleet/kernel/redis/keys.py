"""Keys of Redis that belong to the whole fleet."""

from typing import NamedTuple

from crawlfleet.kernel.queue_key import MAIN_POOL


class FleetKeys(NamedTuple):
    """The keys that all lanes of a stage share."""

    workers: str
    wakes: str
    pulses: str
    intervals: str
    cards: str
    watch: str
    turns: str
    numbers: str
    fences: str
    marks: str
    fence_count: str
    staff: str
    paces: str
    leaving: str
    needs: str
    tick: str
    between_ticks: str
    cancelled: str


def fleet_keys(fleet: str = "fleet", pool: str = MAIN_POOL) -> FleetKeys:
    """The stage-wide keys; another name keeps a second fleet apart on the same Redis.

    Those by which workers are counted and started are each pool's own.

    >>> fleet_keys().workers
    'cf:{fleet}:workers'
    >>> fleet_keys(pool="large").workers, fleet_keys(pool="large").pulses
    ('cf:{fleet}:workers:large', 'cf:{fleet}:pulses')
    """
    keys = FleetKeys(*(f"cf:{{{fleet}}}:{name}" for name in FleetKeys._fields))
    if pool == MAIN_POOL:
        return keys
    return keys._replace(
        workers=f"{keys.workers}:{pool}",
        wakes=f"{keys.wakes}:{pool}",
        leaving=f"{keys.leaving}:{pool}",
    )
