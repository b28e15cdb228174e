"""Names tests use of politeness: limits, rates, host slots, robots.txt."""

from crawlfleet.adapters.redis_queue.hosts import RedisHosts
from crawlfleet.adapters.redis_queue.robots import RedisRobotsCache
from crawlfleet.flows.courtesy import MOST_UNTOLD, Courtesy, Turn, Waiting, reason
from crawlfleet.flows.passages import (
    LONGEST_INTERVAL_SECONDS,
    UNTOLD_SECONDS,
    NoTurnError,
    Passages,
)
from crawlfleet.flows.robots import MOST_PORTS, REFUSED_SECONDS, RobotsBook
from crawlfleet.flows.turns import Turns
from crawlfleet.model.politeness import (
    DEMAND_SECONDS,
    HORIZON_SECONDS,
    PERMIT_SECONDS,
    TROUBLED,
    TROUBLED_SECONDS,
    HostAsk,
    HostGrant,
    HostReport,
    HostState,
    Parked,
    RobotsCopy,
)
from crawlfleet.policy.politeness import host_limits, interval_of, limits_for
from crawlfleet.policy.robots import (
    MAX_BYTES,
    MAX_RULES,
    MAX_WILDCARDS,
    RulesShelf,
    SiteRules,
    kept_seconds,
    product_of,
)
from crawlfleet.policy.strain import reported
from crawlfleet.policy.turns import MAX_TENANTS, HostTurns, kept_until, reserve, state_of
from crawlfleet.ports import Hosts, RobotsCache
