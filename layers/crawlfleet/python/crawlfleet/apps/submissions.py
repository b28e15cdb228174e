"""The service of submissions, which several functions open."""

from crawlfleet.apps.context import Parts
from crawlfleet.requests.ceilings.mongo import MongoSizes
from crawlfleet.requests.ceilings.redis import RedisCeilings
from crawlfleet.requests.ceilings.service import TenantCeilings, TenantSizesBook
from crawlfleet.requests.submission.mongo import MongoRules, MongoSubmissionKeys
from crawlfleet.requests.submission.redis import RedisIntake, RememberedIntake
from crawlfleet.requests.submission.service import Submissions
from crawlfleet.requests.submission.waking import PoolStarter


def open_ceilings(parts: Parts) -> TenantCeilings:
    """Open what tenants may have; what it remembers of a worker's permits is for one thread."""
    redis = RedisCeilings(parts.redis)
    sizes = TenantSizesBook(redis=redis, stored=MongoSizes(parts.nodes), open=parts.queue.open)
    return TenantCeilings(redis=redis, sizes=sizes)


def open_submissions(parts: Parts) -> Submissions:
    """Open what a submission needs; what it remembers of a backlog is for one thread."""
    return Submissions(
        ids=parts.ids,
        store=parts.store,
        queue=parts.queue,
        rules=MongoRules(parts.nodes),
        keys=MongoSubmissionKeys(parts.nodes),
        intake=RememberedIntake(RedisIntake(parts.redis)),
        ceilings=open_ceilings(parts),
        workers=parts.workers,
        waker=parts.waker,
        tracer=parts.tracer,
        starters={
            pool.name: PoolStarter(parts.workers_of(pool.name), parts.waker_of(pool.function))
            for pool in parts.settings.pools
        },
    )
