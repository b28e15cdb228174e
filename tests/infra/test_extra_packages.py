"""Packages of one's own in deployed functions: how a stage names them, and where they are found."""

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from infra import bundle
from infra.bundle import ROOT, BundleError
from infra.bundle_contents import Bundle
from infra.extra_packages import dist_infos, find_extras
from infra.fleet import FLEET
from infra.spiders import SpidersError
from infra.stages import AWS_LARGE, LOCALSTACK, Architecture, Stage
from tests.infra.assembly import Assembly, compose
from tests.kit.kernel import names

SAMPLE = "samplesconfig/own-code/project/acme_crawl"
WITH_EXTRAS = {names.CONSUMER, names.ROUTER, names.SCHEDULER, names.TRIALS}
#: A function as it stands in a bundle, asked for everything that the package brings.
PROGRAM = """
from datetime import UTC, datetime
from tests.kit.config import SeedPolicy
from tests.kit.executors import Registry
from tests.kit.frontier import SEED_KEYS, SEGMENTS, Segments, missing
policy = SeedPolicy(segment_resolver="by_quarter")
print(Registry().find("robots_lines").__module__, missing(SEED_KEYS, ["by_article"]))
print(Segments()(policy, datetime(2026, 5, 3, tzinfo=UTC)).name, missing(SEGMENTS, ["by_week"]))
"""


@pytest.fixture(scope="module")
def built() -> Bundle:
    return bundle.build(Architecture.ARM64, extras=find_extras([SAMPLE], ROOT))


def test_every_function_that_needs_them_carries_the_packages_and_no_other_does(built: Bundle):
    carrying = {
        name for name, folder in built.functions.items() if (folder / "acme_crawl").is_dir()
    }

    assert carrying == WITH_EXTRAS
    assert {spec.name for spec in FLEET.functions if spec.finds_extras} == WITH_EXTRAS


@pytest.mark.parametrize("name", sorted(WITH_EXTRAS))
def test_python_finds_in_the_function_what_the_package_brings(built: Bundle, name: str):
    path = [str(built.functions[name]), *(place for place in sys.path if place), str(ROOT)]

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=built.functions[name],
        env={"PYTHONPATH": ":".join(path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == ""
    assert done.stdout.splitlines() == ["acme_crawl.robots []", "2026-Q2 ['by_week']"]


def test_executors_that_were_dropped_in_are_carried_by_all_who_ask_them(tmp_path: Path):
    folder = tmp_path / "functions" / "consumer" / "executors"
    folder.mkdir(parents=True)
    (folder / "mine.py").touch()

    found = bundle.own_executors(tmp_path)

    assert found == {"functions/consumer/executors/mine.py": folder / "mine.py"}


def test_a_stage_composes_its_functions_of_them(composed: Callable[[Stage], Assembly]):
    by_name = composed(dataclasses.replace(AWS_LARGE, extra_packages=(SAMPLE,))).functions()

    assert names.function_name("aws-large", names.CONSUMER) in by_name
    assert LOCALSTACK.extra_packages == (SAMPLE,)


def project(folder: Path, points: str, package: str = "shop") -> str:
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").touch()
    (folder / "pyproject.toml").write_text(f'[project]\nname = "my-shop"\n{points}')
    return str(folder / package)


def test_two_packages_of_one_project_are_one_installed_project(tmp_path: Path):
    points = '[project.entry-points."crawlfleet.seed_keys"]\none = "shop:key"\ntwo = "more.x:key"\n'
    places = [project(tmp_path, points), project(tmp_path / "src", points, "more")]
    (tmp_path / "src" / "pyproject.toml").unlink()

    files = dist_infos(find_extras(places, tmp_path))

    assert files["my_shop-0.dist-info/entry_points.txt"] == (
        "[crawlfleet.seed_keys]\none = shop:key\ntwo = more.x:key\n"
    )
    assert "Name: my-shop\n" in files["my_shop-0.dist-info/METADATA"]


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ('[project.entry-points."other"]\none = "shop:key"\n', "has no entry point in"),
        ('[project.entry-points."crawlfleet.segments"]\none = "x:key"\n', "has no entry point in"),
        ('entry-points = "none"\n', "has a project that cannot be read"),
        ("name = 7 =", "has a project that cannot be read"),
    ],
)
def test_a_project_that_brings_nothing_is_refused_by_the_settings_name(
    tmp_path: Path, points: str, said: str
):
    place = project(tmp_path, points)

    with pytest.raises(SpidersError) as refused:
        find_extras([place], tmp_path)

    assert str(refused.value).startswith(f"extra_packages[0]: {place!r} {said}")


def test_a_package_without_a_project_is_refused_before_anything_is_built(tmp_path: Path):
    (tmp_path / "a" / "b" / "shop").mkdir(parents=True)
    (tmp_path / "a" / "b" / "shop" / "__init__.py").touch()
    wrong = dataclasses.replace(AWS_LARGE, extra_packages=(str(tmp_path / "a" / "b" / "shop"),))

    with pytest.raises(SpidersError, match=r"extra_packages\[0\]: .* has no pyproject\.toml"):
        compose(wrong, tmp_path, lambda *_, **__: pytest.fail("something was built"))


def test_a_package_that_would_hide_what_is_carried_is_refused(built: Bundle, tmp_path: Path):
    points = '[project.entry-points."crawlfleet.seed_keys"]\none = "w3lib:key"\n'
    extras = find_extras([project(tmp_path, points, "w3lib")], tmp_path)
    vendor = next(iter(built.vendor_layers.values())).parent

    with pytest.raises(BundleError, match="'w3lib'"):
        bundle.extra_files(extras, vendor, tmp_path / "made")
