"""Streams in the API: dead letters, conversations, items explained, sources (SPEC.md D10)."""

from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec
from aws_lambda_powertools.event_handler import Response
from msgspec import Meta

from crawlfleet.api.inputs import CHANGES, LARGEST_PAGE, read
from crawlfleet.api.responses import filled, page_of, shown
from crawlfleet.api.routing import CURSOR, LIMIT, Call, Parameter, Routes, word
from crawlfleet.config.lookup import biz_of
from crawlfleet.kernel.errors import InvalidRequestError, NotFoundError
from crawlfleet.streams.delivery import explaining, messages, models
from crawlfleet.streams.delivery.conversations import Turn
from crawlfleet.streams.delivery.figures import LAG_BOUNDS, Figures
from crawlfleet.streams.delivery.mongo.traces import TracedDelivery
from crawlfleet.streams.reading.seen import SeenSource
from crawlfleet.wire.deliveries import (
    Conversation,
    ConversationTurn,
    ExplainedItem,
    ItemDelivery,
    ItemVerdict,
    Redelivered,
    TakenItem,
    TakenItemsPage,
    UndeliveredItem,
    UndeliveredPage,
)
from crawlfleet.wire.sources import (
    SourcesPage,
    StreamFigures,
    StreamSource,
    SubscriptionFigures,
)

#: Characters of a text in a conversation: an answer has up to 500 of them.
_TEXT: Final = 1_000
_REASONS: Final = tuple(reason.value for reason in models.Reason)
_LONGEST_ID: Final = 500
_LONGEST_NAME: Final = 2_000
_BEYOND: Final = "inf"

#: The schema has the enumeration; another value is refused where all are named.
ReasonWord = Annotated[
    str, Meta(min_length=1, max_length=64, extra_json_schema={"enum": list(_REASONS)})
]
SubscriptionName = Annotated[str, Meta(min_length=1, max_length=64)]


class RedeliveryInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dead letters of subscriptions to replay: of a subscription, of a reason, or ``all``.

    ``cursor`` is that of the answer before, where a call did not come to the end.
    """

    subscription: SubscriptionName | None = None
    reason: ReasonWord | None = None
    all: bool = False
    limit: Annotated[int, Meta(ge=1, le=LARGEST_PAGE)] = CHANGES
    cursor: Annotated[str, Meta(max_length=200)] | None = None


def undelivered_view(one: models.DeadLetter) -> UndeliveredItem:
    """Shape a dead letter."""
    return filled(UndeliveredItem, one, reason=one.reason.value, target=one.target.written)


def _turns(turn: Turn, depth: int = 0, parent: str | None = None) -> Iterator[ConversationTurn]:
    item = turn.item
    known: dict[str, Any] = {}
    if item is not None:
        known = {
            "text": item.seen.text[:_TEXT],
            "title": item.title[:_TEXT],
            "author": item.seen.author,
            "url": item.url,
            "published_at": item.published_at,
        }
    yield ConversationTurn(
        id=turn.id,
        depth=depth,
        parent=parent,
        placeholder=item is None,
        cut_off=turn.is_cut_off,
        **known,
    )
    for reply in turn.replies:
        yield from _turns(reply, depth + 1, turn.id)


def _delivery(one: TracedDelivery) -> ItemDelivery:
    is_kept = one.target is None and one.state is models.State.DELIVERED
    return filled(
        ItemDelivery,
        one,
        state="kept" if is_kept else one.state.name.lower(),
        delivered_at=one.settled_at,
        reason=None if one.reason is None else one.reason.value,
        target={} if one.target is None else one.target.written,
        withdrawal=one.is_withdrawal,
    )


def _verdict(one: explaining.Verdict) -> ItemVerdict:
    terms: dict[str, Any] = {}
    if one.tried is not None:
        terms = {
            "matches": one.tried.taken,
            "found": one.tried.found,
            "missing": one.tried.missing,
            "excluded_by": one.tried.excluded_by,
        }
    return ItemVerdict(
        subscription=one.subscription,
        filter=one.filter,
        taken=one.delivery is not None,
        why=one.why,
        delivery=None if one.delivery is None else _delivery(one.delivery),
        **terms,
    )


def explained_view(found: explaining.Explained) -> ExplainedItem:
    """Shape an item that is explained."""
    trace, known = found.trace, dict[str, Any]()
    if (item := trace.item) is not None:
        known = {
            "url": item.url,
            "title": item.title[:_TEXT],
            "text": item.seen.text[:_TEXT],
            "author": item.seen.author,
            "published_at": item.published_at,
            "received_at": item.received_at,
        }
    return ExplainedItem(
        channel=trace.channel,
        item=trace.id,
        withdrawn_at=trace.withdrawn_at,
        verdicts=tuple(map(_verdict, found.verdicts)),
        more=found.more,
        **known,
    )


def _id_in(call: Call, name: str) -> str:
    value = call.query.get(name, "")
    if not 1 <= len(value) <= _LONGEST_ID:
        raise InvalidRequestError.of(name, f"must be 1 to {_LONGEST_ID} signs")
    return value


def _subscription_in(call: Call) -> str | None:
    subscription = call.query.get("subscription")
    if subscription is not None and not 1 <= len(subscription) <= 255:
        raise InvalidRequestError.of("subscription", "must be 1 to 255 signs")
    return subscription


def _id_of(name: str, meaning: str) -> Parameter:
    shape = {"type": "string", "minLength": 1, "maxLength": _LONGEST_ID}
    return Parameter(name=name, meaning=meaning, shape=shape)


def figures_view(found: Figures) -> StreamFigures:
    """Shape figures."""
    names = [*(f"{bound:g}" for bound in LAG_BOUNDS), _BEYOND]
    lags = {names[at]: count for at, count in sorted(found.lags.items()) if at < len(names)}
    return filled(StreamFigures, found, lags=lags)


def source_view(found: SeenSource) -> StreamSource:
    """Shape a source."""
    return filled(
        StreamSource,
        found.status,
        name=found.name,
        kind=found.kind.value,
        state=found.state.value,
        subscriptions=found.subscriptions,
        due_at=found.due_at,
        figures=figures_view(found.figures),
    )


ROUTES: Final = Routes()


@ROUTES.add(
    "GET",
    "/v1/{biz}/undelivered",
    UndeliveredPage,
    parameters=(
        word("subscription", "Only of this subscription."),
        Parameter(
            name="reason",
            meaning="Only of this reason.",
            shape={"type": "string", "enum": list(_REASONS)},
        ),
        CURSOR,
        LIMIT,
    ),
)
def list_undelivered(call: Call, biz: str) -> Response[str]:
    """List items of subscriptions that were not delivered and are given up, oldest first."""
    biz_of(call.tree, call.tenant, biz)
    subscription = _subscription_in(call)
    return page_of(
        call.limit,
        lambda limit: call.context.undelivered.find(
            call.tenant,
            biz,
            subscription=subscription,
            reason=call.query.get("reason"),
            cursor=call.cursor,
            limit=limit,
        ),
        lambda found, **page: UndeliveredPage(tuple(found), **page),
        undelivered_view,
    )


@ROUTES.add("GET", "/v1/{biz}/undelivered/{delivery}", UndeliveredItem)
def get_undelivered(call: Call, biz: str, delivery: str) -> Response[str]:
    """Get one item of a subscription that was not delivered."""
    biz_of(call.tree, call.tenant, biz)
    found = call.context.undelivered.get(call.tenant, biz, delivery)
    return shown(200, undelivered_view(found))


@ROUTES.add("POST", "/v1/{biz}/undelivered/{delivery}/replay", Redelivered)
def redeliver(call: Call, biz: str, delivery: str) -> Response[str]:
    """Deliver one item again, to where its subscription delivers now."""
    biz_of(call.tree, call.tenant, biz)
    call.context.undelivered.replay(call.tenant, biz, delivery, call.now)
    return shown(200, Redelivered(replayed=1))


@ROUTES.add(
    "POST",
    "/v1/{biz}/undelivered/replay",
    Redelivered,
    problems=(413,),
    body=(RedeliveryInput,),
)
def redeliver_many(call: Call, biz: str) -> Response[str]:
    """Deliver items again, to where their subscriptions deliver now; some in a call."""
    biz_of(call.tree, call.tenant, biz)
    given = read(call.body, RedeliveryInput)
    if given.all == (given.subscription is not None or given.reason is not None):
        message = "must be true without a subscription or a reason, and false beside one"
        raise InvalidRequestError.of("all", message)
    done = call.context.undelivered.replay_many(
        call.tenant,
        biz,
        call.now,
        subscription=given.subscription,
        reason=given.reason,
        cursor=given.cursor,
        limit=given.limit,
    )
    more = done.cursor is not None
    return shown(200, Redelivered(replayed=done.count, cursor=done.cursor, more=more))


@ROUTES.add(
    "GET",
    "/v1/{biz}/conversations",
    Conversation,
    parameters=(
        _id_of("channel", "The channel of the item, or the URL of its feed."),
        _id_of("item", "The id of any item of the conversation."),
    ),
)
def get_conversation(call: Call, biz: str) -> Response[str]:
    """Read the conversation that an item is in, as far as subscriptions of the biz have it."""
    biz_of(call.tree, call.tenant, biz)
    channel, item = _id_in(call, "channel"), _id_in(call, "item")
    found = call.context.conversations.read(call.tenant, biz, channel, item)
    if found is None:
        raise NotFoundError("no subscription of the biz has this item")
    return shown(200, Conversation(channel=channel, root=found.id, turns=tuple(_turns(found))))


def taken_view(one: models.Delivery) -> TakenItem:
    """Shape an item that a subscription has taken."""
    item = {} if one.item is None else messages.spoken(one.item)
    channel = "" if one.item is None else one.item.channel
    return filled(TakenItem, one, channel=channel, item=item)


@ROUTES.add("GET", "/v1/{biz}/stream-items", TakenItemsPage, parameters=(CURSOR, LIMIT))
def list_taken_items(call: Call, biz: str) -> Response[str]:
    """List items that the biz's subscriptions have taken, oldest first, as messages have them.

    They are kept for two weeks, or as long as the biz keeps records if that is shorter.
    """
    _, document = biz_of(call.tree, call.tenant, biz)
    return page_of(
        call.limit,
        lambda limit: call.context.explaining_items.taken(
            *(call.tenant, biz, call.now),
            kept_seconds=document.records_ttl_seconds,
            cursor=call.cursor,
            limit=limit,
        ),
        lambda found, **page: TakenItemsPage(tuple(found), **page),
        taken_view,
    )


@ROUTES.add(
    "GET",
    "/v1/{biz}/stream-items/explain",
    ExplainedItem,
    parameters=(
        _id_of("item", "The id of the item in its channel, or of a message of it."),
        _id_of("channel", "Its channel, or the URL of its feed; without one it is looked for."),
        word("subscription", "Only this subscription."),
    ),
)
def explain_item(call: Call, biz: str) -> Response[str]:
    """Explain which subscriptions took an item, why others did not, and where it was delivered."""
    biz_of(call.tree, call.tenant, biz)
    found = call.context.explaining_items.explain(
        call.tenant,
        biz,
        _id_in(call, "item"),
        channel=_id_in(call, "channel") if "channel" in call.query else None,
        subscription=_subscription_in(call),
    )
    return shown(200, explained_view(found))


@ROUTES.add("GET", "/v1/{biz}/sources", SourcesPage, parameters=(CURSOR, LIMIT))
def list_sources(call: Call, biz: str) -> Response[str]:
    """List the channels and feeds that the biz subscribes to, by name, as they are read now."""
    biz_of(call.tree, call.tenant, biz)
    now = call.now
    return page_of(
        call.limit,
        lambda limit: call.context.sources.list_all(
            call.tenant, biz, now, cursor=call.cursor, limit=limit
        ),
        lambda found, **page: SourcesPage(tuple(found), **page),
        source_view,
    )


@ROUTES.add(
    "GET",
    "/v1/{biz}/sources/one",
    StreamSource,
    parameters=(
        Parameter(
            name="name",
            meaning="The name of the channel, or the URL of the feed.",
            shape={"type": "string", "minLength": 1, "maxLength": _LONGEST_NAME},
        ),
    ),
)
def get_source(call: Call, biz: str) -> Response[str]:
    """Get one channel or feed that the biz subscribes to, as it is read now."""
    biz_of(call.tree, call.tenant, biz)
    name = call.query.get("name", "")
    if not 1 <= len(name) <= _LONGEST_NAME:
        raise InvalidRequestError.of("name", f"must be 1 to {_LONGEST_NAME:,} signs")
    return shown(200, source_view(call.context.sources.get(call.tenant, biz, name, call.now)))


@ROUTES.add("GET", "/v1/{biz}/subscriptions/{subscription}/figures", SubscriptionFigures)
def get_subscription_figures(call: Call, biz: str, subscription: str) -> Response[str]:
    """Get the figures of a subscription: what it takes, how late it is delivered, what waits."""
    one = call.context.subscriptions.get(call.tree, call.tenant, biz, subscription)
    found = call.context.sources.of_subscription(one, call.now)
    return shown(
        200,
        filled(
            SubscriptionFigures,
            found,
            subscription=one.name,
            figures=figures_view(found.figures),
            last_taken_at=found.figures.taken_at,
            last_delivered_at=found.figures.delivered_at,
        ),
    )
