"""Names tests use of recovery: reaper, queue rebuild, orphans."""

from crawlfleet.adapters.redis_queue.bizs import RedisBizs
from crawlfleet.flows import recovery, watching
from crawlfleet.flows.recovery import recover
from crawlfleet.flows.recovery_ports import RecoveryPorts, WatchPorts
from crawlfleet.flows.rehoming import GONE_AFTER, RehomingPorts, rehome
from crawlfleet.flows.strays import StrayPorts, count_strays, tell_bizs
from crawlfleet.flows.watching import stand_watch, watch
from crawlfleet.ports import Bizs
