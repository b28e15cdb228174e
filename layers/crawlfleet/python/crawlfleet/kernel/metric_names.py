"""Every metric's name, spelled once: the monitor emits them, alarms and dashboards watch them.

Like names.py this imports nothing of ours, so that the infrastructure may import it.

**Dimensions and their cost.** CloudWatch bills each name under each set of dimension values as one
metric, 0.30 USD a month for as many hours as it gets values; resolution and the number of values
cost nothing more. So there are four sets and no others, and two of them are bounded:

========================  ==========================================================  ============
set                       names                                                       series
========================  ==========================================================  ============
``stage``                 ``FLEET``, findings; ``IDLE`` alone while nothing is at     one each
                          work and nothing is wrong
``stage, part, node``     ``REDIS`` of Redis, ``NODE`` of each MongoDB node, while    one each
                          something is at work or one of them is unwell
``stage, tenant, biz``    ``LANE`` of bizs that have work, the stage document's       50 x ``LANE``
                          ``monitor.bizs`` at most in an hour                         at most
``stage, host``           ``HOST`` of the worst and busiest hosts, ``monitor.hosts``  10 x ``HOST``
                          at most in an hour                                          at most
========================  ==========================================================  ============

Which bizs and hosts these are is settled anew each hour and kept until it ends: hosts that came and
went with each evaluation would be billed as if all had been there for the hour. A biz without
work emits nothing and costs nothing; what was working a minute ago still says that it is at 0.
Ten bizs, two nodes and ten hosts are 257 series, 77 USD a month, as
tests/unit/monitoring/test_metrics.py counts, those of findings among them. Totals by state, and
rates over 1, 5 and 60 seconds of each biz, are in the API, and CloudWatch makes the latter of
``Submitted`` and ``Processed``: their sum over a period of 1, 5 or 60 seconds, divided by it.
"""

from typing import Final

# ---- of a biz, and under the stage alone of all bizs together ----------------------------------

#: Requests put in and dealt with, a value a second at 1 s resolution. Statistic: Sum.
SUBMITTED: Final = "Submitted"
PROCESSED: Final = "Processed"
#: Requests waiting to be served, leased by workers, and waiting for their next try.
BACKLOG: Final = "Backlog"
LEASED: Final = "Leased"
DELAYED: Final = "Delayed"
#: How long the next entry to be served has waited, in seconds; of all bizs the longest.
OLDEST_WAITING: Final = "OldestWaiting"
#: Backlog over the present rate, in seconds; no value while nothing is processed.
TIME_TO_FINISH: Final = "TimeToFinish"
#: 1 for a biz that will not finish in time; of all bizs, how many there are.
LATE: Final = "Late"
#: Given up on, and run out of time, ever since: a rise is news, the height is not.
DEAD: Final = "Dead"
EXPIRED: Final = "Expired"
#: Requests that were submitted and are in no state, or more than were. It must be 0.
LEDGER_DIFFERENCE: Final = "LedgerDifference"

QUEUE_KEY: Final = (
    *(SUBMITTED, PROCESSED, BACKLOG, LEASED, DELAYED, OLDEST_WAITING, TIME_TO_FINISH, LATE),
    *(DEAD, EXPIRED, LEDGER_DIFFERENCE),
)

# ---- of the stage ------------------------------------------------------------------------------

#: 1 with each evaluation of the monitor: where there is none, nobody watches.
LOOKS: Final = "Looks"
#: How long an evaluation took, in seconds.
LOOK_SECONDS: Final = "LookSeconds"
#: How many things an evaluation could not read.
UNREAD: Final = "Unread"
#: Rates as the monitor worked them out, of all bizs together.
SUBMITTED_RATE_1S: Final = "SubmittedRate1s"
SUBMITTED_RATE_5S: Final = "SubmittedRate5s"
SUBMITTED_RATE_60S: Final = "SubmittedRate60s"
PROCESSED_RATE_1S: Final = "ProcessedRate1s"
PROCESSED_RATE_5S: Final = "ProcessedRate5s"
PROCESSED_RATE_60S: Final = "ProcessedRate60s"
#: Workers present (wake-ups under way counted in), wanted, and by the failure detector's verdict.
CONSUMERS: Final = "Consumers"
WANTED_CONSUMERS: Final = "WantedConsumers"
WORKERS_ALIVE: Final = "WorkersAlive"
WORKERS_SUSPECTED: Final = "WorkersSuspected"
WORKERS_DEAD: Final = "WorkersDead"
#: Workers that stated needs come to and that are not there, of all pools.
CAPACITY_SHORT: Final = "CapacityShort"
#: Of the hosts that were looked at, those that are left alone or asked more slowly now.
HOSTS_THROTTLED: Final = "HostsThrottled"
#: 1 while the newest configuration is refused.
CONFIG_REFUSED: Final = "ConfigRefused"
#: Incidents that are open; kinds of listener that could not be notified; incidents that still owe a
#: message to somebody.
INCIDENTS_OPEN: Final = "IncidentsOpen"
MESSAGES_FAILED: Final = "MessagesFailed"
MESSAGES_OWED: Final = "MessagesOwed"
#: What waits for bizs that there are not; emitted by the scheduler.
STRAY_ITEMS: Final = "StrayItems"
STRAY_REQUESTS: Final = "StrayRequests"
#: 1 with each tick of the scheduler that ends, and what of it has failed; emitted by the scheduler.
TICKS: Final = "Ticks"
TICK_FAULTS: Final = "TickFaults"

FLEET: Final = (
    *QUEUE_KEY,
    *(LOOKS, LOOK_SECONDS, UNREAD),
    *(SUBMITTED_RATE_1S, SUBMITTED_RATE_5S, SUBMITTED_RATE_60S),
    *(PROCESSED_RATE_1S, PROCESSED_RATE_5S, PROCESSED_RATE_60S),
    *(CONSUMERS, WANTED_CONSUMERS, WORKERS_ALIVE, WORKERS_SUSPECTED, WORKERS_DEAD),
    *(CAPACITY_SHORT, HOSTS_THROTTLED, CONFIG_REFUSED),
    *(INCIDENTS_OPEN, MESSAGES_FAILED, MESSAGES_OWED),
    *(STRAY_ITEMS, STRAY_REQUESTS, TICKS, TICK_FAULTS),
)
#: What a stage emits whatever happens: the rest has values in hours with work, or with trouble.
IDLE: Final = (LOOKS, TICKS)
#: Events of the stage's own rules that a tick could not start yet; emitted by the scheduler of a
#: stage that has such rules, and of no other.
STARTS_WAITING: Final = "StartsWaiting"
#: Quotas of tenants, their users and bizs that are used up; of a stage that has any.
QUOTAS_USED_UP: Final = "QuotasUsedUp"

# ---- of Redis and of each MongoDB node ---------------------------------------------------------

#: 1 where the part answers, and where nothing is wrong with it.
NODE_UP: Final = "NodeUp"
NODE_HEALTHY: Final = "NodeHealthy"
#: What it uses of its memory in bytes; of its limit, 0 to 1 (Redis), of its cache (MongoDB).
MEMORY_BYTES: Final = "MemoryBytes"
MEMORY_RATIO: Final = "MemoryRatio"
CACHE_RATIO: Final = "CacheRatio"
CONNECTIONS: Final = "Connections"
#: Connections of those that it takes at most, 0 to 1.
CONNECTIONS_RATIO: Final = "ConnectionsRatio"
#: How long a PING takes there and back, in seconds: the median of some.
LATENCY: Final = "Latency"
#: Redis: keys that it threw away for want of memory since it started.
EVICTED_KEYS: Final = "EvictedKeys"
OPERATIONS: Final = "OperationsPerSecond"
#: Redis: replicas connected to it; 1 while its own link to a primary is down.
REPLICAS: Final = "Replicas"
LINK_DOWN: Final = "LinkDown"
#: MongoDB: what is on disk, in bytes.
STORAGE_BYTES: Final = "StorageBytes"
#: Redis: commands in the slow log of the last minute; MongoDB: operations that were slow in the
#: last minute, or have been running for too long now.
SLOW_OPERATIONS: Final = "SlowOperations"
#: Figures of MongoDB that are no metrics: what is used of its disk, whatever uses it, 0 to 1;
#: operations that were slow since it started, from which those of the last minute are counted.
STORAGE_RATIO: Final = "StorageRatio"
SLOW_EVER: Final = "SlowOperationsEver"
UNEMITTED: Final = frozenset({STORAGE_RATIO, SLOW_EVER})
#: MongoDB: members of the replica set, those in no good state, and the worst secondary's lag.
MEMBERS: Final = "Members"
MEMBERS_UNWELL: Final = "MembersUnwell"
LAG_SECONDS: Final = "LagSeconds"

REDIS: Final = (
    *(NODE_UP, NODE_HEALTHY, MEMORY_BYTES, MEMORY_RATIO, CONNECTIONS, CONNECTIONS_RATIO, LATENCY),
    *(EVICTED_KEYS, OPERATIONS, REPLICAS, LINK_DOWN, SLOW_OPERATIONS),
)
NODE: Final = (
    *(NODE_UP, NODE_HEALTHY, STORAGE_BYTES, MEMORY_BYTES, CACHE_RATIO),
    *(CONNECTIONS, CONNECTIONS_RATIO, LATENCY, SLOW_OPERATIONS),
    *(MEMBERS, MEMBERS_UNWELL, LAG_SECONDS),
)

# ---- of a host ---------------------------------------------------------------------------------

#: Downloads that ended, a second, over the last one to two minutes.
HOST_RATE: Final = "HostRate"
#: Of these the share that was answered well, 0 to 1; how long answers took, in seconds.
HOST_SUCCESS: Final = "HostSuccess"
HOST_LATENCY: Final = "HostLatency"
#: 1 while it is left alone or asked more slowly than configured.
HOST_THROTTLED: Final = "HostThrottled"

HOST: Final = (HOST_RATE, HOST_SUCCESS, HOST_LATENCY, HOST_THROTTLED)

# ---- findings: 0 or 1 under the stage alone ----------------------------------------------------

#: Begins the name of a finding's metric: 1 in each evaluation that has the finding, else 0.
FINDING: Final = "Finding"


def finding(kind: str) -> str:
    """Return the metric of a kind of finding, for the alarm that watches it.

    >>> finding("ledger_difference")
    'FindingLedgerDifference'
    """
    return FINDING + "".join(word.title() for word in kind.split("_"))
