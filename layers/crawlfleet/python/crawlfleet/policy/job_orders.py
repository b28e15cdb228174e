"""Whether a job is what somebody orders: under one name there is one (SPEC.md C2)."""

from hashlib import blake2b

from crawlfleet.model.job import Job, JobOrder
from crawlfleet.model.pool import MAIN_POOL
from crawlfleet.policy.starting import bind


def key_name(key: str) -> str:
    """The name of a job that is started under an idempotency key and has no other.

    >>> key_name("order-1")
    'key.593377485d555df8c051'
    """
    return f"key.{blake2b(key.encode(), digest_size=10).hexdigest()}"


def is_as_ordered(job: Job, order: JobOrder) -> bool:
    """Whether a job that stands under the order's name was made by the same order.

    What the order leaves open may be anything: a retried call leaves open what the first one did.
    """
    if (job.by, job.spider, job.values) != (order.by, order.spider, order.values):
        return False
    if (job.schedule, job.fire_at) != (order.schedule, order.fire_at):
        return False
    if order.version not in {None, job.spider_version} or order.rule not in {None, job.rule}:
        return False
    if order.start is not None and bind(order.start, order.values)[0] != job.start:
        return False
    if order.pool not in {None, job.pool or MAIN_POOL}:
        return False
    return order.priority in {None, job.priority}
