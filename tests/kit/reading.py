"""Names tests use of the process that reads pages."""

from crawlfleet.apps.reading import PAGE_READER
from crawlfleet.crawling.reading import defences, messages
from crawlfleet.crawling.reading import spawner as spawning_side
from crawlfleet.crawling.reading.arena import ARENA_BYTES, Arena
from crawlfleet.crawling.reading.defences import Limits
from crawlfleet.crawling.reading.in_worker import WorkerExecutors
from crawlfleet.crawling.reading.messages import SLICE
from crawlfleet.crawling.reading.reader import PageReader
from crawlfleet.crawling.reading.serving import Answering, PageReaders, serve
from crawlfleet.crawling.reading.spawner import Spawner
from crawlfleet.crawling.reading.spawning import spawn
