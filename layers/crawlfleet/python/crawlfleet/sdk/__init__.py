"""What people import: ``from crawlfleet.sdk import Client``.

The SDK speaks the HTTP API and nothing else; it opens no store and needs no AWS. Read
:class:`Client` for what can be asked, :mod:`crawlfleet.sdk.faults` for what can go wrong: all of it
is imported from here too.
"""

from crawlfleet.errors import (
    BacklogFullError,
    ConfigError,
    ConflictError,
    CrawlfleetError,
    InvalidRequestError,
    KeyReusedError,
    NotFoundError,
    Problem,
    QuotaExceededError,
    RejectedError,
    UnknownBizError,
    UnknownRuleError,
    UnknownTenantError,
)
from crawlfleet.sdk.address import Address, find_address
from crawlfleet.sdk.client import Client
from crawlfleet.sdk.faults import (
    ApiError,
    PartlySubmittedError,
    UnavailableError,
    UncertainError,
    UnreachableError,
    WaitTimeoutError,
)
from crawlfleet.sdk.findings import (
    Changed,
    DeadLetter,
    Explanation,
    FieldCoverage,
    Ledger,
    RuleCoverage,
    Sample,
    SiteAnswer,
    Standing,
    Step,
    UrlExplanation,
    Visit,
    VisitTotals,
    WorkerState,
)
from crawlfleet.sdk.letters import DeadLetters
from crawlfleet.sdk.pages import Pages
from crawlfleet.sdk.results import (
    Entry,
    ProblemDocument,
    Queue,
    Rates,
    Record,
    RequestStatus,
    Schedule,
    Speeds,
    Stats,
    Submitted,
    TimelineEvent,
)
from crawlfleet.sdk.seeds import Seed, SeedOffer, Seeds, SegmentTotals
from crawlfleet.sdk.transport import Retries, Timeouts
from crawlfleet.sdk.trials import FetchedPage, FetchFailure, FollowedLink, TriedRule

__all__ = [
    "Address",
    "ApiError",
    "BacklogFullError",
    "Changed",
    "Client",
    "ConfigError",
    "ConflictError",
    "CrawlfleetError",
    "DeadLetter",
    "DeadLetters",
    "Entry",
    "Explanation",
    "FetchFailure",
    "FetchedPage",
    "FieldCoverage",
    "FollowedLink",
    "InvalidRequestError",
    "KeyReusedError",
    "Ledger",
    "NotFoundError",
    "Pages",
    "PartlySubmittedError",
    "Problem",
    "ProblemDocument",
    "Queue",
    "QuotaExceededError",
    "Rates",
    "Record",
    "RejectedError",
    "RequestStatus",
    "Retries",
    "RuleCoverage",
    "Sample",
    "Schedule",
    "Seed",
    "SeedOffer",
    "Seeds",
    "SegmentTotals",
    "SiteAnswer",
    "Speeds",
    "Standing",
    "Stats",
    "Step",
    "Submitted",
    "TimelineEvent",
    "Timeouts",
    "TriedRule",
    "UnavailableError",
    "UncertainError",
    "UnknownBizError",
    "UnknownRuleError",
    "UnknownTenantError",
    "UnreachableError",
    "UrlExplanation",
    "Visit",
    "VisitTotals",
    "WaitTimeoutError",
    "WorkerState",
    "find_address",
]
