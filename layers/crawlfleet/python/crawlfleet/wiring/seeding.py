"""The ports of seeds, which several functions make."""

from typing import Final

from crawlfleet.adapters.mongo.job_reopening import MongoJobStates
from crawlfleet.adapters.mongo.seeds import MongoSeeds
from crawlfleet.adapters.redis_queue.seed_filter import RedisSeedFilter
from crawlfleet.adapters.seed_keys import SeedKeys
from crawlfleet.flows.seeding import SeedingPorts
from crawlfleet.flows.submission import SubmissionPorts
from crawlfleet.wiring.parts import Parts

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
