"""The ports of a submission, which the router and the scheduler both make."""

from crawlfleet.adapters.mongo.rules import MongoRules
from crawlfleet.flows.submission import SubmissionPorts
from crawlfleet.wiring.parts import Parts


def submission_ports(parts: Parts) -> SubmissionPorts:
    """Everything on the real parts."""
    return SubmissionPorts(
        ids=parts.ids,
        store=parts.store,
        queue=parts.queue,
        rules=MongoRules(parts.nodes),
        workers=parts.workers,
        waker=parts.waker,
        warn=parts.warn,
    )
