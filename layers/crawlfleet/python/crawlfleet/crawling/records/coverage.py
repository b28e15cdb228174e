"""Count in how many records each field of a rule has a value (SPEC.md H8); statistics only."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from crawlfleet.requests.models import Coverage

#: Fields counted of a version, and how much of a field's name is kept.
MOST_FIELDS: Final = 200
LONGEST_NAME: Final = 64


def countable(coverage: Coverage) -> Coverage:
    """Return the coverage with as many fields, and as much of their names, as is kept."""
    fields: dict[str, int] = {}
    for name, count in coverage.fields.items():
        kept = name[:LONGEST_NAME].encode("utf-8", "replace").decode()
        if kept in fields or len(fields) < MOST_FIELDS:
            fields[kept] = fields.get(kept, 0) + count
    return msgspec.structs.replace(coverage, fields=fields)


def coverage_of(records: Iterable[Mapping[str, Any]], pages: int = 0) -> Coverage:
    """Count the records in which each field has a value: anything but null and what is empty.

    >>> coverage_of([{"a": 0, "b": ""}, {"a": None, "b": "x"}])
    Coverage(pages=0, records=2, rejected=0, fields={'a': 1, 'b': 1})
    """
    count = 0
    fields: Counter[str] = Counter()
    for record in records:
        count += 1
        fields.update(name for name, value in record.items() if value not in (None, "", [], {}))
    return Coverage(pages=pages, records=count, fields=dict(fields))


def with_rejected(coverage: Coverage, count: int) -> Coverage:
    """Return the coverage with so many further records that were not stored."""
    return msgspec.structs.replace(
        coverage, records=coverage.records + count, rejected=coverage.rejected + count
    )


def together(one: Coverage, other: Coverage) -> Coverage:
    """Return both counted as one, with as many fields as are kept."""
    fields = dict(one.fields)
    for name, count in other.fields.items():
        if name in fields or len(fields) < MOST_FIELDS:
            fields[name] = fields.get(name, 0) + count
    return Coverage(
        pages=one.pages + other.pages,
        records=one.records + other.records,
        rejected=one.rejected + other.rejected,
        fields=fields,
    )
