"""Names tests use of the consumer's engine: leases, attempts, results, lifecycle."""

from crawlfleet.kernel.time import PAUSES, STEADY, Pauses, SteadyTime
from crawlfleet.worker.affinity import MOST_WORKERS, PATIENCE_MS, HostAffinity, chosen, owner, salt
from crawlfleet.worker.attempt import LINK_BYTES, PART, SLICE, Parser, ReadingGate
from crawlfleet.worker.background import STAGGERED_PART, BackgroundTasks, early_seconds
from crawlfleet.worker.heartbeat import Heartbeat
from crawlfleet.worker.in_flight import (
    DEFERRED_BATCHES,
    DEFERRED_BYTES,
    Stopper,
    UnconfirmedLeases,
)
from crawlfleet.worker.leases import NOTHING, Leases
from crawlfleet.worker.session import GIVE_UP, HAND_BACK, Session, WorkerServices
from crawlfleet.worker.settler import Settler
from crawlfleet.worker.telemetry import QUEUES, Telemetry, ThroughputMeter
from crawlfleet.worker.usage_meter import FORGET_SECONDS, Idle, UsageMeter, travelled
from crawlfleet.worker.worker import Worker
