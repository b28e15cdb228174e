"""Names tests use of workers: registry, failure detector, autoscaler, forecast."""

from crawlfleet.adapters.lambda_concurrency import LambdaConcurrency
from crawlfleet.adapters.lambda_functions import WAKING, LambdaIds, LambdaTrials, LambdaWaker
from crawlfleet.adapters.machine_files import MachineFiles
from crawlfleet.adapters.mongo.pools import MongoPoolBook
from crawlfleet.adapters.readings import (
    DEFAULT_GHZ,
    SEEN_SECONDS,
    MachineReadings,
    function_memory_mb,
)
from crawlfleet.adapters.redis_queue.staffing import RedisStaffing
from crawlfleet.adapters.redis_queue.ticks import RedisTicks
from crawlfleet.adapters.redis_queue.watch import RedisWatch
from crawlfleet.adapters.redis_queue.workers import RedisWorkers
from crawlfleet.flows import outlooking
from crawlfleet.flows.allowing import PROBES, allow
from crawlfleet.flows.outlooking import OutlookPorts, look_ahead
from crawlfleet.flows.scaling import PoolPorts, Scaled, ScalingPorts, scale, scale_all
from crawlfleet.flows.staffing import (
    AT_ONCE,
    StaffingPorts,
    decided,
    muster,
    replace_dead,
    replace_missing,
)
from crawlfleet.flows.ticking import Faults, TickPorts, tell_fault, tell_tick
from crawlfleet.model.staff import FLEET_POOL, Demand, LaneDemand, Mustered, Shown, Staff, Staffed
from crawlfleet.model.tick import BETWEEN_SECONDS, MOST_BETWEEN, Ticked, TickPart
from crawlfleet.model.usage import Remaining
from crawlfleet.model.worker import Card, Health, HeldNumber, Pulse, WorkerStatus
from crawlfleet.policy.capacity import active, capacity, shares, stated_by
from crawlfleet.policy.health import is_late
from crawlfleet.policy.lanes import finish_seconds, fleet_of
from crawlfleet.policy.liveness import (
    HIGHEST_PHI,
    WATCH_LAPSE,
    WINDOW,
    judge,
    phi,
    status,
    worth_a_look,
)
from crawlfleet.policy.plans import latest_first, latest_seconds, seconds_left
from crawlfleet.policy.polite_rate import allowed_rate, coverage
from crawlfleet.policy.presence import LIVENESS, MEMORY, WAKE_TERM, Presence
from crawlfleet.policy.scaling import (
    BAND,
    FRESH_MS,
    LEAST_BUSY,
    LEAST_SECONDS,
    MARGIN,
    MOST_PACES,
    SPARE,
    decide,
    guessed_pace,
    is_fresh,
    learnt,
    needed_workers,
    reserved,
)
from crawlfleet.policy.scaling import capacity as scaling_capacity
from crawlfleet.ports import PoolBook, Staffing, Ticks, Watch, Workers
from crawlfleet.ports.readings import Taken
