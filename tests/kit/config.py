"""Names tests use of documents of the config centre, their validation, loading and publishing."""

from crawlfleet.config import redis as announced_revisions
from crawlfleet.config.documents.biz import (
    Biz,
    DetectorLimits,
    FetchLimits,
    FleetLimits,
    Generation,
    IntakeLimits,
    Needs,
    PoolLimits,
    ProxyPool,
    RetryLimits,
    Rotation,
    Spread,
    Stage,
    Tenant,
    Tree,
)
from crawlfleet.config.documents.policies import (
    LARGEST_SEED,
    BiddingTerms,
    HostLimits,
    KeyRules,
    Politeness,
    RecrawlPolicy,
    Robots,
    SeedPolicy,
    Span,
    Weights,
)
from crawlfleet.config.documents.prices import PriceTerms, Region
from crawlfleet.config.documents.rule import (
    Cast,
    DateFormats,
    Field,
    Follow,
    PageFact,
    Reach,
    Rule,
    Selector,
    Spider,
    Step,
    Word,
)
from crawlfleet.config.documents.secret import Secret
from crawlfleet.config.documents.stage import (
    AlarmLimits,
    BizThresholds,
    CapacityLimits,
    FigureName,
    MonitorLimits,
    ReadingLimits,
    Thresholds,
)
from crawlfleet.config.documents.streams import Channel, ItemFields, StreamTerms
from crawlfleet.config.editing import (
    MOST_KEYS,
    Edit,
    address_in,
    content_at,
    differences,
    edited,
)
from crawlfleet.config.in_force import (
    LOOK_SECONDS,
    MAX_POLL_SECONDS,
    OWN_LOOK_SECONDS,
    POLL_SECONDS,
    SsmConfig,
)
from crawlfleet.config.loading import adopt, push_problems, read_document, shape_of
from crawlfleet.config.lookup import (
    biz_of,
    every_queue,
    limits_of,
    must_operate,
    operates,
    queue_key_of,
    readable_tenants,
    served_queues,
    serves,
    shares_work,
    tenant_of,
)
from crawlfleet.config.parameters import MAX_PARAMETER_BYTES, assemble, encode
from crawlfleet.config.publishing import carry_out, plan, read_documents, write_tree
from crawlfleet.config.redis import RedisRevisions
from crawlfleet.config.ssm import MAX_PAUSE_SECONDS
from crawlfleet.config.validation import (
    LEAD,
    biz_problems,
    change_problems,
    digest_of,
    ended_at,
    needs_problems,
    stage_problems,
    target_problems,
    unchecked,
)
