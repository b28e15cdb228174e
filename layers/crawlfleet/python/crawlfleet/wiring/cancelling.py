"""The ports of cancelling jobs, which the router, the scheduler and every worker have."""

from crawlfleet.adapters.mongo.demands import MongoDemands
from crawlfleet.adapters.mongo.job_reopening import MongoJobStates
from crawlfleet.adapters.mongo.jobs import MongoJobs
from crawlfleet.adapters.redis_queue.cancellations import RedisCancellations
from crawlfleet.flows.cancelling import CancellingPorts
from crawlfleet.flows.learning import LearningPorts
from crawlfleet.wiring.parts import Parts


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
            warn=parts.warn,
        ),
        warn=parts.warn,
    )
