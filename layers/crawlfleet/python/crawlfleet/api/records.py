"""How well rules find what they look for, as the API shows it (SPEC.md H8)."""

from crawlfleet.api.responses import View
from crawlfleet.requests.models import Coverage, RuleCoverage


class FieldCoverageView(View, frozen=True, kw_only=True):
    """In how many records a field had a value, and in which share of them, from 0 to 1."""

    name: str
    count: int
    share: float


class RuleCoverageView(View, frozen=True, kw_only=True):
    """One version of a rule or spider; ``current`` is the one that new requests are read by.

    ``rejected`` of the records were not stored: the schema or the key did not take them.
    """

    rule: str
    version: str
    current: bool
    pages: int
    records: int
    rejected: int
    fields: list[FieldCoverageView]


class CoverageView(View, frozen=True, kw_only=True):
    """Every version that was counted, by rule, of each the current one first."""

    coverage: list[RuleCoverageView]


def coverage_view(found: list[RuleCoverage]) -> CoverageView:
    """The coverage of all."""
    return CoverageView(coverage=[_rule_view(one) for one in found])


def _rule_view(one: RuleCoverage) -> RuleCoverageView:
    counted = one.coverage
    return RuleCoverageView(
        rule=one.rule,
        version=one.version,
        current=one.current,
        pages=counted.pages,
        records=counted.records,
        rejected=counted.rejected,
        fields=field_views(counted),
    )


def field_views(counted: Coverage) -> list[FieldCoverageView]:
    """The fields of a coverage, by name."""
    return [
        FieldCoverageView(name=name, count=count, share=_share(count, counted.records))
        for name, count in sorted(counted.fields.items())
    ]


def _share(count: int, records: int) -> float:
    return round(min(1.0, count / records), 4) if records else 0.0
