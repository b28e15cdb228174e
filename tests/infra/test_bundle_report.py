"""Tests of the build's report on a bundle: sizes, limits, import times, as text and JSON."""

import io
import json
import sys
from pathlib import Path

import pytest

from infra import bundle, bundle_report, cold_start
from infra.bundle import BundleError
from infra.bundle_contents import Bundle, Size
from infra.bundle_report import FunctionReport, Report
from infra.fleet import FLEET, PYTHON_VERSION
from infra.stages import Architecture

MEGABYTE = 1024 * 1024
LIMITS = Size(zipped=50 * MEGABYTE, unpacked=250 * MEGABYTE)
ID_ISSUER = FLEET.function("id-issuer")
#: Any interpreter will do to run what these tests make themselves.
THIS_PYTHON = sys.executable


class Terminal(io.StringIO):
    """A stream on which rich draws."""

    def isatty(self) -> bool:
        return True


def reported(**changed: object) -> Report:
    function = FunctionReport(
        code=Size(zipped=1_000, unpacked=2_000),
        together=Size(zipped=10 * MEGABYTE, unpacked=25 * MEGABYTE),
        with_scrapy=False,
        import_cpu_ms=269.1,
    )
    made = {
        "architecture": "arm64",
        "python": "3.13",
        "byte_code": True,
        "unmeasured": None,
        "layers": {"core": Size(zipped=7 * MEGABYTE, unpacked=20 * MEGABYTE)},
        "functions": {"router": function},
    }
    return Report(**(made | changed))  # type: ignore[arg-type]  # each value has its type above


def shown(*reports: Report) -> str:
    out = io.StringIO()
    bundle_report.show(reports, LIMITS, out)
    return out.getvalue()


def made_bundle(folder: Path, handler: str) -> Bundle:
    """A bundle of the id-issuer whose handler is this source; its layers have a module each."""
    layers = {name: folder / name for name in ("package", *ID_ISSUER.vendor)}
    for name, layer in layers.items():
        (layer / "python").mkdir(parents=True)
        (layer / "python" / f"from_{name}.py").write_text("here = True\n")
    code = folder / "code"
    source = code / "functions" / ID_ISSUER.package / "handler.py"
    source.parent.mkdir(parents=True)
    source.write_text(handler)
    package = layers.pop("package")
    return Bundle(
        package_layer=package, vendor_layers=layers, functions={ID_ISSUER.name: code}, sizes={}
    )


def test_plain_output_is_one_line_a_part_with_its_share_of_the_limits():
    lines = shown(reported()).splitlines()

    cells = [[cell for cell in line.split("  ") if cell] for line in lines]
    assert [cell.strip() for cell in cells[0]] == (
        ["for", "what", "zipped", "of limit", "unpacked", "of limit", "import, CPU"]
    )
    assert [cell.strip() for cell in cells[1]] == ["arm64", "layer core", "7.0 MB", "20.0 MB"]
    assert [cell.strip() for cell in cells[2]] == (
        ["arm64", "router, with its layers", "10.0 MB", "20%", "25.0 MB", "10%", "269 ms"]
    )
    assert lines[3:] == [
        "limits of a function with its layers: 50.0 MB zipped (ours), 250.0 MB unpacked (Lambda's)"
    ]


def test_a_terminal_gets_a_drawn_table_with_the_same_figures(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "120")
    out = Terminal()

    bundle_report.show([reported()], LIMITS, out)

    drawn = out.getvalue()
    assert "│" in drawn
    assert all(figure in drawn for figure in ("router", "10.0 MB", "20%", "25.0 MB", "269 ms"))


def test_both_architectures_stand_in_one_table():
    said = shown(reported(), reported(architecture="x86_64"))

    assert said.count("of limit") == 2  # one heading, with two of them
    assert [line.split()[0] for line in said.splitlines()[1:5]] == ["arm64"] * 2 + ["x86_64"] * 2


def test_what_was_not_measured_says_so_and_why():
    function = reported().functions["router"]
    without = FunctionReport(
        code=function.code, together=function.together, with_scrapy=False, import_cpu_ms=None
    )

    said = shown(
        reported(unmeasured="no python3.13 here", byte_code=False, functions={"router": without})
    )

    assert "not measured" in said.splitlines()[2]
    assert "arm64" in said
    assert "python3.13" in said


def test_the_report_is_kept_as_json_beside_the_bundle(tmp_path: Path):
    path = bundle_report.keep(reported(), tmp_path)

    assert path == tmp_path / "report-arm64.json"
    kept = json.loads(path.read_text())
    assert kept["functions"]["router"]["import_cpu_ms"] == 269.1
    assert kept["functions"]["router"]["together"]["zipped"] == 10 * MEGABYTE
    assert kept["layers"]["core"]["unpacked"] == 20 * MEGABYTE
    assert kept["unmeasured"] is None


def test_imports_of_another_processor_are_not_measured():
    here = (THIS_PYTHON, "linux", "x86_64")

    assert cold_start.unmeasured(Architecture.X86_64, *here) is None
    assert "arm64" in str(cold_start.unmeasured(Architecture.ARM64, *here))


def test_imports_under_another_system_are_not_measured():
    said = cold_start.unmeasured(Architecture.ARM64, THIS_PYTHON, "darwin", "arm64")

    assert "darwin on arm64" in str(said)


def test_imports_without_the_runtimes_python_are_not_measured():
    said = str(cold_start.unmeasured(Architecture.ARM64, None, "linux", "aarch64"))

    assert f"no python{PYTHON_VERSION} here" in said


def test_an_import_is_measured_in_cpu_time(tmp_path: Path):
    wait = made_bundle(tmp_path / "waits", "import time\ntime.sleep(0.5)\n")
    work = made_bundle(
        tmp_path / "works",
        "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass\n",
    )

    assert cold_start.import_ms(wait, ID_ISSUER, THIS_PYTHON, runs=1) < 400
    assert cold_start.import_ms(work, ID_ISSUER, THIS_PYTHON, runs=1) >= 500


def test_a_handler_finds_its_folder_and_its_layers(tmp_path: Path):
    names = ("package", *ID_ISSUER.vendor)
    made = made_bundle(tmp_path, "".join(f"import from_{name}\n" for name in names))

    assert cold_start.import_ms(made, ID_ISSUER, THIS_PYTHON, runs=1) > 0


@pytest.mark.parametrize("module", ["boto3", "pytest", "crawlfleet", "pip"])
def test_a_handler_finds_nothing_of_this_machine(tmp_path: Path, module: str):
    made = made_bundle(tmp_path, f"import {module}\n")

    with pytest.raises(BundleError, match=rf"handler .*'{module}'"):
        cold_start.import_ms(made, ID_ISSUER, THIS_PYTHON, runs=1)


def test_measuring_leaves_the_bundle_as_it_is_deployed(tmp_path: Path):
    made = made_bundle(tmp_path, "import from_core\n")
    before = sorted(tmp_path.rglob("*"))

    cold_start.import_ms(made, ID_ISSUER, THIS_PYTHON, runs=2)

    assert sorted(tmp_path.rglob("*")) == before


def test_the_command_builds_prints_and_keeps(capsys: pytest.CaptureFixture[str]):
    assert bundle.main(["--architecture", "arm64", "--architecture", "x86_64"]) == 0

    said = capsys.readouterr().out
    for architecture in Architecture:
        kept = json.loads((bundle.ROOT / f"build/lambda/report-{architecture}.json").read_text())
        measured = {one["import_cpu_ms"] is not None for one in kept["functions"].values()}
        assert measured == {kept["unmeasured"] is None}
        for name in kept["functions"]:
            assert f"{architecture:<6}  {name}, with its layers" in said
