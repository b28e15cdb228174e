"""Names tests use of errors, names, times, queue keys, URLs, paging: what every capability uses."""

from crawlfleet import __version__ as VERSION  # noqa: N812  # a constant of tests
from crawlfleet import errors, metric_names, names
from crawlfleet.errors import (
    AddressRefusedError,
    BacklogFullError,
    ClockSteppedBackError,
    ConfigError,
    ConflictError,
    ConnectFailedError,
    ConsumersBusyError,
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
    NotFoundError,
    NotOperatorError,
    PageGoneError,
    Problem,
    QuotaExceededError,
    RejectedError,
    RobotsDeniedError,
    RobotsUnknownError,
    ServerFaultError,
    StoreConflictError,
    StoreError,
    StoreUnavailableError,
    ThrottledError,
    TooLargeError,
    UnknownBizError,
    UnknownRuleError,
    UnknownTenantError,
    UnwantedTypeError,
    WorkerNumbersExhaustedError,
)
from crawlfleet.flows.tracking import Listing
from crawlfleet.model import pool
from crawlfleet.model.ids import (
    COUNTER_LIMIT,
    SEQUENCE_BITS,
    SNOWFLAKE_EPOCH_MS,
    TIME_SHIFT,
    IdKind,
    RequestId,
    issued_at,
    parse_id,
)
from crawlfleet.model.lane import Lane, bound
from crawlfleet.model.metric import Batch, Metric, Unit
from crawlfleet.model.pool import MAIN_POOL, MOST_POOLS, TAKEN_NAMES, Pool
from crawlfleet.model.priority import USUAL_AGEING, Ageing
from crawlfleet.model.times import from_ms, to_ms
from crawlfleet.model.words import Words
from crawlfleet.names import CONTROL_DATABASE, PRODUCT
from crawlfleet.policy.address import is_public
from crawlfleet.policy.ageing import LEVELS
from crawlfleet.policy.cursor import SETTLING, encode, resume_from
from crawlfleet.policy.cursor import decode as decode_cursor
from crawlfleet.policy.mistakes import decode, named
from crawlfleet.policy.plain_text import one_line, plain
from crawlfleet.policy.politeness import host_of
from crawlfleet.policy.robots import origin_of
from crawlfleet.policy.rotation import rotated
from crawlfleet.policy.rounds import TICK, from_elsewhere
from crawlfleet.policy.target import problem_with, problem_with_headers, problem_with_method
from crawlfleet.policy.turn_order import Turns
from crawlfleet.ports import Clock
from crawlfleet.settings import Need, Settings, scrapy_packages
