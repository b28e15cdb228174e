"""Names tests use of the consumer's engine: leases, attempts, results, lifecycle."""

from crawlfleet.crawling.frontier.worker import FrontierClient
from crawlfleet.fleet.models import WorkReport
from crawlfleet.kernel.time import PAUSES, STEADY, Pauses, SteadyTime
from crawlfleet.requests.leased import NOTHING
from crawlfleet.worker.affinity import MOST_WORKERS, PATIENCE_MS, Placing, chosen, owner, salt
from crawlfleet.worker.background import BackgroundTasks
from crawlfleet.worker.cancellation import Stopper
from crawlfleet.worker.heartbeat import Heartbeat
from crawlfleet.worker.leases import Leasing
from crawlfleet.worker.lifecycle import PART as STAGGERED_PART
from crawlfleet.worker.lifecycle import early_seconds
from crawlfleet.worker.parsing import LINK_BYTES, PART, SLICE, Pace, Phases, Reading
from crawlfleet.worker.ports import WorkPorts
from crawlfleet.worker.settler import Settler
from crawlfleet.worker.telemetry import QUEUES, ThroughputMeter
from crawlfleet.worker.unconfirmed_leases import UnconfirmedLeases
from crawlfleet.worker.usage_meter import FORGET_SECONDS, Idle, RunMeter, RunPorts, travelled
from crawlfleet.worker.worker import GIVE_UP, HAND_BACK, Worker
