"""The client library: ``from crawlfleet.sdk import Client``.

The SDK speaks the HTTP API and nothing else; it opens no store and needs no AWS. Read
:class:`Client` for what can be asked, :mod:`crawlfleet.sdk.errors` for what can go wrong: all of it
is imported from here too.
"""

from crawlfleet.kernel.errors import (
    BacklogFullError,
    ConfigError,
    ConflictError,
    CrawlfleetError,
    InvalidRequestError,
    KeyReusedError,
    NotFoundError,
    NotOperatorError,
    Problem,
    QuotaExceededError,
    RejectedError,
    UnknownBizError,
    UnknownRuleError,
    UnknownTenantError,
)
from crawlfleet.sdk.address import Address, find_address
from crawlfleet.sdk.calls import Changed, Pages
from crawlfleet.sdk.client import Client
from crawlfleet.sdk.dead_letters import DeadLetters
from crawlfleet.sdk.entries import Entry, Submitted
from crawlfleet.sdk.errors import (
    ApiError,
    CallTooLargeError,
    NoApiError,
    PartlySubmittedError,
    UnavailableError,
    UncertainError,
    UnreachableError,
    WaitTimeoutError,
)
from crawlfleet.sdk.jobs import Retried
from crawlfleet.sdk.seeds import SeedOffer, Seeds
from crawlfleet.sdk.spiders import Spider, SpiderVersion
from crawlfleet.sdk.transport import Retries, Timeouts
from crawlfleet.wire import ProblemDocument
from crawlfleet.wire.dead_letters import DeadLetter, Sample, SiteAnswer
from crawlfleet.wire.explain import (
    Explanation,
    Standing,
    Step,
    UrlExplanation,
    Visit,
    VisitTotals,
)
from crawlfleet.wire.fleet import (
    BizState,
    Fleet,
    FleetTotals,
    Headcount,
    Health,
    HostState,
    Incident,
    PartState,
    PoolWorkers,
    Running,
    Tick,
    Unread,
    WorkerState,
)
from crawlfleet.wire.jobs import Amount, Demand, Job, JobLedger, JobProgress, Run, Usage
from crawlfleet.wire.requests import RequestStatus, TimelineEvent
from crawlfleet.wire.results import Ledger, Queue, Rates, Record, Speeds, Stats
from crawlfleet.wire.rules import (
    FetchedPage,
    FetchFailure,
    FieldCoverage,
    FollowedLink,
    RuleCoverage,
    TriedRule,
)
from crawlfleet.wire.schedules import NextRun, Outcome, Schedule, StartedJob
from crawlfleet.wire.seeds import Seed, SegmentTotals

__all__ = [
    "Address",
    "Amount",
    "ApiError",
    "BacklogFullError",
    "BizState",
    "CallTooLargeError",
    "Changed",
    "Client",
    "ConfigError",
    "ConflictError",
    "CrawlfleetError",
    "DeadLetter",
    "DeadLetters",
    "Demand",
    "Entry",
    "Explanation",
    "FetchFailure",
    "FetchedPage",
    "FieldCoverage",
    "Fleet",
    "FleetTotals",
    "FollowedLink",
    "Headcount",
    "Health",
    "HostState",
    "Incident",
    "InvalidRequestError",
    "Job",
    "JobLedger",
    "JobProgress",
    "KeyReusedError",
    "Ledger",
    "NextRun",
    "NoApiError",
    "NotFoundError",
    "NotOperatorError",
    "Outcome",
    "Pages",
    "PartState",
    "PartlySubmittedError",
    "PoolWorkers",
    "Problem",
    "ProblemDocument",
    "Queue",
    "QuotaExceededError",
    "Rates",
    "Record",
    "RejectedError",
    "RequestStatus",
    "Retried",
    "Retries",
    "RuleCoverage",
    "Run",
    "Running",
    "Sample",
    "Schedule",
    "Seed",
    "SeedOffer",
    "Seeds",
    "SegmentTotals",
    "SiteAnswer",
    "Speeds",
    "Spider",
    "SpiderVersion",
    "Standing",
    "StartedJob",
    "Stats",
    "Step",
    "Submitted",
    "Tick",
    "TimelineEvent",
    "Timeouts",
    "TriedRule",
    "UnavailableError",
    "UncertainError",
    "UnknownBizError",
    "UnknownRuleError",
    "UnknownTenantError",
    "UnreachableError",
    "Unread",
    "UrlExplanation",
    "Usage",
    "Visit",
    "VisitTotals",
    "WaitTimeoutError",
    "WorkerState",
    "find_address",
]
