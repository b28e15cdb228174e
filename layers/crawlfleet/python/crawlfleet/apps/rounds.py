"""Services of seeds, jobs and recovery, which several functions open."""

from functools import partial
from typing import Final

from crawlfleet.apps.context import Parts
from crawlfleet.crawling.frontier.adding import Sparing
from crawlfleet.crawling.frontier.dispatch import SeedDispatcher
from crawlfleet.crawling.frontier.mongo.store import MongoSeeds
from crawlfleet.crawling.frontier.redis import RedisSeedFilter
from crawlfleet.crawling.frontier.resolvers import SeedKeys, Segments
from crawlfleet.crawling.politeness.redis import RedisHosts
from crawlfleet.crawling.recrawl.mongo import MongoVisits
from crawlfleet.crawling.recrawl.service import undue
from crawlfleet.fleet.mongo import MongoPoolBook
from crawlfleet.fleet.quotas.mongo import MongoCeilings
from crawlfleet.fleet.quotas.redis import RedisQuotaLedgers
from crawlfleet.fleet.quotas.service import QuotaLedgers
from crawlfleet.fleet.recovery.reaper import Reaper
from crawlfleet.fleet.recovery.service import Recovery
from crawlfleet.fleet.redis.registry import RedisFailureDetector
from crawlfleet.jobs.bidding.auction import JobAuction
from crawlfleet.jobs.bidding.redis import RedisBoard
from crawlfleet.jobs.cancellation import JobCancellation
from crawlfleet.jobs.completion import JobRounds
from crawlfleet.jobs.costs.mongo import MongoHistories
from crawlfleet.jobs.expansion import JobExpansion
from crawlfleet.jobs.mongo.lists import MongoOrphanedJobs
from crawlfleet.jobs.mongo.store import MongoJobs
from crawlfleet.jobs.mongo.usage import MongoDemands
from crawlfleet.jobs.redis import RedisCancellations
from crawlfleet.jobs.usage import RunUsage
from crawlfleet.requests.mongo.ledger import MongoJournal
from crawlfleet.requests.mongo.reclaim import MongoLeaseRevocation
from crawlfleet.requests.queue.redis.recovery import RedisLeaseBook, RedisQueueRebuild
from crawlfleet.requests.submission.service import Submissions

#: Decides whether two URLs are one page, for seeds and for visits alike.
RESOLVERS: Final = SeedKeys()
#: Decides which segment a moment lies in.
SEGMENTS: Final = Segments()


def open_seed_dispatcher(parts: Parts, submission: Submissions) -> SeedDispatcher:
    """Open what makes requests of seeds."""
    visits = MongoVisits(parts.nodes)
    return SeedDispatcher(
        seeds=MongoSeeds(parts.nodes),
        filter=RedisSeedFilter(parts.redis),
        resolver=RESOLVERS,
        segments=SEGMENTS,
        sparing=Sparing(partial(undue, visits), visits.spared),
        submission=submission,
        jobs=MongoJobs(parts.nodes),
    )


def open_run_usage(parts: Parts) -> RunUsage:
    """Open the usage of jobs."""
    nodes = parts.nodes
    return RunUsage(
        demands=MongoDemands(nodes), jobs=MongoJobs(nodes), histories=MongoHistories(nodes)
    )


def open_cancellation(parts: Parts) -> JobCancellation:
    """Open what cancels jobs."""
    return JobCancellation(
        jobs=MongoJobs(parts.nodes),
        store=parts.store,
        ledgers=parts.ledgers,
        cancellations=RedisCancellations(parts.redis),
        usage=open_run_usage(parts),
    )


def open_job_rounds(
    parts: Parts, submission: Submissions, seeds: MongoSeeds, detector: RedisFailureDetector
) -> JobRounds:
    """Open what makes tasks of jobs and ends them.

    What ``submission`` remembers of a backlog is for one thread: it is to be this one's own.
    """
    jobs = MongoJobs(parts.nodes)
    return JobRounds(
        jobs=jobs,
        orphaned=MongoOrphanedJobs(parts.nodes),
        expansion=JobExpansion(jobs=jobs, ledgers=parts.ledgers, submission=submission),
        ledgers=parts.ledgers,
        seeds=seeds,
        store=parts.store,
        usage=open_run_usage(parts),
        detector=detector,
    )


def open_auction(parts: Parts, detector: RedisFailureDetector) -> JobAuction:
    """Open what gives jobs to workers that applied."""
    return JobAuction(
        jobs=MongoJobs(parts.nodes),
        board=RedisBoard(parts.redis),
        demands=MongoDemands(parts.nodes),
        detector=detector,
        say=parts.log.info,
    )


def open_quotas(parts: Parts) -> QuotaLedgers:
    """Open the ledgers of quotas; what they remember is for one holder or reader."""
    return QuotaLedgers(RedisQuotaLedgers(parts.redis), MongoCeilings(parts.nodes))


def open_recovery(parts: Parts) -> Recovery:
    """Open what brings back lost requests."""
    return Recovery(
        store=parts.store,
        ledgers=parts.ledgers,
        revocation=MongoLeaseRevocation(parts.nodes),
        queue=parts.queue,
        rebuild=RedisQueueRebuild(parts.redis),
        book=RedisLeaseBook(parts.redis),
        detector=RedisFailureDetector(parts.redis),
        journal=MongoJournal(parts.nodes),
        pools=MongoPoolBook(parts.nodes),
    )


def open_reaper(recovery: Recovery, hosts: RedisHosts) -> Reaper:
    """Open what reaps dead workers, over what recovery works on."""
    return Reaper(
        detector=recovery.detector,
        book=recovery.book,
        queue=recovery.queue,
        hosts=hosts,
        revocation=recovery.revocation,
        journal=recovery.journal,
    )
