"""The service of submissions, which several functions open."""

from crawlfleet.apps.context import Parts
from crawlfleet.requests.submission.mongo import MongoRules, MongoSubmissionKeys
from crawlfleet.requests.submission.redis import RedisIntake, RememberedIntake
from crawlfleet.requests.submission.service import PoolStarter, Submissions


def open_submissions(parts: Parts) -> Submissions:
    """Open what a submission needs; what it remembers of a backlog is for one thread."""
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
