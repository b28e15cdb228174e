"""Names tests use of recovery: reaper, queue rebuild, orphans."""

from crawlfleet.fleet.recovery import reaper
from crawlfleet.fleet.recovery import service as recovery
from crawlfleet.fleet.recovery.orphans import (
    GONE_AFTER,
    OrphanedQueuePorts,
    ReassignmentPorts,
    count_orphaned,
    reassign_removed_pools,
    report_bizs,
)
from crawlfleet.fleet.recovery.ports import Bizs, ReaperPorts, RecoveryPorts
from crawlfleet.fleet.recovery.reaper import reap, stand_watch
from crawlfleet.fleet.recovery.service import recover
from crawlfleet.fleet.redis.scheduler import RedisBizs
