"""Scrapy spiders in deployed consumers: how a stage names them, and what is carried then."""

import dataclasses
import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from infra import bundle, bundle_report
from infra.bundle import ROOT, UNPACKED_LIMIT_BYTES, ZIPPED_LIMIT_BYTES, BundleError
from infra.bundle_contents import Bundle, Size
from infra.fleet import FLEET, SCRAPY
from infra.spiders import SpidersError, find_packages
from infra.stages import AWS_LARGE, STAGES, Architecture, Stage
from tests.infra.assembly import Assembly, compose
from tests.kit.kernel import names

SAMPLE = "samplesconfig/scrapy/project/spiders"
CONSUMER = FLEET.function(names.CONSUMER)
RUNS = {names.CONSUMER, names.TRIALS}


@pytest.fixture(scope="module")
def built() -> Bundle:
    return bundle.build(Architecture.ARM64, spiders=find_packages([SAMPLE], ROOT))


def carried(built: Bundle) -> Path:
    return built.functions[names.CONSUMER] / CONSUMER.folder / "scrapy"


def make_package(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    return folder


def test_no_stage_carries_scrapy_unless_it_says_so():
    assert [stage.scrapy_packages for stage in STAGES.values()] == [()] * len(STAGES)
    assert SCRAPY not in FLEET.vendor_groups


def test_a_bundle_without_spiders_has_nothing_of_scrapy():
    without = bundle.build(Architecture.ARM64)

    folders = [*without.vendor_layers.values(), *without.functions.values()]
    found = {path.name.lower() for folder in folders for path in folder.rglob("*")}
    assert not found & {"scrapy", "twisted", "cryptography", "openssl", "spiders"}


def test_consumer_and_trials_carry_the_package_and_scrapy_and_nobody_else_does(built: Bundle):
    tries = built.functions[names.TRIALS] / CONSUMER.folder / "scrapy"
    assert (tries / "spiders" / "tools.py").is_file()
    assert (tries / "scrapy" / "__init__.py").is_file()
    assert (carried(built) / "spiders" / "tools.py").is_file()
    assert (carried(built) / "scrapy" / "__init__.py").is_file()
    others = [folder for name, folder in built.functions.items() if name not in RUNS]
    assert not [path for folder in others for path in folder.rglob("scrapy")]
    layers = built.vendor_layers.values()
    assert not [path for layer in layers for path in layer.rglob("scrapy/__init__.py")]


def test_scrapy_is_where_the_runtime_looks_for_it():
    from tests.kit.apps import SCRAPY_FOLDER

    assert Path(CONSUMER.folder, bundle.SCRAPY_FOLDER) == SCRAPY_FOLDER


def test_what_scrapy_requires_is_carried_once(built: Bundle):
    layers = [built.vendor_layers[group] / "python" for group in CONSUMER.vendor]
    in_layers = {path.name for layer in layers for path in layer.iterdir()}
    beside = {path.name for path in carried(built).iterdir()}

    assert {"twisted", "cryptography", "parsel", "itemadapter", "cssselect"} <= beside
    assert {"aiohttp", "lxml", "w3lib", "protego"} <= in_layers
    assert in_layers & beside == set()


def test_binaries_of_scrapy_are_of_the_functions_processor(built: Bundle):
    binaries = list(carried(built).rglob("*.so*"))

    aarch64 = 183
    assert binaries
    assert {int.from_bytes(path.read_bytes()[18:20], "little") for path in binaries} == {aarch64}


def test_a_consumer_with_spiders_stays_within_the_limits(
    built: Bundle, capsys: pytest.CaptureFixture[str]
):
    size = built.size_of(CONSUMER)

    with capsys.disabled():
        sys.stdout.write(f"\nconsumer with Scrapy: {size.zipped / 1024 / 1024:.1f} MB zipped ")
    assert size.zipped < ZIPPED_LIMIT_BYTES
    assert size.unpacked < UNPACKED_LIMIT_BYTES


def test_the_pins_of_scrapy_are_those_of_the_rest_and_some_more():
    with_it, without = (
        {line for line in (ROOT / "requirements" / name).read_text().splitlines() if "==" in line}
        for name in ("scrapy.txt", "lambda.txt")
    )

    assert without < with_it


def test_the_report_reports_the_size_of_what_is_carried(built: Bundle):
    found = bundle_report.report(built, FLEET, Architecture.ARM64)

    with_scrapy = {name for name, function in found.functions.items() if function.with_scrapy}
    assert with_scrapy == {"consumer"}
    assert found.functions["consumer"].code.zipped > 5_000_000
    out = io.StringIO()
    bundle_report.show([found], Size(zipped=1, unpacked=1), out)
    [line] = [line for line in out.getvalue().splitlines() if "with Scrapy" in line]
    assert line.split("  ")[1] == "code of consumer, with Scrapy"


def test_caches_and_hidden_files_are_not_carried(tmp_path: Path):
    package = make_package(tmp_path / "shop")
    for name in (".env", ".git/config", "__pycache__/x.pyc", "spiders/__init__.py", "a.json"):
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).touch()

    [found] = find_packages(["shop"], tmp_path)

    assert set(found.files()) == {"shop/__init__.py", "shop/a.json", "shop/spiders/__init__.py"}


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("nowhere", "is no folder"),
        ("project", "is no package: it has no __init__.py; in it there is shop"),
        ("project/shop-crawler", "has a name that Python cannot import: 'shop-crawler'"),
        ("project/json", "has a name that is taken: 'json'"),
        ("project/crawlfleet", "has a name that is taken: 'crawlfleet'"),
    ],
)
def test_what_is_no_package_is_refused_by_the_settings_name(tmp_path: Path, place: str, said: str):
    make_package(tmp_path / "project" / "shop")
    if place.startswith("project/"):
        make_package(tmp_path / place)

    with pytest.raises(SpidersError) as refused:
        find_packages(["project/shop", place], tmp_path)

    assert str(refused.value) == f"scrapy_packages[1]: {place!r} {said}"


def test_every_wrong_place_is_reported_at_once(tmp_path: Path):
    with pytest.raises(SpidersError, match=r"(?s)scrapy_packages\[0\].*\n.*scrapy_packages\[1\]"):
        find_packages(["a", "b"], tmp_path)


def test_a_text_is_not_taken_for_its_letters(tmp_path: Path):
    with pytest.raises(SpidersError, match="scrapy_packages: "):
        find_packages("shop", tmp_path)


def test_two_packages_of_one_name_are_refused(tmp_path: Path):
    make_package(tmp_path / "a" / "shop")
    make_package(tmp_path / "b" / "shop")

    with pytest.raises(SpidersError, match=r"\[1\]: 'b/shop' .*'shop'"):
        find_packages(["a/shop", "b/shop"], tmp_path)


def test_a_package_that_is_large_is_refused(tmp_path: Path):
    package = make_package(tmp_path / "shop")
    with (package / "items.jl").open("wb") as file:
        file.truncate(21 * 1024 * 1024)

    with pytest.raises(SpidersError, match=r"21\.0 MB; 20 MB"):
        find_packages(["shop"], tmp_path)


@pytest.mark.parametrize("name", ["lxml", "scrapy", "six"])
def test_a_package_that_would_hide_what_is_carried_is_refused(
    built: Bundle, tmp_path: Path, name: str
):
    packages = find_packages([str(make_package(tmp_path / name))], tmp_path)
    vendor = next(iter(built.vendor_layers.values())).parent

    with pytest.raises(BundleError, match=f"'{name}'"):
        bundle.spider_files("functions/consumer/scrapy", packages, vendor)


def test_whoever_runs_spiders_is_reported_the_names_and_nobody_else_is(
    composed: Callable[[Stage], Assembly],
):
    by_name = composed(dataclasses.replace(AWS_LARGE, scrapy_packages=(SAMPLE,))).functions()

    reported = {
        name: properties["Environment"]["Variables"].get(names.ENV_SCRAPY_PACKAGES)
        for name, properties in by_name.items()
        if name.startswith("crawlfleet-")
    }
    consumer = names.function_name("aws-large", names.CONSUMER)
    large = f"{consumer}-large"
    trials = names.function_name("aws-large", names.TRIALS)
    assert {reported.pop(name) for name in (consumer, large, trials)} == {"spiders"}
    assert set(reported.values()) == {None}
    assert len(by_name[consumer]["Layers"]) == 5


def test_a_stage_with_a_wrong_package_is_refused_before_anything_is_built(tmp_path: Path):
    wrong = dataclasses.replace(AWS_LARGE, scrapy_packages=("samplesconfig/scrapy/project",))

    with pytest.raises(SpidersError, match=r"scrapy_packages\[0\]: .*spiders"):
        compose(wrong, tmp_path, lambda *_, **__: pytest.fail("something was built"))


def test_the_command_refuses_what_is_no_package(capsys: pytest.CaptureFixture[str]):
    assert bundle.main(["--scrapy", "nowhere"]) != 0
    assert "--scrapy[0]: 'nowhere'" in capsys.readouterr().err
