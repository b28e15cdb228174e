"""Names tests use of errors, names, times, queue keys, URLs, paging: what every capability uses."""

from crawlfleet import __version__ as VERSION  # noqa: N812  # a constant of tests
from crawlfleet.kernel import errors, metric_names, names, tracing
from crawlfleet.kernel import queue_key as pool
from crawlfleet.kernel.errors import (
    AddressRefusedError,
    BacklogFullError,
    ClockSteppedBackError,
    ConfigError,
    ConflictError,
    ConnectFailedError,
    CrawlfleetError,
    ExtractError,
    FetchError,
    FetchTimeoutError,
    IdsError,
    InvalidRequestError,
    KeyReusedError,
    LeaseLostError,
    LimitRefusedError,
    MessageRefusedError,
    NoConfigurationError,
    NoProxyError,
    NoReaderError,
    NoSecretError,
    NotFoundError,
    NotOperatorError,
    PageGoneError,
    Problem,
    QuotaExceededError,
    ReaderKilledError,
    RejectedError,
    RobotsDeniedError,
    RobotsUnknownError,
    ServerFaultError,
    StoreConflictError,
    StoreError,
    StoreUnavailableError,
    ThrottledError,
    TooLargeError,
    TrialLateError,
    TrialsBusyError,
    UnknownBizError,
    UnknownRuleError,
    UnknownTenantError,
    UnwantedTypeError,
    WorkerNumbersExhaustedError,
)
from crawlfleet.kernel.fairness import (
    DEMAND_SECONDS,
    TICK,
    FairParts,
    FairQueue,
    FairShares,
    by_shares,
    in_turns,
    parts_of,
    rotated,
)
from crawlfleet.kernel.hosts import host_of, origin_of
from crawlfleet.kernel.ids import (
    COUNTER_LIMIT,
    SEQUENCE_BITS,
    SNOWFLAKE_EPOCH_MS,
    TIME_SHIFT,
    IdKind,
    RequestId,
    issued_at,
    parse_id,
)
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.metrics import Batch, Metric, SparingMetrics, Unit
from crawlfleet.kernel.names import CONTROL_DATABASE, PRODUCT
from crawlfleet.kernel.paging import SETTLING, Listing, encode, resume_from
from crawlfleet.kernel.paging import decode as decode_cursor
from crawlfleet.kernel.queue_key import (
    LEVELS,
    MAIN_POOL,
    MOST_POOLS,
    TAKEN_NAMES,
    USUAL_AGEING,
    Ageing,
    Pool,
    QueueKey,
    bound,
)
from crawlfleet.kernel.redaction import Mask, one_line, plain
from crawlfleet.kernel.settings import Need, Settings, scrapy_packages
from crawlfleet.kernel.time import SURE_SECONDS, Clock, Recent, SteadyTime, from_ms, to_ms
from crawlfleet.kernel.urls import (
    is_public,
    problem_with,
    problem_with_headers,
    problem_with_method,
)
from crawlfleet.kernel.validation import Words, decode, named
