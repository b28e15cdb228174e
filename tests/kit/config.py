"""Names tests use of documents of the config centre, their validation, loading and publishing."""

from crawlfleet.adapters.ssm_config import MAX_POLL_SECONDS, POLL_SECONDS, SsmConfig, write_tree
from crawlfleet.adapters.ssm_tree import MAX_PARAMETER_BYTES, assemble, encode
from crawlfleet.adapters.ssm_writer import carry_out, plan, read_documents
from crawlfleet.flows.configuration import biz_of
from crawlfleet.model.alarms import AlarmLimits, BizThresholds, Thresholds
from crawlfleet.model.bidding import BiddingTerms, Weights
from crawlfleet.model.biz import (
    Biz,
    DetectorLimits,
    FetchLimits,
    FigureName,
    FleetLimits,
    Generation,
    IntakeLimits,
    MonitorLimits,
    PoolLimits,
    RetryLimits,
    Spread,
    Stage,
    Tenant,
    Tree,
)
from crawlfleet.model.needs import CapacityLimits, Needs
from crawlfleet.model.politeness import HostLimits, Politeness, Robots
from crawlfleet.model.proxy import ProxyPool, Rotation
from crawlfleet.model.recrawl import RecrawlPolicy
from crawlfleet.model.rule import Cast, Field, Follow, PageFact, Reach, Rule, Selector
from crawlfleet.model.seed import LARGEST_OFFER, KeyRules, SeedPolicy, Span
from crawlfleet.model.spider import Spider
from crawlfleet.model.step import DateFormats, Step, Word
from crawlfleet.policy.configuration import adopt, push_problems, shape_of
from crawlfleet.policy.digest import digest_of
from crawlfleet.policy.document_checks import (
    biz_problems,
    needs_problems,
    stage_problems,
    unchecked,
)
from crawlfleet.policy.follow_targets import target_problems
from crawlfleet.policy.pools import (
    every_lane,
    lane_of,
    limits_of,
    served_lanes,
    serves,
    shares_work,
)
from crawlfleet.policy.route_change import LEAD, change_problems, ended_at
from crawlfleet.policy.tenancy import must_operate, operates, readable_tenants, tenant_of
