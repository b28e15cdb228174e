"""Names tests use of the composition of the five functions."""

from crawlfleet.edge.alarms import Alarm, alarms_in
from crawlfleet.edge.starts import is_start, order_in, what_failed
from crawlfleet.wiring.consumer import consumer
from crawlfleet.wiring.id_issuer import id_issuer
from crawlfleet.wiring.monitor import monitor
from crawlfleet.wiring.parts import Outside, Parts, now
from crawlfleet.wiring.process import LOOKS
from crawlfleet.wiring.readers import SCRAPY_FOLDER
from crawlfleet.wiring.router import RouterOperations, router
from crawlfleet.wiring.sampling import unplaced_jobs
from crawlfleet.wiring.scheduler import SCALING_SECONDS, Scheduler, Verbs, scheduler
from crawlfleet.wiring.staffing import staffing_ports
