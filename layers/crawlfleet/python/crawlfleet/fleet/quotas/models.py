"""Accounts, limits, and what a worker and a ledger tell each other of them, as values."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz, Stage, Tree
from crawlfleet.config.documents.quota import (
    STREAM_UNITS,
    AtLimit,
    Quota,
    QuotaPeriod,
    QuotaUnit,
    written,
)
from crawlfleet.fleet.quotas.money import DEFAULT_GB, worst_case
from crawlfleet.kernel.queue_key import MAIN_POOL
from crawlfleet.requests.queue.ageing import PARKED

#: What a worker holds of an account is its own for so long after its latest exchange.
LEASE_SECONDS: Final = 30.0
#: Of a holder that died, or holds nothing, the ledger knows for so long: a worker lives for less.
KEPT_SECONDS: Final = 1_800.0


class Scope(StrEnum):
    """The owner of an account. Channels are the stage's, and of no tenant."""

    TENANT = "tenant"
    USER = "user"
    BIZ = "biz"
    JOB = "job"
    SUBSCRIPTION = "subscription"
    CHANNEL = "channel"


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """An amount of each unit: the worst case that is reserved, or what was measured.

    A unit is reckoned from a measured use and nothing else; ``usd`` is in nano-dollars.
    """

    requests: int = 0
    records: int = 0
    bytes: int = 0
    usd: int = 0
    items: int = 0

    def of(self, unit: QuotaUnit) -> int:
        """Return the amount of a unit.

        >>> Use(requests=1, bytes=9).of(QuotaUnit.BYTES)
        9
        """
        found: int = getattr(self, unit)  # several times a page: ``value`` would cost more
        return found


class Window(msgspec.Struct, frozen=True):
    """One period of a quota; ``ends_at`` None is for ever."""

    name: str
    ends_at: datetime | None = None


def window_of(per: QuotaPeriod, now: datetime) -> Window:
    """Return the period of UTC that a moment is in.

    >>> window_of(QuotaPeriod.MONTH, datetime(2026, 12, 31, 23, tzinfo=UTC)).ends_at.isoformat()
    '2027-01-01T00:00:00+00:00'
    >>> window_of(QuotaPeriod.ALL, datetime(2026, 12, 31, tzinfo=UTC))
    Window(name='all', ends_at=None)
    """
    if per is QuotaPeriod.ALL:
        return Window("all")
    day = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if per is QuotaPeriod.DAY:
        return Window(f"{day:%Y-%m-%d}", day + timedelta(days=1))
    following = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
    return Window(f"{day:%Y-%m}", following)


_PLACES: Final = f"{PARKED}limit/"


class Account(msgspec.Struct, frozen=True, order=True):
    """An account books an owner's use of a unit, by period.

    The ``name`` of a job is ``biz/job``, that of a subscription ``biz/subscription``.
    """

    tenant: str
    scope: Scope
    name: str
    unit: QuotaUnit
    per: QuotaPeriod

    def path(self, window: Window) -> str:
        """Return what tells one period of it from all other accounts of its tenant.

        >>> account = Account("acme", Scope.BIZ, "shop", QuotaUnit.BYTES, QuotaPeriod.DAY)
        >>> account.path(Window("2026-11-23"))
        'biz:shop:bytes:2026-11-23'
        """
        return f"{self.scope}:{self.name}:{self.unit}:{window.name}"

    @property
    def place(self) -> str:
        """Name the list in a queue that requests wait in for it.

        >>> Account("acme", Scope.USER, "ann", QuotaUnit.BYTES, QuotaPeriod.DAY).place
        'quota://limit/user:ann:bytes:day'
        """
        return f"{_PLACES}{self.scope}:{self.name}:{self.unit}:{self.per}"

    @property
    def is_rate(self) -> bool:
        """Tell whether it begins anew: what a dead worker holds comes back with its lease."""
        return self.per is not QuotaPeriod.ALL

    @property
    def owner(self) -> str:
        """Name the owner, for people.

        >>> Account("acme", Scope.JOB, "shop/june", QuotaUnit.BYTES, QuotaPeriod.ALL).owner
        'job june of biz shop'
        """
        if self.scope in {Scope.JOB, Scope.SUBSCRIPTION}:
            biz, _, name = self.name.partition("/")
            return f"{self.scope} {name} of biz {biz}"
        return f"{self.scope} {self.name}"


class Limit(msgspec.Struct, frozen=True):
    """A quota, the account that it is of, and the field that says it."""

    account: Account
    quota: Quota
    field: str


class JobTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The quotas of a job: its own, and the user that it is for."""

    quotas: tuple[Quota, ...] = ()
    user: str | None = None


#: Those of no job, and of one that says nothing.
NO_TERMS: Final = JobTerms()


#: Looks up what a job says of quotas, None where it is not known: jobs stand above the fleet.
Terms: TypeAlias = Callable[[str, str, str], JobTerms | None]
#: Looks up what jobs of a biz say that have not ended, by their names.
TermsOfOpen: TypeAlias = Callable[[str, str, Sequence[str]], Mapping[str, JobTerms]]


def stated_limits(
    tree: Tree,
    tenant: str,
    biz: str | None,
    user: str | None = None,
    job: str | None = None,
    terms: JobTerms = NO_TERMS,
) -> tuple[Limit, ...]:
    """Return every limit that is stated for work, of whatever unit, the widest owner first.

    A user has the quotas that its tenant's document has under its name, or else those of every user
    (``user_quotas``). A request without a user of its own has its job's.
    """
    document = tree.tenants.get(tenant)
    user = user or terms.user
    found: list[Limit] = []
    if document is not None:
        found += _limits(tenant, Scope.TENANT, tenant, "quotas", document.quotas)
        if user is not None:
            own = document.users.get(user)
            field = "user_quotas" if own is None else f"users.{user}"
            quotas = document.user_quotas if own is None else own
            found += _limits(tenant, Scope.USER, user, field, quotas)
    if biz is not None:
        standing = tree.bizs.get(tenant, {}).get(biz)
        found += _limits(tenant, Scope.BIZ, biz, "quotas", () if not standing else standing.quotas)
        if job is not None:
            found += _limits(tenant, Scope.JOB, f"{biz}/{job}", "quotas", terms.quotas)
    return tuple(found)


def _limits(
    tenant: str, scope: Scope, name: str, field: str, quotas: Sequence[Quota]
) -> Iterator[Limit]:
    for index, quota in enumerate(quotas):
        account = Account(tenant, scope, name, quota.unit, quota.per)
        yield Limit(account, quota, f"{field}[{index}]")


def limits_of(
    tree: Tree,
    tenant: str,
    biz: str | None,
    user: str | None = None,
    job: str | None = None,
    terms: JobTerms = NO_TERMS,
) -> tuple[Limit, ...]:
    """Return every limit that requests are under, the widest owner first."""
    found = stated_limits(tree, tenant, biz, user, job, terms)
    return tuple(limit for limit in found if limit.quota.unit is not QuotaUnit.ITEMS)


def limits_of_subscription(
    tree: Tree, tenant: str, biz: str, name: str, user: str | None, quotas: Sequence[Quota]
) -> tuple[Limit, ...]:
    """Return every limit that items for a subscription are under, the widest owner first."""
    found = stated_limits(tree, tenant, biz, user)
    own = _limits(tenant, Scope.SUBSCRIPTION, f"{biz}/{name}", "quotas", quotas)
    return tuple(limit for limit in (*found, *own) if limit.quota.unit in STREAM_UNITS)


def limits_of_channel(tree: Tree, name: str) -> tuple[Limit, ...]:
    """Return the limits of a channel of the stage; of money, where its items cost any."""
    channel = tree.stage.streams.channels.get(name)
    if channel is None:
        return ()
    found = _limits("", Scope.CHANNEL, name, f"streams.channels.{name}.quotas", channel.quotas)
    return tuple(one for one in found if channel.price or one.quota.unit is not QuotaUnit.USD)


def account_at(tenant: str, place: str) -> Account | None:
    """Return the account that a list of a queue waits for; None where it is of a host.

    >>> account_at("acme", "quota://limit/job:shop/june:requests:all").owner
    'job june of biz shop'
    >>> account_at("acme", "shop.example"), account_at("acme", "quota://limit/of:later:times:all")
    (None, None)
    """
    if not place.startswith(_PLACES):
        return None
    try:
        scope, name, unit, per = place.removeprefix(_PLACES).split(":")
        return Account(tenant, Scope(scope), name, QuotaUnit(unit), QuotaPeriod(per))
    except ValueError:
        return None


def own_places(job: tuple[str, str, str], quotas: Sequence[Quota]) -> list[str]:
    """Return the lists that requests of a job, of a tenant's biz, wait in for quotas of its own.

    >>> own_places(("acme", "shop", "june"), [Quota(unit=QuotaUnit.BYTES, most=9)])
    ['quota://limit/job:shop/june:bytes:all']
    """
    tenant, biz, name = job
    accounts = (Account(tenant, Scope.JOB, f"{biz}/{name}", one.unit, one.per) for one in quotas)
    return list(dict.fromkeys(account.place for account in accounts))


def limit_of(tree: Tree, account: Account, terms: Terms) -> Limit | None:
    """Find the limit of an account as it is now; None where there is none any more."""
    tenant, name = account.tenant, account.name
    biz, job, user, own = None, None, None, NO_TERMS
    if account.scope is Scope.JOB:
        biz, _, job = name.partition("/")
        own = terms(tenant, biz, job) or NO_TERMS
    elif account.scope is Scope.BIZ:
        biz = name
    elif account.scope is Scope.USER:
        user = name
    found = stated_limits(tree, tenant, biz, user, job, own)
    return next((limit for limit in found if limit.account == account), None)


def limits_of_tenant(tree: Tree, tenant: str, users: int | None = None) -> list[Limit]:
    """Return the limits of a tenant, of its named users, the first so many of them, and bizs."""
    found = dict.fromkeys(stated_limits(tree, tenant, None))
    document = tree.tenants.get(tenant)
    for user in sorted(document.users if document else ())[:users]:
        found |= dict.fromkeys(stated_limits(tree, tenant, None, user))
    for biz in sorted(tree.bizs.get(tenant, {})):
        found |= dict.fromkeys(stated_limits(tree, tenant, biz))
    return list(found)


def biz_under(limit: Limit) -> str:
    """Return the biz that a limit is of, or a part of it; "" where it is of none."""
    account = limit.account
    is_of_one = account.scope in {Scope.BIZ, Scope.JOB, Scope.SUBSCRIPTION}
    return account.name.partition("/")[0] if is_of_one else ""


def every_limit(tree: Tree) -> list[Limit]:
    """Return the limits of all tenants, of their named users and bizs."""
    tenants = sorted(tree.tenants.keys() | tree.bizs.keys())
    return [limit for tenant in tenants for limit in limits_of_tenant(tree, tenant)]


def limits_at(tree: Tree, tenant: str, paths: Sequence[str], now: datetime) -> Iterator[Limit]:
    """Find the limits of a tenant's users whose present accounts have these paths."""
    wanted = set(paths)
    named = {path.split(":")[1] for path in wanted if path.startswith(f"{Scope.USER}:")}
    for user in sorted(named):
        for limit in stated_limits(tree, tenant, None, user):
            if limit.account.path(window_of(limit.quota.per, now)) in wanted:
                yield limit


def limits_of_jobs(
    tree: Tree, tenant: str, paths: Sequence[str], terms: TermsOfOpen, now: datetime
) -> Iterator[Limit]:
    """Find the limits of a tenant's open jobs whose present accounts have these paths."""
    wanted, jobs = set(paths), defaultdict[str, set[str]](set)
    for path in wanted:
        if path.startswith(f"{Scope.JOB}:"):
            biz, _, job = path.split(":")[1].partition("/")
            jobs[biz].add(job)
    for biz in sorted(jobs.keys() & tree.bizs.get(tenant, {}).keys()):
        for job, own in sorted(terms(tenant, biz, sorted(jobs[biz])).items()):
            for limit in limits_of(tree, tenant, biz, None, job, own):
                is_own = limit.account.scope is Scope.JOB
                if is_own and limit.account.path(window_of(limit.quota.per, now)) in wanted:
                    yield limit


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A holder's report on one account: all since its first exchange, so that it may be repeated.

    Of what it holds it must ``keep`` so much, as it is under way, and wants to hold ``wanted``;
    less than ``least`` is of no use to it. ``number`` counts its exchanges.
    """

    number: int
    spent: int
    keep: int
    wanted: int
    least: int


class Booked(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger's answer to an :class:`Ask`, or on an account that nobody asks of.

    ``granted`` is all that the holder ever had, ``ceiling`` what MongoDB lets be granted and
    ``short_of`` the ceiling that the holder's wish would take, 0 where it is high enough, -1 while
    another holder has it raised. ``held`` is in the hands of workers, and ``in_doubt`` that part of
    it whose worker died: it counts as used, as it may be. ``seconds_left`` is the period's, by the
    server.
    """

    granted: int = 0
    spent: int = 0
    held: int = 0
    in_doubt: int = 0
    ceiling: int = 0
    short_of: int = 0
    seconds_left: float | None = None


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an account in its present period; a request needs ``least`` of it to begin."""

    limit: Limit
    window: Window
    used: int = 0
    held: int = 0
    in_doubt: int = 0
    least: int = 1

    @property
    def left(self) -> int:
        """Return what is neither used nor in the hands of a worker."""
        return max(0, self.limit.quota.amount - self.used - self.held)

    @property
    def is_used_up(self) -> bool:
        """Tell whether no request could begin though workers returned all that they hold.

        What dead workers hold of a budget they do not return.
        """
        return self.limit.quota.amount - self.used - self.in_doubt < self.least


def for_biz(
    standing: Standing, stage: Stage, *bizs: Biz, pool: str = MAIN_POOL, gb: float = DEFAULT_GB
) -> Standing:
    """Say what a request of one of these bizs needs of an account to begin.

    Of bytes it is a whole body, of money the most that an attempt may cost at a worker of a pool,
    of so many GB. With several of them it is what the one needs that needs least.
    """
    if standing.limit.quota.unit is QuotaUnit.BYTES:
        each = [one.fetch.max_body_bytes for one in bizs]
    elif standing.limit.quota.unit is QuotaUnit.USD:
        each = [worst_case(stage, one, pool, gb) for one in bizs]
    else:
        return standing
    return replace(standing, least=min(each, default=1))


def for_tenant(standing: Standing, tree: Tree) -> Standing:
    """Say what any request under a limit needs of it to begin."""
    account = standing.limit.account
    bizs = tree.bizs.get(account.tenant, {})
    if account.scope is Scope.CHANNEL:
        channel = tree.stage.streams.channels.get(account.name)
        if channel is None or account.unit is not QuotaUnit.USD:
            return standing
        return replace(standing, least=max(1, channel.price))
    if account.scope in {Scope.TENANT, Scope.USER}:
        return for_biz(standing, tree.stage, *bizs.values())
    own = bizs.get(account.name.partition("/")[0])
    return standing if own is None else for_biz(standing, tree.stage, own)


def described(standing: Standing) -> str:
    """Say in a sentence what the limit is, how much is used, and when it goes on.

    >>> quota = Quota(unit=QuotaUnit.REQUESTS, most=1_000, per=QuotaPeriod.DAY)
    >>> account = Account("acme", Scope.BIZ, "shop", quota.unit, quota.per)
    >>> window = window_of(quota.per, datetime(2026, 11, 23, tzinfo=UTC))
    >>> described(Standing(limit=Limit(account, quota, "quotas[0]"), window=window, used=1_000))
    'biz shop has used 1,000 of 1,000 requests of this day (quotas[0]); it goes on at \
2026-11-24T00:00:00Z, or with a higher limit'
    """
    limit, quota = standing.limit, standing.limit.quota
    span = "in all" if standing.window.ends_at is None else f"of this {quota.per}"
    unit, of = quota.unit, partial(written, quota.unit)
    kind = "" if unit is QuotaUnit.USD else f" {unit}"
    said = f"{limit.account.owner} has used {of(standing.used)} of {of(quota.amount)}{kind} {span}"
    said += f" ({limit.field})"
    if unit is QuotaUnit.USD and 0 < standing.left < standing.least:
        is_of_streams = limit.account.scope in {Scope.SUBSCRIPTION, Scope.CHANNEL}
        what = "an item costs" if is_of_streams else "a page may cost"
        said += f"; {what} up to {of(standing.least)}"
    if standing.in_doubt:
        said += f"; {of(standing.in_doubt)} more count as used, whose workers died"
    if quota.at_limit is AtLimit.END:
        said += "; its requests end as dead letters"
    if standing.window.ends_at is None:
        return f"{said}; it goes on with a higher limit"
    until = f"{standing.window.ends_at:%Y-%m-%dT%H:%M:%SZ}"
    return f"{said}; it goes on at {until}, or with a higher limit"
