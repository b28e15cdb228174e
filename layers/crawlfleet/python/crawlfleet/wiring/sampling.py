"""What looking at everything needs, for whoever looks: the monitor, and operators by the API."""

from datetime import datetime, timedelta
from typing import Final

from crawlfleet.adapters.part_health import PartHealth
from crawlfleet.adapters.redis_queue.bizs import RedisBizs
from crawlfleet.adapters.redis_queue.data_queue import RedisDataQueue
from crawlfleet.adapters.redis_queue.hosts import RedisHosts
from crawlfleet.adapters.redis_queue.overview import RedisOverview
from crawlfleet.adapters.redis_queue.ticks import RedisTicks
from crawlfleet.adapters.redis_queue.watch import RedisWatch
from crawlfleet.errors import CrawlfleetError
from crawlfleet.flows.sampling import SamplingPorts
from crawlfleet.flows.staffing import decided
from crawlfleet.flows.strays import count_strays, lanes_by_tenant
from crawlfleet.model.bidding import BiddingTerms
from crawlfleet.model.biz import Tree
from crawlfleet.model.sample import PoolState, UnplacedJob
from crawlfleet.ports import JobStore
from crawlfleet.wiring.parts import Parts

#: A job that no worker suited is told of for so long; so many at most, and as many that wait.
UNPLACED_FOR: Final = timedelta(minutes=15)
MOST_UNPLACED: Final = 200
_NOT_SAID: Final = "nobody has looked after it yet"


def configuration(parts: Parts) -> tuple[Tree | None, str | None]:
    """What is in force, if anything ever was, and why the newest is not."""
    try:
        tree = parts.config.current()
    except CrawlfleetError as error:
        parts.warn("there is no configuration", error)
        return None, str(error)
    return tree, refusal(parts)


def refusal(parts: Parts) -> str | None:
    """Why the newest configuration is not in force; None where it is."""
    refused = parts.config.refused
    if refused is None:
        return None
    return "; ".join(str(problem) for problem in refused.problems)


def sampling_ports(parts: Parts) -> SamplingPorts:
    """What sampling needs, over the parts of this environment."""
    bizs, data = RedisBizs(parts.redis), RedisDataQueue(parts.redis)

    def strays(tree: Tree, _: datetime) -> tuple[int, int]:
        gone = sorted(bizs.gone(lanes_by_tenant(tree)))
        return count_strays(gone, data, parts.queue, tree.further_pools)

    return SamplingPorts(
        queue=parts.queue,
        overview=RedisOverview(parts.redis),
        store=parts.store,
        ledgers=parts.ledgers,
        workers=parts.workers,
        watch=RedisWatch(parts.redis),
        hosts=RedisHosts(parts.redis),
        health=PartHealth(parts.redis, parts.nodes, lambda: parts.config.current().stage.nodes),
        decided=lambda: decided(parts.staffing),
        strays=strays,
        ticked=RedisTicks(parts.redis).last,
        warn=parts.warn,
        pools=lambda: pool_states(parts),
        unplaced=lambda now, terms: unplaced_jobs(_jobs(parts), now, terms),
    )


def _jobs(parts: Parts) -> JobStore:
    """The jobs; what reads them is imported where a stage has bidding alone."""
    from crawlfleet.adapters.mongo.jobs import MongoJobs

    return MongoJobs(parts.nodes)


def unplaced_jobs(jobs: JobStore, now: datetime, terms: BiddingTerms) -> list[UnplacedJob]:
    """Jobs given up of late as no worker suits them, and those that wait beyond the patience.

    Raises:
        StoreUnavailableError: the home node does not answer.
    """
    given_up = jobs.unplaced(now - UNPLACED_FOR, MOST_UNPLACED)
    waiting = jobs.waiting(now - timedelta(seconds=terms.patience_seconds), MOST_UNPLACED)
    return [
        *(
            UnplacedJob(tenant=job.tenant, biz=job.biz, job=job.name, why=job.trouble or "")
            for job in given_up
        ),
        *(
            UnplacedJob(
                tenant=job.tenant,
                biz=job.biz,
                job=job.name,
                why=job.trouble or _NOT_SAID,
                since=job.created_at,
            )
            for job in waiting
        ),
    ]


def pool_states(parts: Parts) -> list[PoolState]:
    """What is known of the pools beside the usual one."""
    return [
        PoolState(
            pool=pool,
            present=len(parts.workers_of(pool.name).live()),
            staff=decided(parts.staffing, pool.name),
        )
        for pool in parts.settings.pools
    ]
