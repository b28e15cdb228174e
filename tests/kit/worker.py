"""Names tests use of the consumer's engine: leases, attempts, results, lifecycle."""

from crawlfleet.flows.chores import Chores
from crawlfleet.flows.execution import GIVE_UP, HAND_BACK, Worker
from crawlfleet.flows.heart import Heart
from crawlfleet.flows.heeding import Stopper
from crawlfleet.flows.holding import NOTHING
from crawlfleet.flows.leasing import Leasing
from crawlfleet.flows.pauses import PAUSES, STEADY, Pauses, SteadyTime
from crawlfleet.flows.phases import Phases
from crawlfleet.flows.placing import MOST_WORKERS, Placing
from crawlfleet.flows.reading import LINK_BYTES, PART, SLICE, Pace, Reading
from crawlfleet.flows.run_meter import FORGET_SECONDS, Idle, RunMeter, RunPorts, travelled
from crawlfleet.flows.settling import Settler
from crawlfleet.flows.sowing import Sower
from crawlfleet.flows.tempo import LANES, Tempo
from crawlfleet.flows.unanswered import Unanswered
from crawlfleet.flows.work_ports import WorkPorts
from crawlfleet.model.worker import WorkReport
from crawlfleet.policy.affinity import PATIENCE_MS, chosen, owner, salt
from crawlfleet.policy.staggering import PART as STAGGERED_PART
from crawlfleet.policy.staggering import early_seconds
