"""Names tests use of the composition of the five functions."""

from crawlfleet.apps.consumer import consumer, pool_scaling
from crawlfleet.apps.context import Outside, Parts, now
from crawlfleet.apps.events import Alarm, alarms_in, is_start, order_in, what_failed
from crawlfleet.apps.id_issuer import id_issuer
from crawlfleet.apps.monitor import monitor, unplaced_jobs
from crawlfleet.apps.process import LOOKS
from crawlfleet.apps.readers import SCRAPY_FOLDER
from crawlfleet.apps.router import RouterContext, router
from crawlfleet.apps.scheduler import SCALING_SECONDS, Scheduler, Verbs, scheduler
