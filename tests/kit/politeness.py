"""Names tests use of politeness: limits, rates, host slots, robots.txt."""

from crawlfleet.crawling.politeness.client import (
    MOST_UNREPORTED,
    GrantedSlots,
    LocalScheduler,
    PolitenessClient,
    Waiting,
    reason,
)
from crawlfleet.crawling.politeness.hop_guard import (
    LONGEST_INTERVAL_SECONDS,
    UNREPORTED_SECONDS,
    HopGuards,
    NoSlotError,
)
from crawlfleet.crawling.politeness.models import (
    DEMAND_SECONDS,
    HORIZON_SECONDS,
    MAX_BYTES,
    PERMIT_SECONDS,
    TROUBLED,
    TROUBLED_SECONDS,
    HostAsk,
    HostGrant,
    HostReport,
    HostState,
    RobotsCopy,
    host_limits,
    interval_of,
    limits_for,
)
from crawlfleet.crawling.politeness.redis import (
    MILLION,
    MINUTE_US,
    RedisHosts,
    RedisRobotsCache,
    interval_us,
    micros,
)
from crawlfleet.crawling.politeness.robots import MOST_PORTS, REFUSED_SECONDS, RobotsBook
from crawlfleet.crawling.politeness.robots_txt import (
    MAX_RULES,
    MAX_WILDCARDS,
    RulesShelf,
    SiteRules,
    kept_seconds,
    product_of,
)
from crawlfleet.requests.queue.ageing import DeferredHost
