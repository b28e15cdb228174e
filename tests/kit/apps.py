"""Names tests use of the composition of the five functions."""

from crawlfleet.edge.alarms import Alarm, alarms_in
from crawlfleet.edge.starts import is_start, order_in, what_failed
from crawlfleet.wiring import consumer as consumer_app
from crawlfleet.wiring import id_issuer
from crawlfleet.wiring import monitor as monitor_app
from crawlfleet.wiring import router as router_app
from crawlfleet.wiring import scheduler as scheduler_app
from crawlfleet.wiring.consumer import consumer
from crawlfleet.wiring.parts import Parts, now
from crawlfleet.wiring.process import LOOKS
from crawlfleet.wiring.readers import SCRAPY_FOLDER
from crawlfleet.wiring.router import _operations, router
from crawlfleet.wiring.sampling import unplaced_jobs
from crawlfleet.wiring.scheduler import Scheduler, scheduler
from crawlfleet.wiring.staffing import staffing_ports
