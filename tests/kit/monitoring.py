"""Names tests use of monitoring: sampler, metrics, fleet view, health of stores."""

from crawlfleet.fleet.models import FleetSample, PoolSample, QueueSample, WorkersSample
from crawlfleet.monitoring import gathering as hosts
from crawlfleet.monitoring import mongo as mongo_figures
from crawlfleet.monitoring import store_health as redis_figures
from crawlfleet.monitoring.emf import EmfMetrics
from crawlfleet.monitoring.fleet_view import at_work, workers
from crawlfleet.monitoring.gathering import (
    LOOKED_AT,
    SHOWN,
    TROUBLED_PLACES,
    Bounds,
    Sharing,
    candidates,
    due,
    gather,
    host_sample,
    in_words,
    shown,
)
from crawlfleet.monitoring.incidents.capacity_checks import short_of
from crawlfleet.monitoring.incidents.store_checks import judged, unwatched
from crawlfleet.monitoring.metrics import SETTLED_SECONDS, Emitted, Emitter, batches
from crawlfleet.monitoring.models import (
    BizCoverage,
    FailedFire,
    Figures,
    HostSample,
    ReceiverSample,
    Sample,
    StreamSample,
    StreamsSample,
    UnplacedJob,
    Unread,
    UsedUpQuota,
)
from crawlfleet.monitoring.overview import Glance, Glancing, LateKind, overview_of
from crawlfleet.monitoring.sampler import Sampler
from crawlfleet.monitoring.shares import TenantShares as SharesView
from crawlfleet.monitoring.shares import TenantState
from crawlfleet.monitoring.store_health import PartHealth
