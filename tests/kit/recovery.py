"""Names tests use of recovery: reaper, queue rebuild, orphans."""

from crawlfleet.fleet.recovery import reaper
from crawlfleet.fleet.recovery import service as recovery
from crawlfleet.fleet.recovery.orphans import (
    GONE_AFTER,
    OrphanedQueues,
    RemovedPools,
    count_orphaned,
)
from crawlfleet.fleet.recovery.reaper import Reaper
from crawlfleet.fleet.recovery.service import Recovery
from crawlfleet.fleet.redis.scheduler import RedisBizs
