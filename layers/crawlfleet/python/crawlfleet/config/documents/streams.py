"""Streams in the stage document: channels that are shared, targets of tenants (D7, D8, D10)."""

from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from crawlfleet.config.documents.quota import (
    NANO_DOLLARS,
    STREAM_UNITS,
    Quotas,
    QuotaUnit,
    nano_dollars,
    written,
)
from crawlfleet.config.documents.secret import SecretName
from crawlfleet.kernel.validation import Document, Slug, StoreName, Words

#: Where a value stands in objects of a stream; ``.`` leads into objects, and into each of a list.
Path = Annotated[
    str,
    Meta(pattern=r"^(?:[A-Za-z0-9_@$:-]{1,64}(?:\.[A-Za-z0-9_@$:-]{1,64}){0,7})?\Z"),
    Words("names joined by dots, such as user.name, or nothing"),
]
StreamAddress = Annotated[
    str,
    Meta(pattern=r"^https?://[^\s@/?#]{1,253}(?:[/?][^\s#]{0,2000})?\Z"),
    Words("an http or https address without a user, such as https://stream.example/lines"),
]
CallbackAddress = Annotated[
    str,
    Meta(pattern=r"^https?://[^\s@/?#]{1,253}(?:/[A-Za-z0-9._~/-]{0,200})?\Z"),
    Words("the address of the API, such as https://api.example.com/prod"),
]
ParameterName = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9_.\[\]-]{1,64}\Z"),
    Words("the name of a parameter of the address, such as since"),
]


#: X sends a sign of life every 20 seconds.
_X_SILENCE: Final = 21.0
_SILENCE: Final = 60.0
#: The price of a post of X, by its price list of 2026.
_X_USD: Final = 0.005
_MOST_USD: Final = 1_000


class ChannelKind(StrEnum):
    """The kind of a channel: how it is asked, and what it answers."""

    NDJSON = "ndjson_stream"
    X = "x_stream"


class ItemFields(Document, frozen=True, kw_only=True):
    """The places of what is known of an item in an object of a stream.

    ``cursor`` is where to go on after the object. An object in which ``withdrawn`` is found takes
    back the item with the id that stands there.
    """

    id: Path = "id"
    text: Path = "text"
    title: Path = "title"
    url: Path = "url"
    author: Path = "author"
    language: Path = "language"
    hashtags: Path = "hashtags"
    mentions: Path = "mentions"
    published_at: Path = "published_at"
    conversation: Path = "conversation"
    replies_to: Path = "replies_to"
    quotes: Path = "quotes"
    cursor: Path = "id"
    withdrawn: Path = ""


class XPlan(Document, frozen=True, kw_only=True):
    """The terms of a plan of X: its rules, the characters of each, and what it recovers by itself.

    ``rules`` counts those that others have at the same app, too. Without ``backfill_minutes`` what
    was missed is searched for.
    """

    rules: Annotated[int, Meta(ge=1, le=100_000)] = 1_000
    characters: Annotated[int, Meta(ge=128, le=8_192)] = 1_024
    backfill_minutes: Annotated[int, Meta(ge=0, le=5)] = 0


class Channel(Document, frozen=True, kw_only=True):
    """A channel: an HTTP stream of JSON, an object a line, or X's filtered stream.

    ``secret`` is sent as a bearer token, and to the origin of ``url`` alone. With
    ``filter_parameter`` the stream filters by itself: it is read once for each filter that no other
    one covers. Without it all of the stream is read, once. With ``cursor_parameter`` it goes on
    behind the last object that was kept. A stream that says nothing for ``silent_seconds`` is
    connected to anew; they are 60, of X 21.

    A channel of the kind ``x_stream`` has the address of X's API, such as https://api.x.com/2, the
    ``secret`` of an app-only token, and perhaps the ``plan``; all else is as X has it.

    ``item_usd`` is the price of an item in US dollars, of X 0.005, of others 0. ``quotas`` are the
    most that all of the channel may bring, in items or US dollars: then it is not read at all.
    """

    kind: ChannelKind
    url: StreamAddress
    secret: SecretName | None = None
    filter_parameter: ParameterName | None = None
    cursor_parameter: ParameterName | None = None
    fields: ItemFields = ItemFields()
    silent_seconds: Annotated[float, Meta(ge=1, le=3_600)] | None = None
    max_line_bytes: Annotated[int, Meta(ge=1_000, le=4_000_000)] = 256_000
    plan: XPlan = XPlan()
    item_usd: Annotated[float, Meta(ge=0, le=_MOST_USD)] | None = None
    quotas: Quotas = ()

    @property
    def price(self) -> int:
        """Return the price of an item in nano-dollars."""
        own = _X_USD if self.kind is ChannelKind.X else 0.0
        return nano_dollars(own if self.item_usd is None else self.item_usd)

    @property
    def asked(self) -> "Channel":
        """Return it as it is asked; what it costs makes no difference to that."""
        return msgspec.structs.replace(self, item_usd=None, quotas=())

    @property
    def silence_seconds(self) -> float:
        """Return the silence after which it is connected to anew."""
        return self.silent_seconds or (_X_SILENCE if self.kind is ChannelKind.X else _SILENCE)

    def problems(self) -> dict[str, str]:
        """Find what does not go together, by field."""
        return {**self._of_its_kind(), **self._of_its_quotas()}

    def _of_its_quotas(self) -> dict[str, str]:
        found, seen = {}, set()
        for index, quota in enumerate(self.quotas):
            if quota.unit not in STREAM_UNITS:
                found[f"quotas[{index}].unit"] = f"is {quota.unit}, but streams have items and usd"
            elif (quota.unit, quota.per) in seen:
                found[f"quotas[{index}]"] = f"says {quota.unit} per {quota.per} a second time"
            elif quota.unit is QuotaUnit.USD and quota.amount < self.price:
                said = written(QuotaUnit.USD, self.price)
                found[f"quotas[{index}].most"] = f"is less than one item costs ({said})"
            seen.add((quota.unit, quota.per))
        usd = self.item_usd or 0.0
        if abs(nano_dollars(usd) / NANO_DOLLARS - usd) > usd * 1e-12:
            found["item_usd"] = f"has more than nine decimal places ({usd})"
        return found

    def _of_its_kind(self) -> dict[str, str]:
        if self.kind is not ChannelKind.X:
            no_plan = f"is given, but {self.kind.value} has no plan"
            return {"plan": no_plan} if self.plan != _PLAIN.plan else {}
        others = ("filter_parameter", "cursor_parameter", "fields", "max_line_bytes")
        given = [field for field in others if getattr(self, field) != getattr(_PLAIN, field)]
        no_token = {"secret": "is missing: X lets nobody read without a token"}
        return {
            **(no_token if self.secret is None else {}),
            **dict.fromkeys(given, "is given, but X's stream is as X has it"),
        }


#: A channel of which nothing is said.
_PLAIN: Final = Channel(kind=ChannelKind.NDJSON, url="https://stream.example/")


TargetPattern = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9:._/-]{1,500}\*?\Z|^\*\Z"),
    Words(
        "a target as it is in a subscription, of AWS its ARN; with * at its end all that begin so"
    ),
]


class AllowedTarget(Document, frozen=True, kw_only=True):
    """Targets that a tenant may have items delivered to; each field is a pattern of its kind."""

    sqs: TargetPattern | None = None
    sns: TargetPattern | None = None
    eventbridge: TargetPattern | None = None
    redis_stream: TargetPattern | None = None

    @property
    def named(self) -> dict[str, str]:
        """Return the patterns that are given, by their kind."""
        kinds = self.__struct_fields__
        return {kind: getattr(self, kind) for kind in kinds if getattr(self, kind) is not None}


class StreamTerms(Document, frozen=True, kw_only=True):
    """The terms of streams: ``channels`` by the names that subscriptions use, and targets.

    ``targets`` are those that subscriptions may name, by tenant. A tenant that is not there may
    have items kept, and delivered nowhere. ``redis_entries`` is how many messages each Redis stream
    of a tenant keeps, about: Redis has them in memory, beside the queues.

    On AWS a reader has ``sources_per_reader`` sources before another one is started, as many as the
    deployment allows. A reader whose time ends goes once its successor has run for
    ``overlap_seconds``.

    ``hub_callback`` is the address of the API as hubs of feeds reach it, with its stage: then hubs
    are asked to push (WebSub). Without it no hub is asked, and feeds are polled.
    """

    channels: Annotated[dict[StoreName, Channel], Meta(max_length=100)] = {}

    sources_per_reader: Annotated[int, Meta(ge=1, le=1_000)] = 20
    overlap_seconds: Annotated[float, Meta(ge=0, le=120)] = 10.0
    hub_callback: CallbackAddress | None = None
    targets: Annotated[
        dict[Slug, Annotated[tuple[AllowedTarget, ...], Meta(max_length=100)]],
        Meta(max_length=10_000),
    ] = {}

    redis_entries: Annotated[int, Meta(ge=100, le=1_000_000)] = 10_000
