"""Names tests use of the consumer's engine: leases, attempts, results, lifecycle."""

from crawlfleet.flows import (
    chores,
    execution,
    heart,
    heeding,
    leasing,
    owning,
    reading,
    run_meter,
    settling,
    unanswered,
)
from crawlfleet.flows.execution import HAND_BACK, Worker
from crawlfleet.flows.heart import Heart
from crawlfleet.flows.heeding import Stopper
from crawlfleet.flows.phases import Phases
from crawlfleet.flows.placing import MOST_WORKERS, Placing
from crawlfleet.flows.reading import LINK_BYTES, PART, SLICE, Pace, Reading
from crawlfleet.flows.run_meter import Idle, RunMeter, RunPorts, travelled
from crawlfleet.flows.tempo import LANES, Tempo
from crawlfleet.flows.work_ports import WorkPorts
from crawlfleet.policy.affinity import PATIENCE_MS, chosen, owner, salt
from crawlfleet.policy.staggering import PART as STAGGERED_PART
from crawlfleet.policy.staggering import early_seconds
