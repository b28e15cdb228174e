"""The monitoring page tells of every kind of finding what decides it and how grave it is."""

from tests.kit.incidents import ADVICE, Kind
from tests.unit.test_pages import ROOT, table_after


def test_the_reference_has_a_row_for_every_kind_with_its_thresholds_and_severity():
    rows = table_after((ROOT / "docs/reference/monitoring.md").read_text(), "## Incidents")

    reported = {kind.strip("`"): (title, limits, grave) for kind, title, limits, grave, _ in rows}
    assert list(reported) == [kind.value for kind in Kind]
    for kind in Kind:
        title, limits, grave = reported[kind.value]
        advice = ADVICE[kind]
        named = [limit.strip("`").removeprefix("thresholds.") for limit in limits.split(", ")]
        assert title == advice.title
        assert named == [*(advice.thresholds or ("any",))]
        looks = f", {advice.evaluations} evaluations" if advice.evaluations > 1 else ""
        assert grave == f"{advice.severity}{looks}"
    assert all(do for *_, do in rows)
