"""The ports of seeds, which several functions make.

The ports of a submission, which several functions make.
"""

from typing import Final

from crawlfleet.apps.context import Parts
from crawlfleet.crawling.frontier.dispatch import SeedingPorts
from crawlfleet.crawling.frontier.fingerprint import SeedKeys
from crawlfleet.crawling.frontier.mongo.store import MongoSeeds
from crawlfleet.crawling.frontier.redis import RedisSeedFilter
from crawlfleet.jobs.mongo.reopening import MongoJobStates
from crawlfleet.requests.mongo.store import MongoRules
from crawlfleet.requests.submission.mongo import MongoSubmissionKeys
from crawlfleet.requests.submission.redis import RedisIntake, RememberedIntake
from crawlfleet.requests.submission.service import Crew, SubmissionPorts

#: What decides on the same page, for seeds and for visits alike.
RESOLVERS: Final = SeedKeys()


def seeding_ports(parts: Parts, submission: SubmissionPorts) -> SeedingPorts:
    """Everything on the real parts."""
    return SeedingPorts(
        seeds=MongoSeeds(parts.nodes),
        filter=RedisSeedFilter(parts.redis),
        warn=parts.warn,
        resolver=RESOLVERS,
        submission=submission,
        jobs=MongoJobStates(parts.nodes),
    )


def submission_ports(parts: Parts) -> SubmissionPorts:
    """Everything on the real parts."""
    return SubmissionPorts(
        ids=parts.ids,
        store=parts.store,
        queue=parts.queue,
        rules=MongoRules(parts.nodes),
        keys=MongoSubmissionKeys(parts.nodes),
        intake=RememberedIntake(RedisIntake(parts.redis)),
        workers=parts.workers,
        waker=parts.waker,
        warn=parts.warn,
        crews={
            pool.name: Crew(parts.workers_of(pool.name), parts.waker_of(pool.function))
            for pool in parts.settings.pools
        },
    )
