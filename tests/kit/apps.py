"""Names tests use of the composition of the six functions."""

from crawlfleet.apps import stream_function, stream_starts
from crawlfleet.apps.api import router
from crawlfleet.apps.consumer import consumer, pool_scaling
from crawlfleet.apps.context import START_SECONDS, Outside, Parts, now
from crawlfleet.apps.events import Alarm, alarms_in, is_start, order_in, what_failed
from crawlfleet.apps.id_issuer import id_issuer
from crawlfleet.apps.monitor import monitor, unplaced_jobs
from crawlfleet.apps.process import LOOKS
from crawlfleet.apps.readers import SCRAPY_FOLDER
from crawlfleet.apps.router import RouterContext
from crawlfleet.apps.scheduler import IN_TIME_SECONDS, SCALING_SECONDS, Scheduler, Verbs, scheduler
from crawlfleet.apps.stream_function import StreamFunction
from crawlfleet.apps.streams import StreamReaders
from crawlfleet.apps.trials import trials
