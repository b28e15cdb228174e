"""Names tests use of the client library."""

from crawlfleet import sdk
from crawlfleet.sdk import (
    ApiError,
    BizState,
    CallTooLargeError,
    Client,
    ConflictError,
    Entry,
    Fleet,
    FleetTotals,
    Headcount,
    Health,
    HostState,
    Incident,
    InvalidRequestError,
    Job,
    Ledger,
    NoApiError,
    NotFoundError,
    PartlySubmittedError,
    PartState,
    Queue,
    RequestStatus,
    Retries,
    Running,
    Stats,
    Submitted,
    Tick,
    Timeouts,
    UnavailableError,
    UncertainError,
    UnreachableError,
    Unread,
    WaitTimeoutError,
    WorkerState,
    find_address,
)
from crawlfleet.sdk import errors as faults
from crawlfleet.sdk.address import Address
from crawlfleet.sdk.calls import Pages
from crawlfleet.sdk.entries import BATCH_BYTES
from crawlfleet.sdk.transport import Transport
