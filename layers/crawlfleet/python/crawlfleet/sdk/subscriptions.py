"""Subscriptions to streams: put, list, read and end them; try their filters on saved items."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from crawlfleet.kernel.errors import NotFoundError
from crawlfleet.sdk.calls import PAGE_SIZE, Calls, Pages, parameters, path_of
from crawlfleet.wire.sources import SourcesPage, StreamSource, SubscriptionFigures
from crawlfleet.wire.subscriptions import Subscription, SubscriptionsPage, TriedFilter


class SubscriptionCalls(Calls):
    """The calls about subscriptions to streams.

    A ``revision`` is that of a :class:`Subscription`: where somebody has changed it since, a change
    is refused with ConflictError.
    """

    def subscriptions(self, biz: str, *, cursor: str | None = None) -> "Pages[Subscription]":
        """List the subscriptions of a biz, by name."""
        return self._pages(
            path_of(biz, "subscriptions"),
            SubscriptionsPage,
            parameters(limit=PAGE_SIZE),
            cursor,
            identity=lambda one: one.name,
        )

    def subscription(self, biz: str, name: str) -> Subscription:
        """Read one subscription.

        Raises:
            NotFoundError: the biz has none of that name.
        """
        return self._get(path_of(biz, "subscriptions", name), Subscription)

    def put_subscription(
        self,
        biz: str,
        name: str,
        *,
        filter: str,  # noqa: A002  the name of the field
        feeds: str | Iterable[str] = (),
        channel: str | None = None,
        kind: str | None = None,
        user: str | None = None,
        deliver: Mapping[str, str] | None = None,
        active: Mapping[str, Any] | None = None,
        quotas: Iterable[Mapping[str, Any]] = (),
        revision: str | None = None,
    ) -> Subscription:
        """Subscribe to a stream, or replace the subscription of that name.

        ::

            fleet.put_subscription(
                "news", "climate", filter='climate ("green deal" OR #cop31) -sport',
                feeds=["https://news.example/feed.xml"],
            )

        To ``feeds``, whose kind is ``rss``, or to a ``channel`` of the stage of the ``kind``
        ``x_stream`` or ``ndjson_stream``. ``deliver`` names one target, such as ``{"sqs": ARN}``;
        ``active`` says at which hours items are taken: ``{"time_zone": "Europe/Berlin", "hours":
        [{"days": ["mon"], "begins": "08:00", "ends": "18:00"}]}``. ``quotas`` are the most that it
        takes: ``[{"unit": "items", "most": 500, "per": "day"}]``, or ``usd``.

        Raises:
            InvalidRequestError: names every field that is wrong.
            ConflictError: it has another ``revision`` by now.
            QuotaExceededError: the tenant has as many as it may.
        """
        listed = [feeds] if isinstance(feeds, str) else list(feeds)
        document: dict[str, Any] = {"kind": kind or ("rss" if listed else None), "filter": filter}
        given = {
            "feeds": listed,
            "channel": channel,
            "user": user,
            "deliver": deliver,
            "active": active,
            "quotas": [dict(quota) for quota in quotas],
        }
        document |= {name: value for name, value in given.items() if value}
        return self.put_subscription_document(biz, name, document, revision=revision)

    def put_subscription_document(
        self, biz: str, name: str, document: Mapping[str, Any], *, revision: str | None = None
    ) -> Subscription:
        """Subscribe by the document as the API takes it; what is None there is left out.

        Raises:
            InvalidRequestError: names every field that is wrong.
            ConflictError: it has another ``revision`` by now.
        """
        whole = {**document, **({} if revision is None else {"revision": revision})}
        body = msgspec.json.encode({name: one for name, one in whole.items() if one is not None})
        path = path_of(biz, "subscriptions", name)
        return self._read(self._transport.call("PUT", path, body=body), Subscription)

    def sources(self, biz: str, *, cursor: str | None = None) -> "Pages[StreamSource]":
        """List the channels and feeds that a biz subscribes to, by name, as they are read now."""
        return self._pages(
            path_of(biz, "sources"),
            SourcesPage,
            parameters(limit=PAGE_SIZE),
            cursor,
            identity=lambda one: one.name,
        )

    def source(self, biz: str, name: str) -> StreamSource:
        """Read one of them, by the name of the channel or the URL of the feed.

        Raises:
            NotFoundError: no subscription of the biz is to it.
        """
        return self._get(path_of(biz, "sources", "one"), StreamSource, parameters(name=name))

    def subscription_figures(self, biz: str, name: str) -> SubscriptionFigures:
        """Read the figures of a subscription: what it takes, how late it is delivered, what waits.

        Raises:
            NotFoundError: the biz has none of that name.
        """
        return self._get(path_of(biz, "subscriptions", name, "figures"), SubscriptionFigures)

    def end_subscription(self, biz: str, name: str, *, revision: str | None = None) -> None:
        """End a subscription; what was taken for it stays.

        Raises:
            NotFoundError: the biz has none of that name.
            ConflictError: it has another ``revision`` by now.
        """
        lost: list[str] = []
        path, which = path_of(biz, "subscriptions", name), parameters(revision=revision)
        try:
            self._transport.call("DELETE", path, params=which, lost=lost)
        except NotFoundError:
            if not lost:
                raise

    def try_filter(
        self,
        biz: str,
        items: Iterable[Mapping[str, Any]],
        *,
        filter: str | None = None,  # noqa: A002  the name of the field
        subscription: str | None = None,
    ) -> TriedFilter:
        """Try a filter, or that of a subscription, on up to 1,000 saved items; nothing is stored.

        An item has a ``text``, and perhaps an ``id``, ``author``, ``language``, ``hashtags`` and
        ``mentions``. What becomes of each is told in their order.

        Raises:
            InvalidRequestError: names what is wrong with the filter, or with an item.
            NotFoundError: the biz has no such subscription.
        """
        given = {"filter": filter, "subscription": subscription, "items": [*map(dict, items)]}
        document = {name: one for name, one in given.items() if one is not None}
        return self._post(path_of(biz, "subscriptions", "try"), document, TriedFilter, [])
