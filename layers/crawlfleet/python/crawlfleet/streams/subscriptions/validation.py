"""Find what is wrong with a subscription that a client writes: all of it, by its fields."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from crawlfleet.config.documents.quota import STREAM_UNITS, AtLimit, Quota
from crawlfleet.kernel.errors import InvalidRequestError, Problem
from crawlfleet.kernel.urls import problem_with
from crawlfleet.kernel.validation import named
from crawlfleet.streams import parsing
from crawlfleet.streams.subscriptions.models import (
    Active,
    Deliver,
    StreamKind,
    canonical_feed,
    is_zone,
)
from crawlfleet.streams.targets import must_be_allowed, target_of


def problems_with(
    fields: Mapping[str, Any],
    channels: Mapping[str, StreamKind],
    targets: Iterable[Mapping[str, str]],
) -> list[Problem]:
    """Find what is wrong with the fields that are given; others have no right type.

    ``channels`` are those of the stage, by name; ``targets`` are patterns of those that the tenant
    may deliver to.
    """
    found: list[Problem] = []
    if (text := fields.get("filter")) is not None:
        try:
            parsing.parse(text)
        except InvalidRequestError as error:
            found += error.problems
    found += _of_kind(fields, channels)
    if (deliver := fields.get("deliver")) is not None:
        found += _of_target(deliver, targets)
    active: Active | None = fields.get("active")
    if active is not None and not is_zone(active.time_zone):
        wrong = f"is no time zone of the IANA database ({active.time_zone}), such as Europe/Berlin"
        found.append(Problem("active.time_zone", wrong))
    return found + _of_quotas(fields.get("quotas") or ())


def _of_quotas(quotas: Sequence[Quota]) -> list[Problem]:
    found, seen = [], set()
    for index, quota in enumerate(quotas):
        at = f"quotas[{index}]"
        if quota.unit not in STREAM_UNITS:
            found.append(Problem(f"{at}.unit", f"is {quota.unit}, but streams have items and usd"))
        if quota.at_limit is AtLimit.END:
            found.append(Problem(f"{at}.at_limit", "is end, but a subscription always waits"))
        if (quota.unit, quota.per) in seen:
            found.append(Problem(at, f"says {quota.unit} per {quota.per} a second time"))
        seen.add((quota.unit, quota.per))
    return found


def _of_kind(fields: Mapping[str, Any], channels: Mapping[str, StreamKind]) -> list[Problem]:
    kind, feeds, channel = fields.get("kind"), fields.get("feeds"), fields.get("channel")
    found = _of_feeds(feeds or ())
    if kind is None:
        return found
    if kind is StreamKind.RSS:
        if feeds == ():
            found.append(Problem("feeds", "is missing: rss has 1 to 100 URLs of feeds"))
        if channel is not None:
            found.append(Problem("channel", "is given, but rss has feeds"))
        return found
    if feeds:
        found.append(Problem("feeds", f"are given, but {kind.value} has a channel"))
    of_kind = [name for name, its in channels.items() if its is kind]
    if channel is None:
        if "channel" in fields:
            found.append(Problem("channel", "is missing: name a channel of this stage"))
    elif channel not in of_kind:
        there = named(sorted(of_kind), channel) or "none"
        wrong = f"this stage has no channel {channel!r} of {kind.value}; it has: {there}"
        found.append(Problem("channel", wrong))
    return found


def _of_feeds(feeds: Sequence[str]) -> list[Problem]:
    found, seen = [], dict[str, int]()
    for index, url in enumerate(feeds):
        wrong = problem_with(url.strip())
        if wrong is None:
            first = seen.setdefault(canonical_feed(url), index)
            wrong = None if first == index else f"is feeds[{first}] again"
        if wrong is not None:
            found.append(Problem(f"feeds[{index}]", wrong))
    return found


def _of_target(deliver: Deliver, targets: Iterable[Mapping[str, str]]) -> tuple[Problem, ...]:
    try:
        must_be_allowed(target_of(deliver.named), targets)
    except InvalidRequestError as error:
        return error.problems
    return ()
