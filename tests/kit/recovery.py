"""Names tests use of recovery: reaper, queue rebuild, orphans."""

from crawlfleet.fleet.recovery import reaper as watching
from crawlfleet.fleet.recovery import service as recovery
from crawlfleet.fleet.recovery.orphans import (
    GONE_AFTER,
    RehomingPorts,
    StrayPorts,
    count_strays,
    rehome,
    tell_bizs,
)
from crawlfleet.fleet.recovery.ports import Bizs, RecoveryPorts, WatchPorts
from crawlfleet.fleet.recovery.reaper import stand_watch, watch
from crawlfleet.fleet.recovery.service import recover
from crawlfleet.fleet.redis.staffing import RedisBizs
