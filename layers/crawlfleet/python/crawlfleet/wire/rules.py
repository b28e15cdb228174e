"""Rules: their coverage, and what a trial of one yields."""

from datetime import datetime
from typing import Any

import msgspec

from crawlfleet.kernel.errors import Problem


class BizSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A biz of the tenant, and the rules and spiders that its document has."""

    name: str
    description: str = ""
    rules: tuple[str, ...] = ()
    spiders: tuple[str, ...] = ()


class BizsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Every biz of the tenant, by name."""

    bizs: tuple[BizSummary, ...]


class FieldCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """The coverage of a field: how many records have a value, and their share, from 0 to 1."""

    name: str
    count: int = 0
    share: float = 0.0


class TriedField(FieldCoverage, frozen=True, kw_only=True):
    """The coverage of a field on a page; ``why`` says, where no record has a value, the cause."""

    why: str | None = None


class HourCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """Coverage of one version of a rule in the hour that began then."""

    started_at: datetime
    pages: int = 0
    records: int = 0
    rejected: int = 0
    fields: tuple[FieldCoverage, ...] = ()


class RuleCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """Coverage of one version of a rule or spider; new requests are read by the ``current`` one.

    ``rejected`` of the records were not stored: the schema or the key did not take them. ``hours``
    are the last 25 in which it had any, the oldest first. Of the current version ``empty`` are
    fields that less than a tenth of the records have; with ``mostly_empty`` at least half are so.
    """

    rule: str
    version: str
    current: bool = False
    pages: int = 0
    records: int = 0
    rejected: int = 0
    fields: tuple[FieldCoverage, ...] = ()
    empty: tuple[str, ...] = ()
    mostly_empty: bool = False
    hours: tuple[HourCoverage, ...] = ()


class CoverageAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Every version that was counted, by rule, of each the current one first."""

    coverage: tuple[RuleCoverage, ...]


class FetchedPage(msgspec.Struct, frozen=True, kw_only=True):
    """The page that came: the URL where ``redirects`` ended, and those on the way there."""

    url: str
    status: int
    content_type: str = ""
    bytes: int = 0
    seconds: float = 0.0
    redirects: tuple[str, ...] = ()


class FetchFailure(msgspec.Struct, frozen=True, kw_only=True):
    """The failure to fetch a page; ``reason`` is that of its dead letter.

    ``status`` is the site's, 0 where it gave no answer or was not asked, as with `RobotsDenied`. A
    host without a free host slot is `Throttled` with a status of 0. ``retry_after_seconds`` is when
    it makes sense to ask again, where that is known.
    """

    reason: str
    message: str
    status: int = 0
    retryable: bool = False
    retry_after_seconds: float | None = None


class FollowedLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link that would be followed; ``rule`` is what reads it, null the rule that is tried."""

    url: str
    rule: str | None = None
    depth: int = 0
    meta: dict[str, Any] = {}


class TriedRule(msgspec.Struct, frozen=True, kw_only=True):
    """The yield of a rule on a page, and what a worker would do with it; nothing was stored.

    ``error`` says why a URL could not be fetched; ``fetched`` is the site's last answer.
    ``problems`` are what of the page could not be read: a worker would store nothing of it.
    ``rejected`` are records that the rule's schema or key keeps from being stored: the first few of
    ``rejected_count``. ``left_out`` are things of the page, such as lines of a file, that a spider
    could not read: the first few of ``left_out_count``. ``records`` and ``links`` are the first 200
    and 1,000, fewer where they are large, of ``record_count`` and ``link_count``; ``cut`` says that
    there are others. ``coverage`` says of how many records each field has a value. ``refused``
    counts links that are not followed, by reason. ``seconds`` is what reading took.
    """

    version: str = ""
    fetched: FetchedPage | None = None
    error: FetchFailure | None = None
    problems: tuple[Problem, ...] = ()
    records: tuple[dict[str, Any], ...] = ()
    record_count: int = 0
    rejected: tuple[str, ...] = ()
    rejected_count: int = 0
    left_out: tuple[str, ...] = ()
    left_out_count: int = 0
    coverage: tuple[TriedField, ...] = ()
    links: tuple[FollowedLink, ...] = ()
    link_count: int = 0
    refused: dict[str, int] = {}
    cut: bool = False
    seconds: float = 0.0
