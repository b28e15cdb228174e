"""What tests of incidents are made of: looks, findings, minutes."""

from datetime import UTC, datetime, timedelta

from tests.kit.incidents import Finding, Kind, Look, Place

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DOCS = Place(tenant="acme", biz="docs")
REDIS = Place(part="redis", name="redis")


def a_finding(kind: Kind = Kind.BACKLOG, place: Place = DOCS, **changes: object) -> Finding:
    facts: dict = {"value": 12.0, "threshold": 10.0, "said": "12 wait, more than 10"}
    return Finding(kind=kind, place=place, **{**facts, **changes})


def a_look(*findings: Finding, unknown: tuple[Finding, ...] = ()) -> Look:
    return Look(findings=findings, unknown=frozenset(each.key for each in unknown))
