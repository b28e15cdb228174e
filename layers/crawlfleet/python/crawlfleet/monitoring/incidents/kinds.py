"""The table of kinds of findings, and what people are to do about each: spelled once.

Imports nothing of ours. The monitor's findings, the messages about them, the alarms of the
infrastructure and the table in docs/reference/monitoring.md (a test compares) all quote it. Of each
kind there is a metric 0 or 1 under the stage alone (``metric_names.finding``). Thresholds are
fields of the stage document's ``thresholds``, so they change without a deployment.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple


class Kind(StrEnum):
    """A kind of finding."""

    PART_DOWN = "part_down"
    REPLICA_UNWELL = "replica_unwell"
    REPLICA_LAG = "replica_lag"
    STORAGE = "storage"
    MEMORY = "memory"
    SLOW_OPERATIONS = "slow_operations"
    CONNECTIONS = "connections"
    LATENCY = "latency"
    REDIS_MEMORY = "redis_memory"
    EVICTIONS = "evictions"
    BACKLOG = "backlog"
    OLDEST_WAITING = "oldest_waiting"
    WILL_BE_LATE = "will_be_late"
    DEAD_LETTERS = "dead_letters"
    EXPIRED = "expired"
    COVERAGE = "coverage"
    EMPTY_FIELDS = "empty_fields"
    LEDGER_DIFFERENCE = "ledger_difference"
    WORKERS_DEAD = "workers_dead"
    NO_WORKERS = "no_workers"
    CAPACITY_SHORT = "capacity_short"
    JOB_UNPLACED = "job_unplaced"
    SCHEDULE_FAILED = "schedule_failed"
    QUOTA_USED_UP = "quota_used_up"
    SCHEDULER_FAULTS = "scheduler_faults"
    HOST_THROTTLED = "host_throttled"
    HOST_FAILING = "host_failing"
    HOST_SLOW = "host_slow"
    PROXIES_AWAY = "proxies_away"
    STREAM_SILENT = "stream_silent"
    STREAM_LATE = "stream_late"
    STREAM_REFUSED = "stream_refused"
    RECEIVER_FAILS = "receiver_fails"
    CONFIG_REFUSED = "config_refused"
    ORPHANED_QUEUES = "strays"
    MONITOR_BLIND = "monitor_blind"


#: Kinds of what rises between two samples. What has risen within one minute does not rise any more
#: with the next sample, and has happened all the same.
RISING: Final = frozenset({Kind.EVICTIONS, Kind.DEAD_LETTERS, Kind.EXPIRED})


class Severity(StrEnum):
    """The urgency of an incident: phones get critical incidents only."""

    WARNING = "warning"
    CRITICAL = "critical"


class Advice(NamedTuple):
    """The texts and rules of a kind.

    ``title`` goes on from a place: "biz acme/docs: the backlog is too deep". ``do`` is what to do
    next; BIZ, NODE and HOST in it stand for the place's own. ``thresholds`` are the fields that
    decide, ``evaluations`` how many in a row must have it, if that is more than the stage's own
    number of them; see :func:`evaluations_required`.
    """

    title: str
    severity: Severity
    do: str
    thresholds: tuple[str, ...]
    evaluations: int


def _warning(title: str, do: str, *thresholds: str, evaluations: int = 1) -> Advice:
    return Advice(title, Severity.WARNING, do, thresholds, evaluations)


def _critical(title: str, do: str, *thresholds: str, evaluations: int = 1) -> Advice:
    return Advice(title, Severity.CRITICAL, do, thresholds, evaluations)


_TABLE: Final = {
    Kind.PART_DOWN: _critical(
        "does not answer",
        "See whether NODE runs and can be reached from the functions. Redis away: submissions go"
        " on, and the tick refills the queues when it is back. A MongoDB node away: submissions to"
        " its shards are refused with 503 until it is back.",
    ),
    Kind.REPLICA_UNWELL: _warning(
        "a replica is not well",
        "Ask `rs.status()` on NODE, or the replication group in ElastiCache: one more member lost"
        " may stop all writes.",
        "unwell_replicas",
        "redis_replicas",
    ),
    Kind.REPLICA_LAG: _warning(
        "a replica lags behind",
        "Look at the load and the disk of NODE's secondaries: writes wait for a majority, and a"
        " failover takes as long as the lag.",
        "lag_seconds",
    ),
    Kind.STORAGE: _critical(
        "the disk fills",
        "Give NODE a larger disk, or add a node by a new generation; shorten ttl_seconds or"
        " records_ttl_seconds of the bizs that fill it.",
        "storage_ratio",
        "storage_bytes",
    ),
    Kind.MEMORY: _warning(
        "its memory is nearly used up",
        "Give NODE more memory, or spread its bizs over more nodes by a new generation.",
        "memory_ratio",
    ),
    Kind.SLOW_OPERATIONS: _warning(
        "operations are slow",
        "Look at NODE's current operations and its load: `db.currentOp()`, or `SLOWLOG GET` on"
        " Redis. Fewer consumers (fleet.max_consumers) relieve it at once.",
        "slow_operations",
    ),
    Kind.CONNECTIONS: _warning(
        "its connections are nearly used up",
        "Each worker opens up to eight to a node: lower fleet.max_consumers, or raise the limit of"
        " NODE; look for other programs that use it.",
        "connections_ratio",
    ),
    Kind.LATENCY: _warning(
        "it answers slowly",
        "Look at NODE's load, and at the network between it and the functions.",
        "latency_seconds",
    ),
    Kind.REDIS_MEMORY: _critical(
        "its memory is nearly used up",
        "Beyond the stage's redis_memory_ratio submissions are answered with 429. Start more"
        " consumers, lower intake.max_backlog of the fullest biz, or take a larger Redis.",
        "redis_memory_ratio",
    ),
    Kind.EVICTIONS: _critical(
        "it throws keys away",
        "Set `maxmemory-policy noeviction`: what Redis evicts are queues and leases. Recovery"
        " fills them again from MongoDB; `crawlfleet ledger BIZ` shows that nothing is lost.",
        "evicted_keys",
    ),
    Kind.BACKLOG: _warning(
        "the backlog is too deep",
        "`crawlfleet stats BIZ --watch` shows whether it grows. Raise fleet.max_consumers, and the"
        " consumers' reserved concurrency with it; at intake.max_backlog submissions are answered"
        " with 429.",
        "backlog",
    ),
    Kind.OLDEST_WAITING: _warning(
        "the oldest request waits too long",
        "`crawlfleet stats BIZ` shows rates and where the time goes, `crawlfleet requests BIZ"
        " --state pending` the oldest, `crawlfleet explain BIZ ID` what it waits for.",
        "oldest_waiting_seconds",
    ),
    Kind.WILL_BE_LATE: _warning(
        "it will not finish in time",
        "`crawlfleet stats BIZ` shows where the time goes. More consumers help"
        " (fleet.max_consumers) unless phases.wait is large: then the hosts' allowed rates are"
        " what holds it up, and the plan (planned_seconds) is too short for them.",
        "planned_seconds",
    ),
    Kind.DEAD_LETTERS: _warning(
        "many requests are given up on",
        "`crawlfleet dead list BIZ --since 1h` shows why. Mend the site's limits, then"
        " `crawlfleet dead replay BIZ --reason ...`; or the rule, then"
        " `crawlfleet dead replay BIZ --reason Extract --current-rule`.",
        "dead_per_minute",
    ),
    Kind.EXPIRED: _warning(
        "requests run out of time unprocessed",
        "More comes in than is done within ttl_seconds: `crawlfleet stats BIZ` compares the rates."
        " Raise fleet.max_consumers, or submit less. Seeds return to the queue by themselves;"
        " other requests that expired must be submitted anew.",
        "expired_per_minute",
    ),
    Kind.COVERAGE: _warning(
        "fields of its records have become rare",
        "The site has changed, or an edit of the rule: `crawlfleet rule coverage BIZ --hours` shows"
        " since when, `crawlfleet rule try RULE URL --remote --biz BIZ` what it reads of a page."
        " Mend the rule; `crawlfleet requests BIZ` lists what was read meanwhile.",
        "coverage_fall",
        "coverage_records",
    ),
    Kind.EMPTY_FIELDS: _warning(
        "most fields of its records have no value",
        "The rule's selectors do not fit its pages: `crawlfleet rule coverage BIZ` shows which"
        " fields, `crawlfleet rule try RULE URL --remote --biz BIZ` says of a page why. Mend the"
        " rule, then read the pages again: `crawlfleet requests BIZ` lists them.",
    ),
    Kind.LEDGER_DIFFERENCE: _critical(
        "its ledger does not balance",
        "`crawlfleet ledger BIZ` says how many. Look for documents that somebody removed by hand,"
        " a node restored from an old backup, or a biz whose collection was renamed.",
        "ledger_difference",
        evaluations=5,
    ),
    Kind.WORKERS_DEAD: _warning(
        "workers are dead and not reaped",
        "`crawlfleet workers BIZ` lists them. Look at the scheduler's and the consumers' logs: the"
        " next tick takes back what the dead hold.",
        "dead_workers",
    ),
    Kind.NO_WORKERS: _critical(
        "there is work and no worker lives",
        "Look at the scheduler's log, which starts the wanted number at each tick, and the"
        " consumer's, which says why one ends; look whether its reserved concurrency is 0 or used"
        " up.",
        evaluations=3,
    ),
    Kind.CAPACITY_SHORT: _warning(
        "there are fewer workers than stated needs come to",
        "`crawlfleet fleet` shows the pools. Raise max_consumers of the pool in the stage"
        " document, and its reserved concurrency with it, or capacity.workers_per_tenant for"
        " whoever states more than that; or have tenants state less. Where workers are allowed and"
        " not alive, the consumer's log says why.",
        evaluations=3,
    ),
    Kind.JOB_UNPLACED: _warning(
        "its jobs get no worker",
        "`crawlfleet job list BIZ --state unplaced` says what each of those wanted that were given"
        " up, and what was on offer. Give a pool more memory or another network, pin the spider to"
        " a pool that suits it, or ask less of its link; then start the job again. Those of"
        " `--state placing` are not lost: where no worker has looked at them see `crawlfleet"
        " fleet` and the consumer's log for why none starts; where those that suit them are busy"
        " raise max_consumers of their pool.",
    ),
    Kind.SCHEDULE_FAILED: _warning(
        "its schedules start no jobs",
        "`crawlfleet schedule list BIZ` says of each why its last fire started no job. Mend the"
        " rule, spider or start that it names, raise open_jobs, or have the tenant resumed; of a"
        " biz that was removed push its document, or `crawlfleet schedule delete BIZ NAME`. What"
        " failed or waits is tried again within five minutes; what was skipped is not:"
        " `crawlfleet schedule run BIZ NAME` makes up for it. It is over when a fire starts its"
        " job, or the schedule is changed, paused or deleted.",
    ),
    Kind.QUOTA_USED_UP: _warning(
        "a quota is used up",
        "What is under it waits for its next period, or ends: `crawlfleet quota show` says which,"
        " how much was used and when it goes on. Raise it in the document of the tenant or the biz,"
        " or with `crawlfleet quota set` where it is a job's, if it is to go on before that.",
    ),
    Kind.SCHEDULER_FAULTS: _warning(
        "not all of its work is done",
        "The scheduler's log says what failed and why: look for WARNING. If it is silent, look"
        " whether the rule scheduler-tick is enabled and whether Lambda starts the function. Until"
        " it is mended no schedule runs, nothing lost is found, or nobody is started, by what has"
        " failed.",
        "tick_silent_seconds",
        "tick_faults",
        evaluations=3,
    ),
    Kind.HOST_THROTTLED: _warning(
        "a site asks for fewer requests",
        "Nothing is lost: HOST is asked more slowly by itself. If it stays, lower per_second or"
        " concurrency in host_limits of the stage document for HOST, or use proxies.",
        "throttled_share",
        "throttled_answers",
        evaluations=5,
    ),
    Kind.HOST_FAILING: _warning(
        "a site answers with errors",
        "Look at a page of HOST by hand: is it down, or has it moved? `crawlfleet dead list BIZ"
        " --since 1h` shows what it answers. Failed pages are tried again, then given up on:"
        " submit nothing of it until it is well, then `crawlfleet dead replay BIZ --reason ...`.",
        "failing_share",
        "host_answers",
        evaluations=5,
    ),
    Kind.HOST_SLOW: _warning(
        "a site answers slowly",
        "Its pages take longer, nothing is lost. If HOST is slow for everybody, lower its"
        " concurrency in host_limits of the stage document; if for the fleet alone, look at the"
        " way there: NAT, proxies.",
        "host_latency_seconds",
        "host_answers",
        evaluations=5,
    ),
    Kind.PROXIES_AWAY: _critical(
        "none of its proxies works",
        "`crawlfleet fleet` shows each with its fault: unreachable, credentials, broken, silent,"
        " closed. Ask whoever runs them, or put others into the pool's secret, which is read again"
        " within five minutes. What leaves by them waits meanwhile, and no attempt of it counts.",
        evaluations=3,
    ),
    Kind.STREAM_SILENT: _warning(
        "a stream brings nothing",
        "`crawlfleet source show BIZ NAME` shows its last item and its last fault. Look at the"
        " stream or the feed by hand: it may have ended, moved, or be read under a filter that"
        " nothing matches any more. It is over with the next item.",
        evaluations=3,
    ),
    Kind.STREAM_LATE: _warning(
        "a stream brings its items late",
        "`crawlfleet source show BIZ NAME` shows its lags. Where it catches up after a pause they"
        " fall by themselves; where they stay, see whether the processes that read streams have"
        " enough CPU time, MongoDB answers slowly, or the channel itself is late.",
        evaluations=5,
    ),
    Kind.STREAM_REFUSED: _warning(
        "a stream refuses its secret",
        "Nothing is read of it. Put a token that is valid into the secret that the channel names in"
        " streams.channels of the stage document; it is read again with the next try, within"
        " minutes.",
    ),
    Kind.RECEIVER_FAILS: _warning(
        "receivers of its subscriptions take nothing",
        "`crawlfleet subscription show BIZ NAME` shows what waits. Mend the queue, topic, bus or"
        " stream, or its policy, or have the stage's streams.targets allow it again; it is tried"
        " again by itself. What waits for a day is given up: `crawlfleet delivery replay BIZ"
        " --reason away` delivers it then.",
    ),
    Kind.CONFIG_REFUSED: _warning(
        "the newest configuration is refused",
        "The last good one is in force. `crawlfleet config validate FOLDER` names every error;"
        " push the corrected folder, or the older one.",
    ),
    Kind.ORPHANED_QUEUES: _warning(
        "work waits for bizs that there are not",
        "A biz was taken out of the configuration, or a Scrapy project puts items in under a wrong"
        " CRAWLFLEET_BIZ; the scheduler's log names them. Push a biz of that name: what waits is"
        " done then.",
    ),
    Kind.MONITOR_BLIND: _warning(
        "the monitor cannot see everything",
        "Every part answers, but something could not be read, and of that no other alarm can tell;"
        " the monitor's log has the whole reasons. It may be a right that our user lacks"
        " (MongoDB's role clusterMonitor, Redis' +info and +slowlog), or a part that is too slow."
        " Figures that nobody is to read are named in monitor.unwatched of the stage document.",
        evaluations=3,
    ),
}
ADVICE: Final[Mapping[Kind, Advice]] = MappingProxyType(_TABLE)


def evaluations_required(kind: Kind, least: int) -> int:
    """Count the evaluations in a row, one a minute, that must have found it before it opens.

    ``least`` are those of any kind that does not rise.

    >>> evaluations_required(Kind.BACKLOG, 2), evaluations_required(Kind.NO_WORKERS, 2)
    (2, 3)
    >>> evaluations_required(Kind.EVICTIONS, 2)
    1
    """
    return 1 if kind in RISING else max(least, ADVICE[kind].evaluations)
