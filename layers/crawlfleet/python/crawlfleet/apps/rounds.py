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
from crawlfleet.jobs.background import AdvancingPorts
from crawlfleet.jobs.cancellation import CancellingPorts
from crawlfleet.jobs.completion import EndingPorts
from crawlfleet.jobs.expansion import ExpandingPorts
from crawlfleet.jobs.mongo.reopening import MongoJobStates, MongoOrphanedJobs
from crawlfleet.jobs.mongo.store import MongoJobs
from crawlfleet.jobs.mongo.usage import MongoDemands
from crawlfleet.jobs.redis import RedisCancellations
from crawlfleet.jobs.usage_averages import LearningPorts
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
        jobs=MongoJobStates(parts.nodes),
    )


def cancelling_ports(parts: Parts) -> CancellingPorts:
    """Everything on the real parts."""
    return CancellingPorts(
        jobs=MongoJobs(parts.nodes),
        store=parts.store,
        ledgers=parts.ledgers,
        cancellations=RedisCancellations(parts.redis),
        learning=LearningPorts(
            demands=MongoDemands(parts.nodes),
            states=MongoJobStates(parts.nodes),
        ),
    )


def advancing_ports(
    parts: Parts, submission: Submissions, seeds: MongoSeeds, detector: RedisFailureDetector
) -> AdvancingPorts:
    """Everything on the real parts.

    What ``submission`` remembers of a backlog is for one thread: it is to be this one's own.
    """
    jobs = MongoJobs(parts.nodes)
    learning = LearningPorts(demands=MongoDemands(parts.nodes), states=MongoJobStates(parts.nodes))
    return AdvancingPorts(
        expanding=ExpandingPorts(jobs=jobs, ledgers=parts.ledgers, submission=submission),
        ending=EndingPorts(
            jobs=jobs,
            ledgers=parts.ledgers,
            seeds=seeds,
            store=parts.store,
            learning=learning,
        ),
        lost=MongoOrphanedJobs(parts.nodes),
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
