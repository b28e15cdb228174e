"""Lines and branches of each package are held to a share by themselves."""

import io
import json

import pytest

from tests.coverage_gate import PROJECT, main, traced


def file(*, lines: int, branches: int) -> dict[str, dict[str, int]]:
    """A file of a hundred lines and ten branches of which so many are covered."""
    summary = {"covered_lines": lines, "num_statements": 100}
    return {"summary": summary | {"covered_branches": branches, "num_branches": 10}}


def verdict(monkeypatch: pytest.MonkeyPatch, **files: dict[str, dict[str, int]]) -> int:
    """The exit code over files by their package."""
    report = {"files": {f"layers/{name}/one.py": each for name, each in files.items()}}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(report)))
    with pytest.raises(SystemExit) as ended:
        main(95.0, list(files))
    return int(ended.value.code)


def test_all_packages_that_are_covered_pass(monkeypatch):
    assert verdict(monkeypatch, a=file(lines=95, branches=10)) == 0


@pytest.mark.parametrize("short", [{"lines": 94, "branches": 10}, {"lines": 100, "branches": 9}])
def test_a_package_that_falls_short_fails_the_rest(monkeypatch, short):
    assert verdict(monkeypatch, a=file(**short), b=file(lines=100, branches=10)) == 1


def test_a_package_of_which_nothing_was_measured_is_no_success(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO('{"files": {}}'))

    with pytest.raises(AssertionError, match="nothing was measured"):
        main(95.0, ["crawlfleet/policy"])


def test_the_packages_that_are_measured_are_there():
    root = PROJECT.parent / "layers/crawlfleet/python"

    assert [name for name in traced() if not (root / name).is_dir()] == []
