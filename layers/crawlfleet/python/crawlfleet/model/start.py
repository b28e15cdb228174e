"""Where a job's tasks come from: URLs, or a pattern and what goes into it (SPEC.md C2, C3).

Task ``i`` of a start is known by ``i`` alone (policy.starting), so a job of millions is stored as
one pattern, and made into tasks in batches that may stop and go on anywhere.
"""

from typing import Annotated

from msgspec import Meta

from crawlfleet.model.document import Document
from crawlfleet.model.submission import Url
from crawlfleet.model.words import Words

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
