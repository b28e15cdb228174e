"""The ports of seeds and of cancelling jobs, which the router, the scheduler and workers have.

The ports of jobs that go on, which every worker and the scheduler have.

The ports of watching and recovery, which every worker and the scheduler have.
"""

from typing import Final

from crawlfleet.apps.context import Parts
from crawlfleet.crawling.frontier.dispatch import SeedDispatcher
from crawlfleet.crawling.frontier.fingerprint import SeedKeys
from crawlfleet.crawling.frontier.mongo.store import MongoSeeds
from crawlfleet.crawling.frontier.redis import RedisSeedFilter
from crawlfleet.crawling.politeness.redis import RedisHosts
from crawlfleet.fleet.mongo import MongoPoolBook
from crawlfleet.fleet.recovery.reaper import Reaper
from crawlfleet.fleet.recovery.service import Recovery
from crawlfleet.fleet.redis.registry import RedisFailureDetector
from crawlfleet.jobs.cancellation import JobCancellation
from crawlfleet.jobs.completion import JobRounds
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

#: What decides on the same page, for seeds and for visits alike.
RESOLVERS: Final = SeedKeys()


def seeding_ports(parts: Parts, submission: Submissions) -> SeedDispatcher:
    """Everything on the real parts."""
    return SeedDispatcher(
        seeds=MongoSeeds(parts.nodes),
        filter=RedisSeedFilter(parts.redis),
        resolver=RESOLVERS,
        submission=submission,
        jobs=MongoJobs(parts.nodes),
    )


def run_usage(parts: Parts) -> RunUsage:
    """What runs take, learnt and answered."""
    return RunUsage(demands=MongoDemands(parts.nodes), jobs=MongoJobs(parts.nodes))


def cancelling_ports(parts: Parts) -> JobCancellation:
    """Everything on the real parts."""
    return JobCancellation(
        jobs=MongoJobs(parts.nodes),
        store=parts.store,
        ledgers=parts.ledgers,
        cancellations=RedisCancellations(parts.redis),
        usage=run_usage(parts),
    )


def advancing_ports(
    parts: Parts, submission: Submissions, seeds: MongoSeeds, detector: RedisFailureDetector
) -> JobRounds:
    """Everything on the real parts.

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
        usage=run_usage(parts),
        detector=detector,
    )


def open_recovery(parts: Parts) -> Recovery:
    """Everything on the real parts."""
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
    """The same parts, as far as a look at the workers needs them, and the turns at hosts."""
    return Reaper(
        detector=recovery.detector,
        book=recovery.book,
        queue=recovery.queue,
        hosts=hosts,
        revocation=recovery.revocation,
        journal=recovery.journal,
    )
