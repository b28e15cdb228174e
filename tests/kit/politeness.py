"""Names tests use of politeness: limits, rates, host slots, robots.txt."""

from crawlfleet.crawling.politeness.client import (
    MOST_UNREPORTED,
    GrantedSlots,
    PolitenessClient,
    Waiting,
)
from crawlfleet.crawling.politeness.hop_guard import (
    LONGEST_INTERVAL_SECONDS,
    UNREPORTED_SECONDS,
    HopGuards,
    NoSlotError,
)
from crawlfleet.crawling.politeness.local_scheduler import LocalScheduler
from crawlfleet.crawling.politeness.models import (
    DEMAND_SECONDS,
    FLEETING_SECONDS,
    HORIZON_SECONDS,
    MAX_BYTES,
    MAX_KEPT_BYTES,
    PERMIT_SECONDS,
    STRAINED_ORIGINS,
    TROUBLED,
    TROUBLED_SECONDS,
    HostAsk,
    HostGrant,
    HostReport,
    HostState,
    Observation,
    OwnAnswers,
    RobotsCopy,
    back_off_of,
    host_limits,
    interval_of,
    limits_for,
    packed,
    reason,
)
from crawlfleet.crawling.politeness.outside import OutsideAsk, grant_outside
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
    kept_copy,
    kept_seconds,
    product_of,
)
from crawlfleet.requests.queue.ageing import DeferredHost
