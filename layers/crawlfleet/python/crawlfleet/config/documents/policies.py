"""The documents of a biz that say how it crawls: politeness, recrawl, seeds, bidding."""

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from crawlfleet.kernel.validation import Count, Document, RuleName, Seconds, Words

#: Up to ten years.
Interval: TypeAlias = Annotated[float, Meta(ge=1, le=315_360_000)]
#: Bytes of one offer, as it is stored.
LARGEST_SEED: Final = 64_000
_Weight = Annotated[float, Meta(ge=0, le=1_000)]


class RecrawlPolicy(Document, frozen=True, kw_only=True):
    """The recrawl policy: when a page is fetched again, and what spares its download.

    ``conditional`` sends the validators that the site gave (ETag, Last-Modified). With ``schedule``
    each page is submitted again by itself, first after ``first_seconds``, then after an interval
    that follows how often the page was seen to change, between ``min_seconds`` and ``max_seconds``;
    so that pages spread, each a part of a tenth later that is always the page's own. A page of
    which nothing is heard for ``forget_seconds`` is forgotten. With ``due_only`` a new segment
    fetches no page that its rule has read and that is not due by its interval.
    """

    conditional: bool = True
    schedule: bool = False
    due_only: bool = False
    first_seconds: Interval = 86_400.0
    min_seconds: Interval = 3_600.0
    max_seconds: Interval = 2_592_000.0
    forget_seconds: Interval = 31_536_000.0


class Span(StrEnum):
    """The length of a segment. ``custom`` takes ``span_seconds``; ``forever`` has one segment."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    CUSTOM = "custom"
    FOREVER = "forever"


class KeyRules(Document, frozen=True, kw_only=True):
    """The rules by which canonical URLs are the same page (crawling.frontier.fingerprint).

    ``ignore`` are further parameters that say nothing about the page, ``keep`` those that count
    although they look like a time stamp, a session id or a JSONP callback; both may end in ``*``.
    ``only`` drops all parameters but these. ``ignore_scheme`` takes http and https for one,
    ``ignore_www`` a host with and without ``www.``. ``fragment`` keeps what follows ``#``.
    """

    ignore: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    keep: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    only: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    ignore_scheme: bool = False
    ignore_www: bool = False
    fragment: bool = False


class SeedPolicy(Document, frozen=True, kw_only=True):
    """The segments of a biz's seeds and their dispatch.

    Segments begin at local midnight (or hour, Monday, first of the month) of ``timezone``.
    ``resolvers`` name what decides on the same page for a rule or spider instead of ``keys`` (the
    entry point group ``crawlfleet.seed_keys``), ``segment_resolver`` what decides on the segment of
    a moment instead of ``span`` (``crawlfleet.segments``). ``expected`` is how many keys a
    segment's filter is made for, with ``error_rate`` false duplicates at that number; beyond it the
    filter grows. With ``exact`` every key that it takes for known is looked up. At most ``ahead``
    seeds are queued at once; the rest waits in MongoDB. A dispatched seed whose end is not known
    after ``lease_seconds`` is rechecked. Finished ones are kept for ``archive_days``.
    """

    span: Span = Span.DAY
    span_seconds: Seconds | None = None
    timezone: str = "UTC"
    keys: KeyRules = KeyRules()
    resolvers: Annotated[dict[RuleName, str], Meta(max_length=100)] = {}
    segment_resolver: Annotated[str, Meta(min_length=1, max_length=100)] | None = None
    exact: bool = False
    expected: Annotated[int, Meta(ge=1_000, le=1_000_000_000)] = 1_000_000
    error_rate: Annotated[float, Meta(ge=1e-9, le=0.1)] = 0.001
    ahead: Count = 10_000
    lease_seconds: Seconds = 3_600.0
    archive_days: Annotated[int, Meta(ge=1, le=3_650)] = 30


class Robots(StrEnum):
    """The treatment of a page that the site's robots.txt does not want fetched (RFC 9309)."""

    OBEY = "obey"
    IGNORE = "ignore"


class HostLimits(Document, frozen=True, kw_only=True):
    """The most that one host is asked for by the whole fleet.

    ``adaptive`` asks a host that answers slowly more slowly: at most ``concurrency`` answers' time
    is asked of it at once, as it was measured. After a 429, a 503 or a failed connection the host
    is left alone for ``backoff_seconds``, doubled with each further one up to
    ``max_backoff_seconds``; a Retry-After that is longer counts, up to ``max_retry_after_seconds``.
    A robots.txt's crawl-delay counts up to ``max_crawl_delay_seconds``.
    """

    per_second: Seconds = 10.0
    concurrency: Annotated[int, Meta(ge=1, le=10_000)] = 8
    adaptive: bool = True
    backoff_seconds: Seconds = 2.0
    max_backoff_seconds: Seconds = 600.0
    max_retry_after_seconds: Seconds = 86_400.0
    max_crawl_delay_seconds: Annotated[float, Meta(ge=0)] = 60.0


class Politeness(Document, frozen=True, kw_only=True):
    """A biz's own politeness: it may be more polite than the stage's limits, never less.

    ``product`` is the name that robots.txt files are asked for; null is the user agent's first
    word.
    """

    robots: Robots = Robots.OBEY
    product: (
        Annotated[str, Meta(pattern=r"^[A-Za-z_-]{1,64}\Z"), Words("up to 64 letters, _ and -")]
        | None
    ) = None
    per_second: Seconds | None = None
    concurrency: Count | None = None


class Weights(Document, frozen=True, kw_only=True):
    """The weight of each remaining resource among applicants; one of 0 does not count."""

    memory: _Weight = 1.0
    cpu: _Weight = 1.0
    bandwidth: _Weight = 1.0


class BiddingTerms(Document, frozen=True, kw_only=True):
    """The ``bidding`` of the stage document; without one jobs wait for no worker.

    What each bounds stands in docs/reference/configuration.md. Of ``slower_times`` SPEC.md B5 has
    tens as its example; the default is 2, chosen on 14 seeds of the simulation
    (benchmarks/assignment.py): with more, jobs went to links that carried as little as 8 % of what
    was wanted, and one of those ended last of all. Whose link carries what runs of the job's spider
    take is never dropped for it. Were ``applicants`` not bounded, all would apply for the first
    job, and one be awarded a window.
    """

    window_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.5
    wait_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 30.0
    acknowledge_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 10.0
    margin: Annotated[float, Meta(ge=0, lt=1)] = 0.1
    weights: Weights = Weights()
    slower_seconds: Annotated[float, Meta(gt=0, le=600)] = 0.5
    slower_times: Annotated[float, Meta(gt=1, le=1_000_000)] = 2.0
    probe_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 300.0
    lag_seconds: Annotated[float, Meta(ge=0, le=3_600)] = 10.0
    patience_seconds: Annotated[float, Meta(gt=0, le=604_800)] = 3_600.0
    applicants: Annotated[int, Meta(ge=1, le=100)] = 8
