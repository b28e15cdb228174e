"""Names tests use of the consumer's engine: leases, attempts, results, lifecycle."""

from crawlfleet.kernel.time import PAUSES, STEADY, Pauses, SteadyTime
from crawlfleet.worker.affinity import (
    ASK_EACH,
    MOST_PATIENCE_MS,
    MOST_WORKERS,
    PATIENCE_MS,
    SOME_WORKERS,
    HostAffinity,
    chosen,
    owner,
    patience_ms,
    salt,
)
from crawlfleet.worker.attempt import LINK_BYTES, PART, Attempts, Parser, ReadingGate
from crawlfleet.worker.background import STAGGERED_PART, BackgroundTasks, early_seconds
from crawlfleet.worker.day_accounts import SharedTime
from crawlfleet.worker.heartbeat import Heartbeat
from crawlfleet.worker.in_flight import (
    DEFERRED_BATCHES,
    DEFERRED_BYTES,
    InFlight,
    Stopper,
    UnconfirmedLeases,
)
from crawlfleet.worker.leases import NOTHING, Leases
from crawlfleet.worker.ownership import renew_leases
from crawlfleet.worker.ready_queues import REST_MS, ReadyQueues
from crawlfleet.worker.session import GIVE_UP, HAND_BACK, Session, WorkerServices
from crawlfleet.worker.settler import Settler
from crawlfleet.worker.shares import HEAVY_BYTES, TenantShares, TenantSlots, store_cost
from crawlfleet.worker.telemetry import QUEUES, Telemetry, ThroughputMeter
from crawlfleet.worker.tracing import Traces
from crawlfleet.worker.usage_meter import FORGET_SECONDS, Idle, UsageMeter, travelled
from crawlfleet.worker.worker import Worker
