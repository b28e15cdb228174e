"""Manage subscriptions (SPEC.md D3, D5): put, get, list and end them, try their filters."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import asdict, replace

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.documents.quota import QuotaUnit, written
from crawlfleet.config.documents.streams import ChannelKind
from crawlfleet.config.lookup import biz_of, ceilings_of, is_suspended
from crawlfleet.fleet.quotas.models import Limit, Standing, limits_of_subscription
from crawlfleet.kernel.errors import (
    InvalidRequestError,
    NotFoundError,
    Problem,
    UnknownBizError,
)
from crawlfleet.kernel.paging import Listing
from crawlfleet.streams import parsing
from crawlfleet.streams.filters import Filter
from crawlfleet.streams.packing import RuleLimits
from crawlfleet.streams.subscriptions.models import (
    Content,
    Deliver,
    StreamKind,
    Subscription,
    canonical_feed,
    is_active,
)
from crawlfleet.streams.subscriptions.trial import SavedItem, TriedItem, tried
from crawlfleet.streams.subscriptions.validation import problems_with
from crawlfleet.streams.x.rules import clauses

if TYPE_CHECKING:
    from crawlfleet.streams.subscriptions.mongo import MongoSubscriptions

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")


class SubscriptionState(StrEnum):
    """The state of a subscription: whether its items are taken now, or why not."""

    ACTIVE = "active"
    #: It is none of its hours.
    RESTING = "resting"
    #: A quota is used up.
    OVER_QUOTA = "over-quota"
    #: The stage has no channel of its name and kind any more.
    NO_CHANNEL = "no-channel"
    #: The tenant is suspended, or the biz is gone.
    SUSPENDED = "suspended"


_UNSERVED: Final = frozenset({SubscriptionState.SUSPENDED, SubscriptionState.NO_CHANNEL})


def channels_of(tree: Tree) -> Mapping[str, StreamKind]:
    """Return the kinds of a stage's channels by their names."""
    return {
        name: StreamKind(channel.kind.value)
        for name, channel in tree.stage.streams.channels.items()
    }


def targets_of(tree: Tree, tenant: str) -> Sequence[Mapping[str, str]]:
    """Return patterns of targets that a tenant may deliver to."""
    return [one.named for one in tree.stage.streams.targets.get(tenant, ())]


def state_of(tree: Tree, subscription: Subscription, now: datetime) -> SubscriptionState:
    """Return whether items are taken for a subscription now: those that are active are read."""
    tenant, content = subscription.tenant, subscription.content
    if is_suspended(tree, tenant) or subscription.biz not in tree.bizs.get(tenant, {}):
        return SubscriptionState.SUSPENDED
    is_rss = content.kind is StreamKind.RSS
    if not is_rss and channels_of(tree).get(content.channel or "") is not content.kind:
        return SubscriptionState.NO_CHANNEL
    if not is_active(content.active, now):
        return SubscriptionState.RESTING
    return SubscriptionState.ACTIVE


def is_served(tree: Tree, subscription: Subscription, now: datetime) -> bool:
    """Tell whether a subscription is served, at its hours and within its quotas."""
    return state_of(tree, subscription, now) not in _UNSERVED


def price_of(tree: Tree, content: Content) -> int:
    """Return the price of an item in nano-dollars; those of feeds cost nothing."""
    channel = tree.stage.streams.channels.get(content.channel or "")
    return 0 if channel is None else channel.price


def limits_of(tree: Tree, one: Subscription) -> tuple[Limit, ...]:
    """Return every quota that items for a subscription are under; of money, where they cost any."""
    found = limits_of_subscription(
        tree, one.tenant, one.biz, one.name, one.content.user, one.content.quotas
    )
    price = price_of(tree, one.content)
    return tuple(limit for limit in found if price or limit.quota.unit is not QuotaUnit.USD)


def kept_by(standings: Iterable[Standing], price: int) -> Standing | None:
    """Return the quota that leaves no room for an item of a price; None where all do."""
    for standing in standings:
        is_money = standing.limit.quota.unit is QuotaUnit.USD
        own = replace(standing, least=max(1, price)) if is_money else standing
        if own.is_used_up:
            return own
    return None


def problems_of(tree: Tree, tenant: str, name: str, fields: Mapping[str, Any]) -> list[Problem]:
    """Find what is wrong with the name of a subscription, and with its fields that are given."""
    found = problems_with(fields, channels_of(tree), targets_of(tree, tenant))
    if not found:
        found += (*_unfit(tree, fields), *_too_small(tree, fields))
    if not _NAME.match(name):
        wrong = "must be 1 to 32 of a-z, 0-9 and -, beginning with a letter"
        found.insert(0, Problem("name", wrong))
    return found


def _unfit(tree: Tree, fields: Mapping[str, Any]) -> tuple[Problem, ...]:
    """Find what no rules of the channel can bring, where it is X's."""
    channel = tree.stage.streams.channels.get(fields.get("channel") or "")
    text = fields.get("filter")
    if channel is None or channel.kind is not ChannelKind.X or text is None:
        return ()
    plan = channel.plan
    try:
        clauses(parsing.parse(text), RuleLimits(characters=plan.characters, rules=plan.rules))
    except InvalidRequestError as error:
        return error.problems
    return ()


def _too_small(tree: Tree, fields: Mapping[str, Any]) -> Iterable[Problem]:
    """Find quotas of money that are too small for one item of the channel."""
    channel = tree.stage.streams.channels.get(fields.get("channel") or "")
    price = 0 if channel is None else channel.price
    for index, quota in enumerate(fields.get("quotas") or ()):
        if quota.unit is QuotaUnit.USD and quota.amount < price:
            said = f"is less than one item of the channel costs ({written(quota.unit, price)})"
            yield Problem(f"quotas[{index}].most", said)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionService:
    """The service that keeps subscriptions."""

    subscriptions: "MongoSubscriptions"

    def put(
        self,
        tree: Tree,
        tenant: str,
        biz: str,
        name: str,
        content: Content,
        expected: str | None,
        now: datetime,
    ) -> tuple[Subscription, bool]:
        """Keep a subscription; return it, and whether this call has changed anything.

        Raises:
            InvalidRequestError: every problem, with its field; nothing is kept.
            ConflictError: it is not the ``expected`` revision any more.
            QuotaExceededError: the tenant has as many as it may.
        """
        biz_of(tree, tenant, biz)
        problems = problems_of(tree, tenant, name, asdict(content))
        if problems:
            raise InvalidRequestError(problems)
        target = content.target()
        deliver = None if target is None else Deliver(**target.written)
        feeds = tuple(map(canonical_feed, content.feeds))
        plain = replace(content, feeds=feeds, deliver=deliver)
        most = ceilings_of(tree, tenant).subscriptions
        return self.subscriptions.put(tenant, biz, name, plain, now, expected=expected, most=most)

    def get(self, tree: Tree, tenant: str, biz: str, name: str) -> Subscription:
        """Get one subscription, also of a biz that is gone; raises NotFoundError."""
        self._check_known(tree, tenant, biz)
        found = self.subscriptions.get(tenant, biz, name)
        if found is None:
            raise NotFoundError(f"this biz has no subscription called {name[:64]!r}")
        return found

    def list_all(
        self, tree: Tree, tenant: str, biz: str, *, cursor: str | None, limit: int
    ) -> Listing[Subscription]:
        """List the subscriptions of a biz, by name, also of one that is gone.

        Raises InvalidRequestError (the cursor is none of this list).
        """
        self._check_known(tree, tenant, biz)
        if cursor is not None and not _NAME.match(cursor):
            raise InvalidRequestError.of("cursor", "is no cursor of this list")
        found = self.subscriptions.of_biz(tenant, biz, cursor, limit + 1)
        shown = found[:limit]
        return Listing(shown, shown[-1].name if shown else cursor, more=len(found) > limit)

    def end(
        self, tree: Tree, tenant: str, biz: str, name: str, expected: str | None, now: datetime
    ) -> Subscription:
        """End a subscription; raises NotFoundError, and ConflictError as :meth:`put`."""
        self._check_known(tree, tenant, biz)
        return self.subscriptions.end(tenant, biz, name, now, expected=expected)

    def _check_known(self, tree: Tree, tenant: str, biz: str) -> None:
        """Refuse a biz that there is not, unless it left subscriptions behind.

        Raises:
            UnknownBizError: there is none, and no subscription of one.
        """
        try:
            biz_of(tree, tenant, biz)
        except UnknownBizError:
            if not self.subscriptions.of_biz(tenant, biz, None, 1):
                raise

    def try_on(
        self,
        tree: Tree,
        tenant: str,
        biz: str,
        wanted: str | None,
        name: str | None,
        items: Sequence[SavedItem],
    ) -> tuple[Filter, list[TriedItem]]:
        """Try a filter, or that of a subscription, on saved items; nothing is kept.

        Raises:
            InvalidRequestError: the filter is none, both or none is given, or it is too much.
            NotFoundError: there is no subscription of that name.
        """
        biz_of(tree, tenant, biz)
        if (wanted is None) is (name is None):
            given = "is missing, and so is subscription" if name is None else "is given, and a "
            given += "" if name is None else "subscription too"
            raise InvalidRequestError.of("filter", f"{given}: give one of the two")
        if name is not None:
            wanted = self.get(tree, tenant, biz, name).content.filter
        parsed = parsing.parse(wanted or "")
        return parsed, tried(parsed, items)
