"""Names tests use of quotas: documents, accounts, purses, ledgers, a worker's spending."""

from crawlfleet.config.documents.quota import (
    AtLimit,
    Quota,
    QuotaPeriod,
    QuotaUnit,
    nano_dollars,
)
from crawlfleet.fleet.quotas import terms as job_terms
from crawlfleet.fleet.quotas.demand import QuotaDemand
from crawlfleet.fleet.quotas.models import (
    KEPT_SECONDS,
    LEASE_SECONDS,
    Account,
    Ask,
    Booked,
    JobTerms,
    Limit,
    Scope,
    Standing,
    Use,
    Window,
    described,
    for_tenant,
    limit_of,
    limits_at,
    limits_of,
    limits_of_channel,
    limits_of_jobs,
    limits_of_tenant,
    window_of,
)
from crawlfleet.fleet.quotas.money import worst_case
from crawlfleet.fleet.quotas.mongo import Ceiling, MongoCeilings
from crawlfleet.fleet.quotas.purse import Purse, share_of
from crawlfleet.fleet.quotas.redis import Exchange, RedisQuotaLedgers, ledger_keys
from crawlfleet.fleet.quotas.reservation import Reservation
from crawlfleet.fleet.quotas.service import QuotaLedgers, Wish
from crawlfleet.fleet.quotas.terms import KnownTerms
from crawlfleet.streams.subscriptions.service import limits_of as limits_of_items
