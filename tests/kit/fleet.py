"""Names tests use of workers: registry, failure detector, autoscaler, forecast."""

from crawlfleet.fleet import forecast as outlooking
from crawlfleet.fleet.autoscaler import (
    BAND,
    LEAST_BUSY,
    LEAST_SECONDS,
    MARGIN,
    MOST_PACES,
    SPARE,
    active,
    decide,
    guessed_pace,
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
    HIGHEST_PHI,
    LIVENESS,
    MEMORY,
    WAKE_TERM,
    WATCH_LAPSE,
    WINDOW,
    Presence,
    judge,
    phi,
    status,
    worth_a_look,
)
from crawlfleet.fleet.forecast import OutlookPorts, allowed_rate, coverage, look_ahead
from crawlfleet.fleet.lambda_functions import (
    WAKING,
    LambdaConcurrency,
    LambdaIds,
    LambdaTrials,
    LambdaWaker,
)
from crawlfleet.fleet.machine import MachineFiles
from crawlfleet.fleet.models import (
    BETWEEN_SECONDS,
    FLEET_POOL,
    MOST_BETWEEN,
    Card,
    Demand,
    Health,
    LaneDemand,
    Mustered,
    Pulse,
    Remaining,
    Shown,
    Staff,
    Staffed,
    Ticked,
    TickPart,
    WorkerStatus,
)
from crawlfleet.fleet.mongo import MongoPoolBook
from crawlfleet.fleet.ports import PoolBook, Staffing, Ticks, Watch, Workers
from crawlfleet.fleet.redis.registry import RedisWatch, RedisWorkers
from crawlfleet.fleet.redis.staffing import RedisStaffing, RedisTicks
from crawlfleet.fleet.resources import (
    DEFAULT_GHZ,
    SEEN_SECONDS,
    MachineReadings,
    Taken,
    function_memory_mb,
)
from crawlfleet.fleet.scaling import (
    PROBES,
    PoolPorts,
    Scaled,
    ScalingPorts,
    allow,
    scale,
    scale_all,
)
from crawlfleet.fleet.staffing import (
    AT_ONCE,
    FRESH_MS,
    StaffingPorts,
    decided,
    is_fresh,
    muster,
    replace_dead,
    replace_missing,
)
from crawlfleet.fleet.status import finish_seconds, fleet_of, is_late
from crawlfleet.fleet.tick_status import Faults, TickPorts, tell_fault, tell_tick
from crawlfleet.requests.ids.issuer import HeldNumber
