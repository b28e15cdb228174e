"""What a worker needs of the world."""

from collections.abc import Callable
from dataclasses import dataclass

from crawlfleet.flows.recovery_ports import RecoveryPorts, WatchPorts
from crawlfleet.ports import (
    Clock,
    ConfigCentre,
    Extractor,
    Fetcher,
    LeaseBook,
    RequestQueue,
    RequestStore,
    RuleStore,
    Workers,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkPorts:
    """The parts that a worker works on.

    ``remaining`` is the Lambda's time left, in seconds; ``jitter`` gives a number from 0 to 1;
    ``warn`` is told what is wrong but not fatal.
    """

    config: ConfigCentre
    queue: RequestQueue
    store: RequestStore
    rules: RuleStore
    workers: Workers
    book: LeaseBook
    watching: WatchPorts
    recovery: RecoveryPorts
    fetcher: Fetcher
    extractor: Extractor
    clock: Clock
    remaining: Callable[[], float]
    jitter: Callable[[], float]
    warn: Callable[[str, Exception], None]
