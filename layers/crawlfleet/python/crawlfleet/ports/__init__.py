"""What the flows ask of the world. Adapters answer.

Unless a method says otherwise it may raise :class:`StoreUnavailableError` when the part behind it
does not answer in time, and then nothing is known of the effect: every method may be called again.
Every method takes the tenant, alone or inside a :class:`Lane`; nothing of another tenant is ever
returned.
"""

from crawlfleet.ports.account import DeadLetters, Journal, Ledgers, SubmissionKeys
from crawlfleet.ports.board import JobBoard
from crawlfleet.ports.cancelling import Cancellations, Heard
from crawlfleet.ports.demands import DemandStore
from crawlfleet.ports.harvest import Bizs, Coverages, DataQueue, Validator
from crawlfleet.ports.hosts import Hosts, RobotsCache, RobotsCopy
from crawlfleet.ports.ids import IdSource, WorkerNumbers
from crawlfleet.ports.incidents import IncidentBook, Notifier
from crawlfleet.ports.jobs import JobStore, SpiderStore
from crawlfleet.ports.lost_jobs import LostJobs
from crawlfleet.ports.pools import PoolBook
from crawlfleet.ports.probing import ProbeBook, Prober
from crawlfleet.ports.queue import (
    Intake,
    LeaseBook,
    Overview,
    QueueFilling,
    RequestQueue,
    Watch,
    Workers,
)
from crawlfleet.ports.readings import Readings, Taken
from crawlfleet.ports.reopening import CancelledJobs, JobReopening, JobStates
from crawlfleet.ports.seeds import SeedFilter, SeedStore
from crawlfleet.ports.staffing import ConcurrencyLimit, Outlook, Staffing, Ticks
from crawlfleet.ports.store import Disowning, RequestStore, RuleStore, ScheduleStore
from crawlfleet.ports.surroundings import (
    Clock,
    ConfigCentre,
    Health,
    MetricSink,
    SecretStore,
)
from crawlfleet.ports.trials import RuleTrial, Trials
from crawlfleet.ports.visits import Visits
from crawlfleet.ports.waking import Waker, WakeReservations
from crawlfleet.ports.web import NO_ERRAND, Errand, Executors, Extractor, Fetcher, Passage, Sessions

__all__ = [
    "NO_ERRAND",
    "Bizs",
    "Cancellations",
    "CancelledJobs",
    "Clock",
    "ConcurrencyLimit",
    "ConfigCentre",
    "Coverages",
    "DataQueue",
    "DeadLetters",
    "DemandStore",
    "Disowning",
    "Errand",
    "Executors",
    "Extractor",
    "Fetcher",
    "Health",
    "Heard",
    "Hosts",
    "IdSource",
    "IncidentBook",
    "Intake",
    "JobBoard",
    "JobReopening",
    "JobStates",
    "JobStore",
    "Journal",
    "LeaseBook",
    "Ledgers",
    "LostJobs",
    "MetricSink",
    "Notifier",
    "Outlook",
    "Overview",
    "Passage",
    "PoolBook",
    "ProbeBook",
    "Prober",
    "QueueFilling",
    "Readings",
    "RequestQueue",
    "RequestStore",
    "RobotsCache",
    "RobotsCopy",
    "RuleStore",
    "RuleTrial",
    "ScheduleStore",
    "SecretStore",
    "SeedFilter",
    "SeedStore",
    "Sessions",
    "SpiderStore",
    "Staffing",
    "SubmissionKeys",
    "Taken",
    "Ticks",
    "Trials",
    "Validator",
    "Visits",
    "WakeReservations",
    "Waker",
    "Watch",
    "WorkerNumbers",
    "Workers",
]
