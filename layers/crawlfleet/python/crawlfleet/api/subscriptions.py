"""Subscriptions to streams in the API: put, get, list, end; try a filter; hubs call back (D5)."""

from typing import Annotated, Any, Final

import msgspec
from aws_lambda_powertools.event_handler import Response
from msgspec import Meta

from crawlfleet.api.inputs import body_of, read
from crawlfleet.api.quotas import quota_view
from crawlfleet.api.responses import TooLargeBodyError, at, filled, no_content, page_of, shown
from crawlfleet.api.routing import CURSOR, LIMIT, Call, Parameter, Routes, word
from crawlfleet.config.lookup import biz_of
from crawlfleet.fleet.quotas.models import Scope, described
from crawlfleet.kernel.errors import InvalidRequestError, NotFoundError, Problem
from crawlfleet.kernel.validation import right_fields
from crawlfleet.streams.subscriptions import models
from crawlfleet.streams.subscriptions.models import Content, FilterText
from crawlfleet.streams.subscriptions.service import (
    SubscriptionState,
    kept_by,
    limits_of,
    price_of,
    problems_of,
    state_of,
)
from crawlfleet.streams.subscriptions.trial import MOST_ITEMS, SavedItem
from crawlfleet.wire.subscriptions import (
    Subscription,
    SubscriptionsPage,
    TriedFilter,
    TriedItem,
)

Revision = Annotated[str, Meta(min_length=1, max_length=64)]


class SubscriptionInput(Content, frozen=True, kw_only=True):
    """A subscription as clients write it.

    ``filter`` is text of the language of filters. ``feeds`` are of the kind ``rss``, ``channel`` is
    of the other kinds. ``user`` is whom the tenant has it for. Without ``deliver`` items are kept
    as records and pushed nowhere; without ``active`` they are taken at any time. ``quotas`` are the
    most that it takes, in items or US dollars: then it takes none until the next day or month. With
    a ``revision`` it is refused where the subscription has another one by now.
    """

    revision: Revision | None = None


class FilterTrialInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A ``filter``, or the name of a ``subscription``, and saved items to try it on."""

    items: Annotated[tuple[SavedItem, ...], Meta(min_length=1, max_length=MOST_ITEMS)]
    filter: FilterText | None = None
    subscription: Annotated[str, Meta(min_length=1, max_length=64)] | None = None


def content_in(call: Call, biz: str, name: str) -> tuple[Content, str | None]:
    """Read a subscription, and the revision that it is put over.

    Raises:
        InvalidRequestError: names every field that is wrong, also where some have no right type.
    """
    biz_of(call.tree, call.tenant, biz)
    body = call.body
    try:
        given = read(body, SubscriptionInput)
    except InvalidRequestError as error:
        fields = _given_rightly(body)
        others = problems_of(call.tree, call.tenant, name, fields)
        raise InvalidRequestError(_each_once([*error.problems, *others])) from None
    fields = {field: getattr(given, field) for field in Content.__struct_fields__}
    return Content(**fields), given.revision


def _given_rightly(body: bytes) -> dict[str, Any]:
    """Return fields of the right type, and the defaults of those that are not given."""
    whole = read(body, dict[str, Any]) if right_fields(body, SubscriptionInput) else {}
    absent = {"feeds": (), "channel": None} if whole else {}
    defaults = {field: default for field, default in absent.items() if field not in whole}
    return defaults | right_fields(body, SubscriptionInput)


def _each_once(problems: list[Problem]) -> list[Problem]:
    return list({problem.field: problem for problem in reversed(problems)}.values())[::-1]


def subscription_view(call: Call, one: models.Subscription) -> Subscription:
    """Shape a subscription."""
    content, state = one.content, state_of(call.tree, one, call.now)
    standings = call.context.quotas.standings(limits_of(call.tree, one), call.now)
    kept = kept_by(standings, price_of(call.tree, content))
    ends_at = None if kept is None else kept.window.ends_at
    if kept is not None and state is SubscriptionState.ACTIVE:
        state = SubscriptionState.OVER_QUOTA
    own = (one for one in standings if one.limit.account.scope is Scope.SUBSCRIPTION)
    return filled(
        Subscription,
        one,
        kind=content.kind.value,
        filter=content.filter,
        canonical=_canonical(content),
        feeds=content.feeds,
        channel=content.channel,
        user=content.user,
        deliver=None if content.deliver is None else content.deliver.named,
        active=None if content.active is None else _hours(content.active),
        state=state.value,
        quotas=tuple(map(quota_view, own)),
        over="" if kept is None else described(kept),
        back_at=None if ends_at is None else at(ends_at),
    )


def _canonical(content: Content) -> str:
    try:
        return content.parsed().text
    except InvalidRequestError:  # another release took it
        return ""


def _hours(active: models.Active) -> dict[str, Any]:
    return {
        "time_zone": active.time_zone,
        "hours": [
            {"days": list(each.days), "begins": each.begins, "ends": each.ends}
            for each in active.hours
        ],
    }


_REVISION: Final = Parameter(
    name="revision",
    meaning="The revision that it must have.",
    shape={"type": "string", "minLength": 1, "maxLength": 64},
)

ROUTES: Final = Routes()


@ROUTES.add("GET", "/v1/{biz}/subscriptions", SubscriptionsPage, parameters=(CURSOR, LIMIT))
def list_subscriptions(call: Call, biz: str) -> Response[str]:
    """List the biz's subscriptions to streams, by name."""
    service = call.context.subscriptions
    return page_of(
        call.limit,
        lambda limit: service.list_all(
            call.tree, call.tenant, biz, cursor=call.cursor, limit=limit
        ),
        lambda found, **page: SubscriptionsPage(tuple(found), **page),
        lambda one: subscription_view(call, one),
    )


@ROUTES.add("GET", "/v1/{biz}/subscriptions/{subscription}", Subscription)
def get_subscription(call: Call, biz: str, subscription: str) -> Response[str]:
    """Get one subscription."""
    found = call.context.subscriptions.get(call.tree, call.tenant, biz, subscription)
    return shown(200, subscription_view(call, found))


@ROUTES.add(
    "PUT",
    "/v1/{biz}/subscriptions/{subscription}",
    Subscription,
    problems=(409, 413, 429),
    body=(SubscriptionInput,),
)
def put_subscription(call: Call, biz: str, subscription: str) -> Response[str]:
    """Subscribe to a stream, or replace the subscription of that name."""
    content, revision = content_in(call, biz, subscription)
    put, _ = call.context.subscriptions.put(
        call.tree, call.tenant, biz, subscription, content, revision, call.now
    )
    return shown(200, subscription_view(call, put))


@ROUTES.add(
    "DELETE",
    "/v1/{biz}/subscriptions/{subscription}",
    {204: None},
    problems=(409,),
    parameters=(_REVISION,),
)
def end_subscription(call: Call, biz: str, subscription: str) -> Response[str]:
    """End a subscription; what was taken for it stays."""
    revision = call.query.get("revision")
    call.context.subscriptions.end(call.tree, call.tenant, biz, subscription, revision, call.now)
    return no_content()


@ROUTES.add(
    "POST",
    "/v1/{biz}/subscriptions/try",
    TriedFilter,
    problems=(413, 429),
    body=(FilterTrialInput,),
)
def try_filter(call: Call, biz: str) -> Response[str]:
    """Try a filter on saved items: which it takes, by which terms, and what others lack.

    Nothing is stored.
    """
    given = read(call.body, FilterTrialInput)
    with call.context.submission.ceilings.trial(call.tree, call.tenant):
        wanted, items = call.context.subscriptions.try_on(
            call.tree, call.tenant, biz, given.filter, given.subscription, given.items
        )
    answers = tuple(filled(TriedItem, one) for one in items)
    taken = sum(one.taken for one in items)
    return shown(200, TriedFilter(filter=wanted.text, taken=taken, items=answers))


#: Hubs of feeds ask whether they are meant, and push (WebSub).
_PLAIN: Final = "text/plain"
_SIGNATURE: Final = "x-hub-signature"
_ASKED: Final = (
    word("hub.mode", "What the hub asks about: subscribe, unsubscribe or denied."),
    word("hub.topic", "The feed, as the hub knows it."),
    Parameter(
        name="hub.challenge",
        meaning="The text that the answer is to have, if the subscription is meant.",
        shape={"type": "string", "minLength": 1, "maxLength": 4_000},
    ),
    word("hub.lease_seconds", "For how long the hub is going to push."),
    word("hub.reason", "Why the hub denies."),
)


@ROUTES.add(
    *("GET", "/hubs/{callback}", {200: None}),
    problems=(404, 503),
    parameters=_ASKED,
    open=True,
    is_text=True,
    any_parameters=True,
)
def answer_hub(call: Call, callback: str) -> Response[str]:
    """Tell a feed's hub that a subscription is meant, by its challenge."""
    meant = call.context.hubs.answer(callback, call.query)
    if meant.status != 200:
        raise NotFoundError("no such subscription of a feed is meant")
    return Response(200, _PLAIN, meant.challenge, {"X-Content-Type-Options": "nosniff"})


@ROUTES.add(
    *("POST", "/hubs/{callback}", {202: None, 410: None}),
    problems=(503,),
    headers=(
        Parameter(
            name=_SIGNATURE,
            meaning="The method, = and the HMAC of the body by the secret of the subscription.",
            shape={"type": "string"},
        ),
    ),
    open=True,
    any_parameters=True,
)
def push_hub(call: Call, callback: str) -> Response[str]:
    """Take a push of a feed's hub: the feed is read at once. 410 is that of one nobody wants."""
    try:
        body = body_of(call.event)
    except TooLargeBodyError:
        # Longer than is read here; polling finds what it has.
        body = b""
    status = call.context.hubs.push(callback, call.header(_SIGNATURE), body)
    return Response(status, _PLAIN, "")
