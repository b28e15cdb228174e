"""What the flows ask of the world. Adapters answer; ``adapters.memory`` is the twin that ships.

Unless a method says otherwise it may raise :class:`StoreUnavailableError` when the part behind it
does not answer in time, and then nothing is known of the effect: every method may be called again.
Every method takes the tenant, alone or inside a :class:`Lane`; nothing of another tenant is ever
returned.
"""

from crawlfleet.ports.account import DeadLetters, Journal, Ledgers, SubmissionKeys
from crawlfleet.ports.ids import IdSource, WorkerNumbers
from crawlfleet.ports.queue import Intake, LeaseBook, QueueFilling, RequestQueue, Watch, Workers
from crawlfleet.ports.store import Disowning, RequestStore, RuleStore, ScheduleStore
from crawlfleet.ports.surroundings import Clock, ConfigCentre, Health, MetricSink, Waker
from crawlfleet.ports.web import Extractor, Fetcher, Ours

__all__ = [
    "Clock",
    "ConfigCentre",
    "DeadLetters",
    "Disowning",
    "Extractor",
    "Fetcher",
    "Health",
    "IdSource",
    "Intake",
    "Journal",
    "LeaseBook",
    "Ledgers",
    "MetricSink",
    "Ours",
    "QueueFilling",
    "RequestQueue",
    "RequestStore",
    "RuleStore",
    "ScheduleStore",
    "SubmissionKeys",
    "Waker",
    "Watch",
    "WorkerNumbers",
    "Workers",
]
