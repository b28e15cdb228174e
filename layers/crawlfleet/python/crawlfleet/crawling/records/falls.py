"""Find fields of rules that have a value next to never, or less often than they had (SPEC.md H8).

A site that is changed keeps answering: its pages have records still, and what a selector looked for
is not there any more. So the newest hours of a rule, as many as have enough records to tell, are
compared with the hours before them, whatever version of the rule read them: an edit that breaks a
field shows as a change of the site does. A field that the rule has no more is not missed.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from crawlfleet.config.documents.biz import Biz
from crawlfleet.config.documents.rule import Rule
from crawlfleet.requests.models import Coverage, HourCoverage

#: Values that were to be expected of a field, at least, for their absence to say something.
_EXPECTED: Final = 20


class CoverageFall(NamedTuple):
    """A field whose share of records with a value fell from ``before`` to ``now``."""

    rule: str
    field: str
    before: float
    now: float
    records: int

    @property
    def share(self) -> float:
        """Return the part of what it had that is gone, from 0 to 1."""
        return 1 - self.now / self.before


def is_busy(hours: Sequence[HourCoverage], rule: str, records: int) -> bool:
    """Tell whether there is enough of a rule to compare."""
    return _compared(hours, rule, records) is not None


def falls(
    hours: Sequence[HourCoverage],
    fields: Mapping[str, Collection[str] | None],
    share: float,
    records: int,
) -> list[CoverageFall]:
    """List the fields that fell by more than ``share`` of what they had, the worst first.

    ``hours`` are in order, ``fields`` those that each rule has now; None where its pages say it.
    A rule with fewer than ``records`` records, newest or before, is not judged.
    """
    found: list[CoverageFall] = []
    for rule, wanted in fields.items():
        compared = _compared(hours, rule, records)
        if compared is None:
            continue
        before, now = compared
        for name, count in before.fields.items():
            was, expected = count / before.records, count / before.records * now.records
            if (wanted is not None and name not in wanted) or expected < _EXPECTED:
                continue
            fall = CoverageFall(rule, name, was, now.fields.get(name, 0) / now.records, now.records)
            if fall.share > share:
                found.append(fall)
    return sorted(found, key=lambda one: (-one.share, one.rule, one.field))


#: A field that fewer records than this share have a value of is empty.
_RARE: Final = 0.1
#: The part of a rule's fields that make it mostly empty.
MOSTLY: Final = 0.5


def empties(coverage: Coverage, wanted: Collection[str] | None = None) -> list[str]:
    """List the fields that next to no record has a value of, of those ``wanted`` if they are said.

    >>> empties(Coverage(records=20, fields={"title": 20, "price": 1, "sku": 0}))
    ['price', 'sku']
    """
    fields = coverage.fields if wanted is None else {**dict.fromkeys(wanted, 0), **coverage.fields}
    return [
        name
        for name, count in sorted(fields.items())
        if coverage.records
        and count < _RARE * coverage.records
        and (wanted is None or name in wanted)
    ]


def mostly_empty(coverage: Coverage, wanted: Collection[str]) -> bool:
    """Tell whether at least half of the fields are empty: the selectors do not fit the pages.

    >>> mostly_empty(Coverage(records=20, fields={"a": 20, "b": 1, "c": 0}), ("a", "b", "c"))
    True
    """
    empty = empties(coverage, wanted)
    return bool(empty) and len(empty) >= MOSTLY * len(wanted)


def newest_of(hours: Sequence[HourCoverage], rules: Mapping[str, Rule]) -> dict[str, Coverage]:
    """Return the counts of each rule as it is now, of those that have read enough to tell."""
    by_rule: defaultdict[str, list[Coverage]] = defaultdict(list)
    for hour in hours:
        rule = rules.get(hour.rule)
        if rule is not None and rule.version == hour.version:
            by_rule[hour.rule].append(hour.coverage)
    summed = {name: _sum(counts) for name, counts in by_rule.items()}
    return {name: one for name, one in summed.items() if one.records >= _EXPECTED}


class JobCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """The coverage of a rule in a job, and the fields of it that next to no record has.

    Where the rule is known, ``mostly`` says that these are half of what it selects, or more.
    """

    rule: str
    coverage: Coverage
    empty: tuple[str, ...] = ()
    mostly: bool = False


def covered(biz: Biz, read: Mapping[str, Coverage]) -> Iterator[JobCoverage]:
    """Judge what the pages of a job were read to, rule by rule."""
    for name, coverage in sorted(read.items()):
        rule = biz.rules.get(name)
        wanted = coverage.fields.keys() if rule is None else rule.selected
        empty = tuple(empties(coverage, wanted))
        mostly = mostly_empty(coverage, wanted)
        yield JobCoverage(rule=name, coverage=coverage, empty=empty, mostly=mostly)


def _compared(
    hours: Sequence[HourCoverage], rule: str, records: int
) -> tuple[Coverage, Coverage] | None:
    """Return the counts of a rule before and now, each of enough records; None without."""
    by_hour: defaultdict[datetime, list[Coverage]] = defaultdict(list)
    for hour in hours:
        if hour.rule == rule:
            by_hour[hour.started_at].append(hour.coverage)
    newest: list[Coverage] = []
    times = sorted(by_hour)
    while times and sum(one.records for one in newest) < records:
        newest += by_hour[times.pop()]
    now, before = _sum(newest), _sum([one for time in times for one in by_hour[time]])
    return None if min(now.records, before.records) < max(1, records) else (before, now)


def _sum(counts: Sequence[Coverage]) -> Coverage:
    fields: Counter[str] = Counter()
    for one in counts:
        fields.update(one.fields)
    return Coverage(records=sum(one.records for one in counts), fields=dict(fields))
