"""Names tests use of monitoring: sampler, metrics, fleet view, health of stores."""

from crawlfleet.adapters.emf import EmfMetrics
from crawlfleet.adapters.figures import Figures
from crawlfleet.adapters.mongo import figures as mongo_figures
from crawlfleet.adapters.part_health import PartHealth
from crawlfleet.adapters.redis_queue import figures as redis_figures
from crawlfleet.flows.emitting import Emitter
from crawlfleet.flows.gathering import Sharing, gather, in_words
from crawlfleet.flows.overseeing import at_work
from crawlfleet.flows.roster import RosterPorts, workers
from crawlfleet.flows.sampling import Bounds, SamplingPorts, sample
from crawlfleet.model.sample import (
    FleetSample,
    HostSample,
    LaneSample,
    PoolSample,
    Sample,
    UnplacedJob,
    Unread,
    WorkersSample,
)
from crawlfleet.policy import hosts
from crawlfleet.policy.auditing import due
from crawlfleet.policy.capacity_findings import short_of
from crawlfleet.policy.hosts import (
    LOOKED_AT,
    SHOWN,
    TROUBLED_PLACES,
    candidates,
    host_sample,
    shown,
)
from crawlfleet.policy.metrics import SETTLED_SECONDS, Emitted, batches
from crawlfleet.policy.part_findings import judged, unwatched
