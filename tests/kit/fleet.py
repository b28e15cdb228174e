"""Names tests use of workers: registry, failure detector, autoscaler, forecast."""

from crawlfleet.fleet import forecast as forecasting
from crawlfleet.fleet.autoscaler import (
    BAND,
    LEAST_BUSY,
    LEAST_SECONDS,
    MARGIN,
    MOST_THROUGHPUTS,
    SPARE,
    active,
    assumed_throughput,
    decide,
    latest_first,
    latest_seconds,
    learnt,
    needed_workers,
    reserved,
    seconds_left,
    shares,
    stated_by,
)
from crawlfleet.fleet.autoscaler import capacity as scaling_capacity
from crawlfleet.fleet.autoscaler import pool_capacity as capacity
from crawlfleet.fleet.failure_detector import (
    DETECTOR_LAPSE,
    HIGHEST_PHI,
    LIVENESS,
    MEMORY,
    WAKE_TERM,
    WINDOW,
    Presence,
    judge,
    phi,
    status,
    worth_a_look,
)
from crawlfleet.fleet.forecast import Forecast, allowed_rate, coverage
from crawlfleet.fleet.lambda_functions import (
    WAKING,
    LambdaConcurrency,
    LambdaIds,
    LambdaTrials,
    LambdaWaker,
)
from crawlfleet.fleet.models import (
    BETWEEN_SECONDS,
    FLEET_POOL,
    FRESH_MS,
    MOST_BETWEEN,
    Demand,
    Health,
    QueueDemand,
    Remaining,
    ScalingState,
    ScalingTarget,
    Throughput,
    ThroughputReply,
    Ticked,
    TickPart,
    WorkerHealth,
    WorkerHeartbeats,
    WorkerStatus,
    is_fresh,
)
from crawlfleet.fleet.mongo import MongoPoolBook
from crawlfleet.fleet.redis.registry import (
    RedisFailureDetector,
    RedisProxyPools,
    RedisWorkers,
)
from crawlfleet.fleet.redis.scheduler import RedisScalingTargets, RedisTicks, decided
from crawlfleet.fleet.resources import (
    DEFAULT_GHZ,
    LAMBDA_MEMORY,
    SEEN_SECONDS,
    MachineFiles,
    MachineReadings,
    Taken,
    function_memory_mb,
)
from crawlfleet.fleet.scaling import (
    AT_ONCE,
    PROBES,
    PoolScaling,
    Scaled,
    ScaledPool,
    Scaling,
    allow,
)
from crawlfleet.fleet.status import finish_seconds, fleet_of, is_late
from crawlfleet.fleet.ticks import Faults, TickReports
from crawlfleet.requests.ids.issuer import LeasedNumber
