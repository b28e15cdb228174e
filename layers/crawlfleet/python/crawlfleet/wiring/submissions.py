"""The ports of a submission, which several functions make."""

from crawlfleet.adapters.mongo.rules import MongoRules
from crawlfleet.adapters.mongo.submission_keys import MongoSubmissionKeys
from crawlfleet.adapters.redis_queue.intake import RedisIntake
from crawlfleet.adapters.remembered_intake import RememberedIntake
from crawlfleet.flows.submission import Crew, SubmissionPorts
from crawlfleet.wiring.parts import Parts


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
