"""Resolvers that packages bring: what is one page, and when a segment begins (SPEC.md F1, F2).

A package names its seed-key resolvers under the entry point group ``crawlfleet.seed_keys``, and its
segment resolvers under ``crawlfleet.segments``. A biz says by ``seeds.resolvers`` which of the
former holds for which of its rules and spiders, and by ``seeds.segment_resolver`` which of the
latter holds for all of them. They are called as ``fingerprint.seed_key`` and
``segments.segment_of`` are, and are the operator's code: what they raise costs the seed alone.
"""

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from importlib.metadata import EntryPoint, entry_points
from threading import Lock
from typing import Any, Final

from crawlfleet.config.documents.biz import Biz
from crawlfleet.config.documents.policies import KeyRules, SeedPolicy
from crawlfleet.crawling.frontier.fingerprint import KEY_BYTES, SeedKeyResolver, seed_key
from crawlfleet.crawling.frontier.models import Segment
from crawlfleet.crawling.frontier.segments import NAME, SegmentResolver, segment_of
from crawlfleet.kernel.errors import InvalidRequestError

SEED_KEYS: Final = "crawlfleet.seed_keys"
SEGMENTS: Final = "crawlfleet.segments"

_NAME: Final = re.compile(rf"{NAME}\Z")
_PLAIN: Final = KeyRules()


def installed(group: str) -> Iterable[EntryPoint]:
    """List the entry points of the packages that Python finds here."""
    return entry_points(group=group)


def missing(group: str, names: Iterable[str]) -> list[str]:
    """List the names under which nothing is found here; load nothing."""
    return sorted(set(names) - {point.name for point in installed(group)})


class _Loaded:
    """The objects of a group of entry points, each loaded when first asked for, and kept."""

    def __init__(self, group: str, points: Callable[[str], Iterable[EntryPoint]]) -> None:
        self._group, self._points = group, points
        self._loaded: dict[str, Any] = {}
        self._lock = Lock()

    def find(self, name: str, field: str) -> Any:
        """Return what has the name; InvalidRequestError, with the field, if it cannot be had."""
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = self._load(name, field)
            return self._loaded[name]

    def _load(self, name: str, field: str) -> Any:
        found = [point for point in self._points(self._group) if point.name == name]
        if len(found) != 1:
            several = f"{len(found)} packages bring one" if found else "no package brings one"
            raise InvalidRequestError.of(field, f"{several} called {name!r} ({self._group})")
        try:
            return found[0].load()
        except (Exception, SystemExit) as error:
            message = f"{found[0].value} cannot be loaded: {type(error).__name__}: {error}"
            raise InvalidRequestError.of(field, message[:300]) from error


class SeedKeys:
    """The seed-key resolvers of one process (fingerprint.ResolverOf). Threads may share it."""

    def __init__(self, points: Callable[[str], Iterable[EntryPoint]] = installed) -> None:
        self._resolvers = _Loaded(SEED_KEYS, points)

    def __call__(self, biz: Biz, rule: str) -> SeedKeyResolver:
        """Return the resolver of a rule; InvalidRequestError if it is broken or not found."""
        name = biz.seeds.resolvers.get(rule)
        if name is None:
            return seed_key
        return _key_guarded(self._resolvers.find(name, f"seeds.resolvers.{rule}"), name)


class Segments:
    """The segment resolvers of one process (segments.SegmentResolver). Threads may share it."""

    def __init__(self, points: Callable[[str], Iterable[EntryPoint]] = installed) -> None:
        self._resolvers = _Loaded(SEGMENTS, points)

    def __call__(self, policy: SeedPolicy, at: datetime) -> Segment:
        """Return the segment that a moment lies in, by the policy's resolver or its span.

        Raises InvalidRequestError if the resolver is broken or not found, or gives no segment.
        """
        name = policy.segment_resolver
        if name is None:
            return segment_of(policy, at)
        field = "seeds.segment_resolver"
        resolver: SegmentResolver = self._resolvers.find(name, field)
        try:
            segment: object = resolver(policy, at)
            why = _segment_problem(segment, at)
        except Exception as error:
            message = f"{name} fails: {type(error).__name__}: {error}"[:300]
            raise InvalidRequestError.of(field, message) from error
        if why is not None or not isinstance(segment, Segment):
            raise InvalidRequestError.of(field, f"{name} gives {why}")
        return segment


def _segment_problem(segment: object, at: datetime) -> str | None:
    """Return what is wrong with a segment of this moment; an error says it of what has no zone."""
    if not isinstance(segment, Segment):
        return f"{type(segment).__name__}, which is no Segment"
    if not _NAME.match(segment.name):
        return f"the name {segment.name[:80]!r}; it is to be up to 64 of A-Z a-z 0-9 : . _ -"
    if segment.starts_at > at or (segment.ends_at is not None and segment.ends_at <= at):
        return f"{segment.name}, from {segment.starts_at} to {segment.ends_at}, for {at}"
    return None


def _key_guarded(resolver: SeedKeyResolver, name: str) -> SeedKeyResolver:
    """Wrap a resolver: its faults cost the URL that they befall and nothing else."""

    def resolve(
        url: str, rules: KeyRules = _PLAIN, *, method: str = "GET", body: bytes | None = None
    ) -> bytes:
        # As whoever calls it: those that know URLs alone take nothing else.
        call: dict[str, Any] = {} if method == "GET" else {"method": method, "body": body}
        try:
            key: object = resolver(url, rules, **call)
        except InvalidRequestError:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {error}"[:200]
            raise InvalidRequestError.of("url", f"has no key by {name}: {why}") from error
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            raise InvalidRequestError.of("url", f"has no key of {KEY_BYTES} bytes by {name}")
        return key

    return resolve
