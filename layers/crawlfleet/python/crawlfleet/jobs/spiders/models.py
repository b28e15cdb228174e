"""A spider as it is kept (SPEC.md B2, C2): what its jobs crawl, by which rule, what they need.

Where a job's tasks come from: URLs, or a pattern and what goes into it (SPEC.md C2, C3).

Task ``i`` of a start is known by ``i`` alone (jobs.spiders.starts), so a job of millions is stored
as one pattern, and made into tasks in batches that may stop and go on anywhere.
"""

from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Annotated

import msgspec
from msgspec import Meta

from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY, Priority
from crawlfleet.kernel.urls import Url
from crawlfleet.kernel.validation import Count, Document, RuleName, Seconds, Slug, Words

#: What stands in braces in a pattern: ``{page}``.
PlaceName = Annotated[
    str,
    Meta(pattern=r"^[a-z][a-z0-9_]{0,31}\Z"),
    Words("up to 32 of a-z, 0-9 and _, a letter first"),
]
#: What is put there; it is percent-encoded, so it stays within its place.
PlaceValue = Annotated[str, Meta(min_length=1, max_length=512)]
#: Most tasks of one job.
LARGEST_JOB = 100_000_000


class Range(Document, frozen=True, kw_only=True):
    """Whole numbers from ``first`` to ``last``, that one included, every ``step`` one."""

    first: Annotated[int, Meta(ge=0, le=2**53)] = 1
    last: Annotated[int, Meta(ge=0, le=2**53)]
    step: Annotated[int, Meta(ge=1, le=2**53)] = 1

    @property
    def count(self) -> int:
        """How many there are; 0 where ``last`` is before ``first``.

        >>> Range(first=1, last=10, step=3).count
        4
        """
        return max(0, (self.last - self.first) // self.step + 1)


class Start(Document, frozen=True, kw_only=True):
    """Either ``urls``, or a ``pattern`` with places in braces and the ``values`` that go into them.

    Places that ``values`` does not name are filled by whoever starts the job. Several places make
    every combination, the last one named in ``values`` changing first.
    """

    urls: Annotated[tuple[Url, ...], Meta(max_length=10_000)] = ()
    pattern: Url | None = None
    values: Annotated[
        dict[PlaceName, Range | Annotated[tuple[PlaceValue, ...], Meta(max_length=1000)]],
        Meta(max_length=8),
    ] = {}


#: Most spiders that a biz keeps, and most versions of each that nothing names.
MOST_SPIDERS = 1_000
MOST_VERSIONS = 200
#: Within this whoever holds a version has kept what names it.
HOLD = timedelta(hours=1)
#: Most bytes of a plan as JSON; a page of a list has room for fifty.
LARGEST_PLAN = 100_000


class LinkNeeds(Document, frozen=True, kw_only=True):
    """What the way from a worker to the site must be like for it to apply for a job (SPEC.md B4).

    ``test_url`` is what is asked for to find out; the job's first URL where it is null. None is no
    limit. ``seconds`` are until the answer's first byte, ``bytes_per_second`` those of its body.
    """

    test_url: Url | None = None
    seconds_below: Seconds | None = None
    bytes_per_second_above: Count | None = None


class SpiderPlan(Document, frozen=True, kw_only=True):
    """What a client says of a spider; ``rule`` is a rule or an executor's spider of the biz.

    ``pool`` pins its jobs to the workers of a pool; None leaves it to the award.
    """

    rule: RuleName
    start: Start
    priority: Priority = DEFAULT_PRIORITY
    link: LinkNeeds = LinkNeeds()
    pool: Slug | None = None
    description: Annotated[str, Meta(max_length=1000)] = ""

    @property
    def digest(self) -> str:
        """Twelve hex digits that differ for every different plan (the description aside).

        The order in which a start names its values is part of it: tasks are made in that order.
        """
        content = msgspec.json.encode(msgspec.structs.replace(self, description=""))
        return blake2b(content, digest_size=6).hexdigest()


class KeptSpider(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a spider; ``version`` counts from 1, a plan that is put again stays the same."""

    tenant: str
    biz: str
    name: str
    version: int
    plan: SpiderPlan
    put_at: datetime


class ConfiguredSpider(msgspec.Struct, frozen=True, kw_only=True):
    """A rule, or an executor's spider, of the biz document, beside the spiders that are kept.

    ``version`` is that of its content; ``executor`` is None where it is a rule.
    """

    name: str
    version: str
    executor: str | None
    description: str


#: Names of kept spiders: they become part of a job's name.
SpiderName = Annotated[
    str,
    Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}\Z"),
    Words("up to 32 of a-z, 0-9, _ and -, a letter or a digit first"),
]
