"""The coverage of rules: counting it, and the counts of a biz (SPEC.md H8)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.documents.rule import Rule
from crawlfleet.config.lookup import biz_of
from crawlfleet.crawling.records.redis import MOST_FIELDS, RedisCoverages
from crawlfleet.requests.models import Coverage, RuleCoverage


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


def coverage(
    coverages: RedisCoverages, tree: Tree, tenant: str, biz_name: str
) -> list[RuleCoverage]:
    """Return every version that was counted, by rule, of each the current one first.

    The current version of a rule also has the fields that never had a value.
    """
    queue_key, biz = biz_of(tree, tenant, biz_name)
    found = [
        _of(biz, rule, version, counted)
        for (rule, version), counted in coverages.of(queue_key).items()
    ]
    return sorted(found, key=lambda one: (one.rule, not one.current, one.version))


def _of(biz: Biz, rule: str, version: str, counted: Coverage) -> RuleCoverage:
    source = biz.rules.get(rule) or biz.spiders.get(rule)
    current = source is not None and source.version == version
    if current and isinstance(source, Rule):
        fields = {**dict.fromkeys(source.fields, 0), **counted.fields}
        counted = msgspec.structs.replace(counted, fields=fields)
    return RuleCoverage(rule=rule, version=version, current=current, coverage=counted)
