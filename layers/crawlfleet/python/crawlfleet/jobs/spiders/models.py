"""Spiders as they are kept (SPEC.md B2, C2), and the starts that their tasks come from (C2, C3).

A start is URLs, or a pattern and the values that go into it. Task ``i`` of a start follows from
``i`` alone, so a job of millions is stored as one pattern, and expanded in batches that may stop
and go on anywhere.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Annotated, Final
from urllib.parse import quote

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from crawlfleet.kernel.errors import Problem
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
#: Most values of one place in a list; a range has any number.
MOST_VALUES: Final = 1_000
#: Most tasks of one job.
LARGEST_JOB = 100_000_000


class Range(Document, frozen=True, kw_only=True):
    """Whole numbers from ``first`` to ``last``, that one included, every ``step`` one."""

    first: Annotated[int, Meta(ge=0, le=2**53)] = 1
    last: Annotated[int, Meta(ge=0, le=2**53)]
    step: Annotated[int, Meta(ge=1, le=2**53)] = 1

    @property
    def count(self) -> int:
        """The count of numbers; 0 where ``last`` is before ``first``.

        >>> Range(first=1, last=10, step=3).count
        4
        """
        return max(0, (self.last - self.first) // self.step + 1)


#: What goes into a place: every one of a range, or of a list.
PlaceValues = Range | Annotated[tuple[PlaceValue, ...], Meta(max_length=MOST_VALUES)]
#: What a place that a start leaves open is filled with: one value, or several.
Filling = PlaceValue | PlaceValues


class Start(Document, frozen=True, kw_only=True):
    """Either ``urls``, or a ``pattern`` with places in braces and the ``values`` that go into them.

    Places that ``values`` does not name are filled by whoever starts the job. Several places make
    every combination, the last one named in ``values`` changing first.
    """

    urls: Annotated[tuple[Url, ...], Meta(max_length=10_000)] = ()
    pattern: Url | None = None
    values: Annotated[dict[PlaceName, PlaceValues], Meta(max_length=8)] = {}


#: Most spiders that a biz keeps, and most versions of each that nothing names.
MOST_SPIDERS = 1_000
MOST_VERSIONS = 200
#: A held version is named by a job or schedule within this.
HOLD = timedelta(hours=1)
#: Most bytes of a plan as JSON; a page of a list has room for fifty.
LARGEST_PLAN = 100_000


class LinkNeeds(Document, frozen=True, kw_only=True):
    """Requirements of the link from a worker to the site, for it to bid for a job (SPEC.md B4).

    ``test_url`` is what is asked for to find out; the job's first URL where it is null. None is no
    limit. ``seconds`` are until the answer's first byte, ``bytes_per_second`` those of its body.
    """

    test_url: Url | None = None
    seconds_below: Seconds | None = None
    bytes_per_second_above: Count | None = None


#: Of those who name no pages.
NO_START: Final = Start()


class SpiderPlan(Document, frozen=True, kw_only=True):
    """A spider as a client puts it; ``rule`` is a rule or an executor's spider of the biz.

    Without a ``start`` its jobs begin with the URLs that the parameters of that spider name when
    they are started. ``pool`` pins its jobs to the workers of a pool; None leaves it to the award.
    """

    rule: RuleName
    start: Start = NO_START
    priority: Priority = DEFAULT_PRIORITY
    link: LinkNeeds = LinkNeeds()
    pool: Slug | None = None
    description: Annotated[str, Meta(max_length=1000)] = ""

    @property
    def digest(self) -> str:
        """Twelve hex digits that differ for every different plan (the description aside).

        The order in which a start names its values is part of it: tasks are made in that order.
        """
        content = msgspec.json.encode(replace(self, description=""))
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


#: Values that would name another folder of the site.
_PATHS: Final = frozenset({".", ".."})
_ANOTHER_PATH: Final = "leads to another path"
_TOO_MANY: Final = f"make more than {LARGEST_JOB:,} tasks"
_PLACE: Final = re.compile(r"\{([^{}]*)\}")
#: Scheme, host and port, which have no places: no value decides which host is asked.
_SITE: Final = re.compile(r"^https?://[^/?#{}\\@\s]+(?=[/?#]|\Z)", re.IGNORECASE)


def places(start: Start) -> tuple[str, ...]:
    """List the places of its pattern, each once, in the pattern's order.

    >>> places(Start(pattern="https://shop.example/{kind}/{page}?k={kind}"))
    ('kind', 'page')
    """
    return tuple(dict.fromkeys(_PLACE.findall(start.pattern or "")))


def open_places(start: Start) -> tuple[str, ...]:
    """List the places that are to be filled when a job is started."""
    return tuple(name for name in places(start) if name not in start.values)


def size(start: Start) -> int:
    """Count the tasks that a start makes, its open places being filled.

    >>> values = {"x": ("b", "c"), "n": Range(last=3)}
    >>> size(Start(pattern="https://a.example/{x}/{n}", values=values))
    6
    """
    if start.pattern is None:
        return len(start.urls)
    count = 1
    for values in start.values.values():
        count *= _count(values)
    return count


def url_at(start: Start, index: int) -> str:
    """Make the URL of task ``index``, from 0 up and below ``size``.

    >>> values = {"x": ("b", "c d"), "n": Range(last=2)}
    >>> start = Start(pattern="https://a.example/{x}/{n}", values=values)
    >>> [url_at(start, i) for i in range(size(start))][1:3]
    ['https://a.example/b/2', 'https://a.example/c%20d/1']
    """
    if start.pattern is None:
        return start.urls[index]
    found: dict[str, str] = {}
    for name, values in reversed(start.values.items()):
        index, at = divmod(index, _count(values))
        found[name] = quote(_value(values, at), safe="")
    return _PLACE.sub(lambda place: found.get(place[1], place[0]), start.pattern)


def singles(given: Mapping[str, Filling]) -> dict[str, str]:
    """Select the places that are given one value.

    >>> singles({"zone": "north", "page": Range(last=3)})
    {'zone': 'north'}
    """
    return {name: value for name, value in given.items() if isinstance(value, str)}


def bind(start: Start, given: Mapping[str, Filling]) -> tuple[Start, list[Problem]]:
    """Fill the open places of a start; return it, and what is wrong with the values given.

    A place with one value is filled in the pattern itself. Several values join those of the start,
    behind its own: tasks are made of every combination.
    """
    wanted = open_places(start)
    there = f"; its open places: {', '.join(wanted)}" if wanted else ": it leaves no place open"
    if start.pattern is None:
        there = ": URLs are taken as they are; a `pattern` has places in braces"
    problems = [
        Problem(f"values.{name}", f"there is no such place to fill{there}")
        for name in given
        if name not in wanted
    ]
    problems += [
        Problem(f"values.{name}", f"is to be given: the pattern has the place {{{name}}}")
        for name in wanted
        if name not in given
    ]
    for name, value in given.items():
        if not isinstance(value, str):
            problems += _problems_with_values(f"values.{name}", value)
        elif value in _PATHS:
            problems.append(Problem(f"values.{name}", _ANOTHER_PATH))
    if problems or start.pattern is None:
        return start, problems
    filled = {name: quote(value, safe="") for name, value in singles(given).items()}
    pattern = _PLACE.sub(lambda place: filled.get(place[1], place[0]), start.pattern)
    several = {name: value for name, value in given.items() if not isinstance(value, str)}
    bound = replace(start, pattern=pattern, values={**start.values, **several})
    if several and size(bound) > LARGEST_JOB:
        return start, [Problem("values", _TOO_MANY)]
    return bound, []


def problems_with(start: Start, path: str = "start.") -> list[Problem]:
    """Find what is wrong with a start, whose fields are below ``path``.

    Whether its URLs may be submitted is for admission to say.
    """
    if start.pattern is None:
        return _problems_with_urls(start, path)
    found: list[Problem] = []
    if start.urls:
        found.append(Problem(f"{path}urls", "are given, and a pattern too: one of both"))
    named = places(start)
    if not _SITE.match(start.pattern):
        found.append(
            Problem(f"{path}pattern", "begins with http:// or https:// and a host without places")
        )
    if "{" in _PLACE.sub("", start.pattern) or "}" in _PLACE.sub("", start.pattern):
        found.append(Problem(f"{path}pattern", "has a brace without its other one"))
    found += [
        Problem(f"{path}pattern", f"{{{name[:32]}}} is no place: a-z, 0-9 and _, a letter first")
        for name in named
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,31}", name)
    ]
    for name, values in start.values.items():
        if name not in named:
            found.append(Problem(f"{path}values.{name}", "the pattern has no such place"))
        found += _problems_with_values(f"{path}values.{name}", values)
    if size(start) > LARGEST_JOB:
        found.append(Problem(f"{path}values", _TOO_MANY))
    return found


def _problems_with_values(field: str, values: Range | tuple[str, ...]) -> list[Problem]:
    if _count(values) == 0:
        return [Problem(field, "has nothing in it")]
    if isinstance(values, Range):
        return []
    found = [
        Problem(f"{field}[{at}]", _ANOTHER_PATH)
        for at, value in enumerate(values)
        if value in _PATHS
    ]
    if len(set(values)) < len(values):
        found.append(Problem(field, "has something twice"))
    return found


def _problems_with_urls(start: Start, path: str) -> list[Problem]:
    found = []
    if not start.urls:
        found.append(
            Problem(f"{path}urls", "there is neither a URL nor a pattern, and its rule names none")
        )
    if start.values:
        found.append(Problem(f"{path}values", "go into a pattern, and there is none"))
    seen: set[str] = set()
    for at, url in enumerate(start.urls):
        if url in seen:
            found.append(Problem(f"{path}urls[{at}]", "is there twice"))
        seen.add(url)
    return found


def _count(values: Range | tuple[str, ...]) -> int:
    return values.count if isinstance(values, Range) else len(values)


def _value(values: Range | tuple[str, ...], at: int) -> str:
    return str(values.first + at * values.step) if isinstance(values, Range) else values[at]
