"""The ports of jobs that go on, which every worker and the scheduler have."""

from crawlfleet.adapters.mongo.demands import MongoDemands
from crawlfleet.adapters.mongo.job_reopening import MongoJobStates
from crawlfleet.adapters.mongo.jobs import MongoJobs
from crawlfleet.adapters.mongo.lost_jobs import MongoLostJobs
from crawlfleet.flows.advancing import AdvancingPorts
from crawlfleet.flows.ending import EndingPorts
from crawlfleet.flows.expanding import ExpandingPorts
from crawlfleet.flows.learning import LearningPorts
from crawlfleet.flows.submission import SubmissionPorts
from crawlfleet.ports import SeedStore, Watch
from crawlfleet.wiring.parts import Parts


def advancing_ports(
    parts: Parts, submission: SubmissionPorts, seeds: SeedStore, watch: Watch
) -> AdvancingPorts:
    """Everything on the real parts.

    What ``submission`` remembers of a backlog is for one thread: it is to be this one's own.
    """
    jobs = MongoJobs(parts.nodes)
    warn = submission.warn
    learning = LearningPorts(
        demands=MongoDemands(parts.nodes), states=MongoJobStates(parts.nodes), warn=warn
    )
    return AdvancingPorts(
        expanding=ExpandingPorts(jobs=jobs, ledgers=parts.ledgers, submission=submission),
        ending=EndingPorts(
            jobs=jobs,
            ledgers=parts.ledgers,
            seeds=seeds,
            store=parts.store,
            learning=learning,
            warn=warn,
        ),
        lost=MongoLostJobs(parts.nodes),
        watch=watch,
        warn=warn,
    )
