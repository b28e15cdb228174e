"""The ports of a submission, which several functions make."""

from crawlfleet.apps.context import Parts
from crawlfleet.requests.mongo.store import MongoRules
from crawlfleet.requests.submission.mongo import MongoSubmissionKeys
from crawlfleet.requests.submission.redis import RedisIntake, RememberedIntake
from crawlfleet.requests.submission.service import PoolStarter, Submissions


def submission_ports(parts: Parts) -> Submissions:
    """Everything on the real parts."""
    return Submissions(
        ids=parts.ids,
        store=parts.store,
        queue=parts.queue,
        rules=MongoRules(parts.nodes),
        keys=MongoSubmissionKeys(parts.nodes),
        intake=RememberedIntake(RedisIntake(parts.redis)),
        workers=parts.workers,
        waker=parts.waker,
        starters={
            pool.name: PoolStarter(parts.workers_of(pool.name), parts.waker_of(pool.function))
            for pool in parts.settings.pools
        },
    )
