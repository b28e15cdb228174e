"""Add URLs to the frontier as seeds (SPEC.md F1-F3): checked, looked up, stored, then filtered.

MongoDB decides. A seed is accepted by being stored under its segment and key, which only one can
be; the filter in Redis spares look-ups and learns of it last, so that a crash in between leaves at
most a key that has to be looked up.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from crawlfleet.config.documents.biz import Biz
from crawlfleet.config.documents.policies import LARGEST_SEED
from crawlfleet.crawling.frontier.fingerprint import ResolverOf, default_resolver
from crawlfleet.crawling.frontier.models import AddResult, Seed, SeedSpec, SeedState, Segment
from crawlfleet.crawling.frontier.segments import SegmentResolver, segment_in, segment_of
from crawlfleet.kernel.errors import InvalidRequestError, Problem, StoreError, StoreUnavailableError
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.kernel.urls import problem_with, problem_with_headers
from crawlfleet.requests.models import Claim, Link
from crawlfleet.requests.submission.admission import problem_with_meta

if TYPE_CHECKING:
    from crawlfleet.crawling.frontier.mongo.store import MongoSeeds
    from crawlfleet.crawling.frontier.redis import RedisSeedFilter

#: A seed may be for a time as far ahead as this.
FURTHEST: Final = timedelta(days=366)
#: As of a submission.
METHODS: Final = ("GET", "HEAD", "POST", "PUT")
_BODILESS: Final = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A seed that can be worked on, and the place that it would be stored at."""

    segment: Segment
    key: bytes
    seed: Seed


class Sparing(NamedTuple):
    """The downloads that a new segment spares (crawling.recrawl.service).

    ``undue`` says by key in hex why pages of new seeds need not be fetched, ``spared`` counts them.
    """

    undue: Callable[[QueueKey, Biz, Mapping[str, Seed]], dict[str, str]]
    spared: Callable[[QueueKey, Biz, Sequence[str]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """Adds seeds. ``resolver`` gives the key resolver of a biz's rule or spider of that name.

    Without ``sparing`` each page is fetched that its segment does not know.
    """

    seeds: "MongoSeeds"
    filter: "RedisSeedFilter"
    resolver: ResolverOf = default_resolver
    segments: SegmentResolver = segment_of
    sparing: Sparing | None = None

    def add(
        self, queue_key: QueueKey, biz: Biz, specs: Sequence[SeedSpec], now: datetime
    ) -> list[AddResult]:
        """Add URLs as seeds; one result each, in order.

        What cannot be worked on has neither segment nor key in its result, but why. With a
        StoreUnavailableError some may be stored; added again, those are duplicates of themselves.
        """
        return [
            one
            if isinstance(one, AddResult)
            else AddResult(accepted=False, segment="", key="", why=str(one))
            for one in self.add_each(queue_key, biz, specs, now)
        ]

    def add_each(
        self, queue_key: QueueKey, biz: Biz, specs: Sequence[SeedSpec], now: datetime
    ) -> list[AddResult | Problem]:
        """Add URLs; of what cannot be worked on the result is which field is wrong, and how."""
        judged = [self._judge(biz, one, now) for one in specs]
        firsts: dict[str, dict[bytes, _Candidate]] = {}
        repeats: list[bool] = []
        for one in judged:
            if isinstance(one, Problem):
                repeats.append(False)
                continue
            group = firsts.setdefault(one.segment.name, {})
            repeats.append(group.setdefault(one.key, one) is not one)

        known = {name: self._enter(queue_key, biz, group) for name, group in firsts.items()}
        answers: list[AddResult | Problem] = []
        for one, again in zip(judged, repeats, strict=True):
            if isinstance(one, Problem):
                answers.append(one)
                continue
            why = known[one.segment.name].get(one.key, "offered twice in one call" if again else "")
            answers.append(
                AddResult(accepted=not why, segment=one.segment.name, key=one.key.hex(), why=why)
            )
        return answers

    def add_running(
        self, queue_key: QueueKey, biz: Biz, specs: Sequence[SeedSpec], now: datetime
    ) -> tuple[dict[RequestId, str], set[str]]:
        """Make seeds of requests that are at work already.

        Return the ids of the new seeds by request, and those of all, new or not.

        ``found_by`` is the request itself. So a page that was submitted as it is, and has links, is
        not crawled once more for the links that lead back to it. A seed that is there stays.
        """
        until = now + timedelta(seconds=biz.seeds.lease_seconds)
        groups: dict[str, dict[bytes, _Candidate]] = {}
        for one in specs:
            found = self._judge(biz, one, now)
            if isinstance(found, Problem) or one.found_by is None:
                continue
            seed = msgspec.structs.replace(
                found.seed,
                state=SeedState.HANDED,
                request=one.found_by,
                handed_at=from_ms(to_ms(now)),
                due_at=until,
            )
            group = groups.setdefault(found.segment.name, {})
            group.setdefault(found.key, _Candidate(found.segment, found.key, seed))
        running: dict[RequestId, str] = {}
        there = {one.seed.id for group in groups.values() for one in group.values()}
        for group in groups.values():
            known = self._enter(queue_key, biz, group)
            for key, candidate in group.items():
                seed = candidate.seed
                if key not in known and seed.request is not None:
                    running[seed.request] = seed.id
        return running, there

    def _judge(self, biz: Biz, one: SeedSpec, now: datetime) -> _Candidate | Problem:
        """Return what a spec would be stored as, or what is wrong with it."""
        problem = problem_with_seed(biz, one, now)
        if problem is None and one.found_by is None:
            problem = problem_with_meta(biz, one.meta)
        if problem is not None:
            return problem
        at = from_ms(to_ms(max(now, one.starts_at or now)))
        body = None if one.body is None else one.body.encode()
        # Of a GET nothing is said but the URL: resolvers that know nothing else stay as they are.
        call: dict[str, Any] = {} if one.method == "GET" else {"method": one.method, "body": body}
        try:
            key = self.resolver(biz, one.rule)(one.url, biz.seeds.keys, **call)
            segment = segment_in(self.segments, biz.seeds, one.segment, at)
        except InvalidRequestError as error:
            return error.problems[0]
        if one.repeat:
            key = repeat_key(key, one)
        return _Candidate(
            segment,
            key,
            Seed(
                key=key.hex(),
                segment=segment.name,
                spec=one,
                state=SeedState.READY,
                offered_at=from_ms(to_ms(now)),
                due_at=at,
                ends_at=segment.ends_at,
            ),
        )

    def _enter(
        self, queue_key: QueueKey, biz: Biz, group: dict[bytes, _Candidate]
    ) -> dict[bytes, str]:
        """Store what a segment does not know yet; return why each of the others is known."""
        segment = next(iter(group.values())).segment
        keys = list(group)
        pairs = zip(keys, self._seen(queue_key, biz, segment, keys), strict=True)
        by_filter = {key for key, seen in pairs if seen}
        fresh = [key for key in keys if key not in by_filter]
        if biz.seeds.exact and by_filter:
            doubtful = [key for key in keys if key in by_filter]
            stored = self.seeds.known(queue_key, biz, segment, [key.hex() for key in doubtful])
            known = {key: _why(segment) for key in doubtful if key.hex() in stored}
            fresh += [key for key in doubtful if key not in known]
        else:
            known = {key: f"{_why(segment)}, by its filter" for key in by_filter}
        if fresh:
            seeds = {key.hex(): group[key].seed for key in fresh}
            spared = self._spared(queue_key, biz, seeds)
            existing = self.seeds.insert(queue_key, biz, list((seeds | spared).values()))
            known |= {key: spared[key.hex()].why for key in fresh if key.hex() in spared}
            known |= {key: _why(segment) for key in fresh if key.hex() in existing}
            self._count_spared(queue_key, biz, [key for key in spared if key not in existing])
            try:
                self.filter.add(queue_key, biz, segment, fresh)
            except StoreUnavailableError as error:
                warn("seeds are stored, but their filter does not know them", error)
        return known

    def _spared(self, queue_key: QueueKey, biz: Biz, seeds: Mapping[str, Seed]) -> dict[str, Seed]:
        """Return the ready seeds whose pages need not be fetched, as they are finished at once."""
        if self.sparing is None:
            return {}
        ready = {key: seed for key, seed in seeds.items() if seed.state is SeedState.READY}
        return {
            key: msgspec.structs.replace(
                ready[key], state=SeedState.FINISHED, due_at=ready[key].offered_at, why=why
            )
            for key, why in self.sparing.undue(queue_key, biz, ready).items()
        }

    def _count_spared(self, queue_key: QueueKey, biz: Biz, keys: Sequence[str]) -> None:
        if self.sparing is None or not keys:
            return
        try:
            self.sparing.spared(queue_key, biz, keys)
        except StoreError as error:
            warn("downloads were saved that are not counted", error)

    def _seen(
        self, queue_key: QueueKey, biz: Biz, segment: Segment, keys: Sequence[bytes]
    ) -> list[bool]:
        try:
            return self.filter.seen(queue_key, biz, segment, keys)
        except StoreUnavailableError as error:
            warn("seeds are checked without their filter", error)
            return [False] * len(keys)


def spec_of_link(claim: Claim, link: Link) -> SeedSpec:
    """Return the seed of a link that was found on a request's page."""
    return SeedSpec(
        url=link.url,
        rule=link.rule or claim.request.body.rule,
        depth=link.depth,
        meta=link.meta,
        headers=link.headers,
        method=link.method,
        body=link.body,
        repeat=link.repeat,
        job=claim.request.job,
        priority=claim.request.priority,
        pool=claim.request.pool,
        found_by=claim.request.id,
        segment=claim.request.body.segment,
        user=claim.request.user,
    )


def repeat_key(key: bytes, spec: SeedSpec) -> bytes:
    """Return the key of a seed that is of the page that has its link, and of what it carries.

    A page that is read once more after a crash has the same links, and these the same keys.
    """
    content = msgspec.msgpack.encode((key, spec.rule, spec.found_by, spec.meta, spec.headers))
    return blake2b(content, digest_size=len(key)).digest()


def problem_with_seed(biz: Biz, one: SeedSpec, now: datetime) -> Problem | None:
    """Return why no seed can be made of a spec, whatever its key; None where one can."""
    fault = problem_with(one.url)
    if fault is not None:
        return Problem("url", fault)
    fault = problem_with_headers(one.headers)
    if fault is not None:
        return Problem("headers", fault)
    if one.method not in METHODS:
        return Problem("method", f"is none of {', '.join(METHODS)}")
    if one.body is not None and one.method in _BODILESS:
        return Problem("body", f"is none of a {one.method}'s; a POST or a PUT may have one")
    if biz.reader(one.rule) is None:
        return Problem("rule", f"this biz has no rule called {one.rule[:64]!r}")
    if one.starts_at is not None and one.starts_at - now > FURTHEST:
        return Problem("starts_at", f"must be within {FURTHEST.days} days")
    try:
        size = len(msgspec.msgpack.encode(one))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return Problem("meta", f"cannot be stored: {error}")
    if size > LARGEST_SEED:
        field = "body" if one.body and len(one.body.encode()) * 2 > size else "meta"
        return Problem(field, f"is too large: a seed may take {LARGEST_SEED:,} bytes in all")
    return None


def _why(segment: Segment) -> str:
    return f"known in segment {segment.name}"
