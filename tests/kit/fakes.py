"""Names tests use of the in-memory twins of stores, queues and the web."""

from crawlfleet.adapters.memory.bizs import MemoryBizs
from crawlfleet.adapters.memory.board import MemoryBoard
from crawlfleet.adapters.memory.cancellations import MemoryCancellations
from crawlfleet.adapters.memory.coverages import MemoryCoverages
from crawlfleet.adapters.memory.data_queue import MemoryDataQueue
from crawlfleet.adapters.memory.dead_letters import MemoryDeadLetters
from crawlfleet.adapters.memory.demands import MemoryDemands
from crawlfleet.adapters.memory.disowning import MemoryDisowning
from crawlfleet.adapters.memory.fetcher import MemoryFetcher
from crawlfleet.adapters.memory.filling import MemoryFilling
from crawlfleet.adapters.memory.hosts import MemoryHosts
from crawlfleet.adapters.memory.incidents import MemoryIncidentBook, MemoryNotifier
from crawlfleet.adapters.memory.intake import MemoryIntake
from crawlfleet.adapters.memory.job_reopening import MemoryJobReopening, MemoryJobStates
from crawlfleet.adapters.memory.jobs import MemoryJobs
from crawlfleet.adapters.memory.journal import MemoryJournal
from crawlfleet.adapters.memory.lease_book import MemoryLeaseBook
from crawlfleet.adapters.memory.ledgers import MemoryLedgers
from crawlfleet.adapters.memory.lost_jobs import MemoryLostJobs
from crawlfleet.adapters.memory.numbers import MemoryWorkerNumbers
from crawlfleet.adapters.memory.overview import MemoryOverview
from crawlfleet.adapters.memory.pools import MemoryPoolBook
from crawlfleet.adapters.memory.probes import MemoryProber, MemoryProbes
from crawlfleet.adapters.memory.queue import MemoryQueue
from crawlfleet.adapters.memory.readings import MemoryReadings
from crawlfleet.adapters.memory.robots import MemoryRobotsCache
from crawlfleet.adapters.memory.rules import MemoryRules
from crawlfleet.adapters.memory.schedules import MemorySchedules
from crawlfleet.adapters.memory.seed_filter import MemorySeedFilter
from crawlfleet.adapters.memory.seeds import MemorySeeds
from crawlfleet.adapters.memory.sessions import MemorySessions
from crawlfleet.adapters.memory.spiders import MemorySpiders
from crawlfleet.adapters.memory.staffing import MemoryLimit, MemoryOutlook, MemoryStaffing
from crawlfleet.adapters.memory.store import MemoryRequestStore
from crawlfleet.adapters.memory.submission_keys import MemorySubmissionKeys
from crawlfleet.adapters.memory.ticks import MemoryTicks
from crawlfleet.adapters.memory.trials import MemoryTrials
from crawlfleet.adapters.memory.visits import MemoryVisits
from crawlfleet.adapters.memory.watch import MemoryWatch
from crawlfleet.adapters.memory.workers import MemoryWorkers
