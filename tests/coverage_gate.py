"""Hold packages to a share of lines and of branches: ``python coverage_gate.py 95``.

`coverage report --fail-under` weighs lines and branches together, so that many lines can hide
untested decisions; this asks for both. Reads what `coverage json -o -` writes, from standard
input. The packages are those of which pyproject.toml has coverage measured.
"""

import json
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def shares(report, package):
    """Percent of lines and of branches covered in ``package``, such as ``crawlfleet/policy``."""
    files = [
        file["summary"]
        for path, file in report["files"].items()
        if f"/{package}/" in f"/{path}".replace("\\", "/")
    ]
    assert files, f"nothing was measured in {package}"

    def percent(covered, total):
        whole = sum(file[total] for file in files)
        return 100.0 * sum(file[covered] for file in files) / whole if whole else 100.0

    return percent("covered_lines", "num_statements"), percent("covered_branches", "num_branches")


def traced():
    """The packages of which coverage is measured, as folders."""
    names = tomllib.loads(PROJECT.read_text())["tool"]["coverage"]["run"]["source"]
    return [name.replace(".", "/") for name in names]


def main(wanted, packages):
    """Print a line for each package; exit with 1 if one falls short."""
    report = json.load(sys.stdin)
    failed = False
    for package in packages:
        lines, branches = shares(report, package)
        short = min(lines, branches) < wanted
        failed |= short
        verdict = f"below {wanted:.0f} %" if short else "ok"
        sys.stdout.write(
            f"{package:20} lines {lines:6.2f} %   branches {branches:6.2f} %   {verdict}\n"
        )
    sys.exit(failed)


if __name__ == "__main__":
    main(float(sys.argv[1]), traced())
