"""The next release is the same assembly with another version of our package, under its own hash."""

import json

import pytest

from infra.localstack.release import next_release

_HASH, _TEMPLATE, _OTHER = ("0" * 63 + letter for letter in "abc")


@pytest.fixture
def assembly(tmp_path):
    package = tmp_path / "cdk.out" / f"asset.{_HASH}" / "python" / "crawlfleet"
    (package / "__pycache__").mkdir(parents=True)
    (package / "__init__.py").write_text('"""Words."""\n\n__version__ = "0.1.0"\n')
    (package / "__pycache__" / "__init__.cpython-313.pyc").write_text("old")
    (package / "names.py").write_text("PRODUCT = 1\n")
    folder = tmp_path / "cdk.out"
    (folder / "other.json").write_text('{"S3Key": "b.zip"}')
    (folder / "compute.template.json").write_text(json.dumps({"S3Key": f"{_HASH}.zip"}))
    files = {
        _HASH: {"source": {"path": f"asset.{_HASH}"}},
        _TEMPLATE: {"source": {"path": "compute.template.json"}},
        _OTHER: {"source": {"path": "other.json"}},
    }
    (folder / "compute.assets.json").write_text(json.dumps({"files": files}))
    (folder / "manifest.json").write_text(json.dumps([f"{_TEMPLATE}.json", f"{_OTHER}.json"]))
    return folder


def test_the_version_alone_is_another_one(assembly, tmp_path):
    target = tmp_path / "next"

    next_release(assembly, target, "0.1.0+next")

    key = json.loads((target / "compute.template.json").read_text())["S3Key"]
    assert key != f"{_HASH}.zip"
    package = target / f"asset.{key.removesuffix('.zip')}" / "python" / "crawlfleet"
    assert '__version__ = "0.1.0+next"' in (package / "__init__.py").read_text()
    # It would be run in the place of the new source.
    assert not list(package.glob("__pycache__/__init__*"))
    assert (package / "names.py").read_text() == "PRODUCT = 1\n"
    assert (target / "other.json").read_text() == '{"S3Key": "b.zip"}'


def test_a_template_that_has_changed_has_another_name_too(assembly, tmp_path):
    target = tmp_path / "next"

    next_release(assembly, target, "0.1.0+next")

    changed, kept = json.loads((target / "manifest.json").read_text())
    assert changed != f"{_TEMPLATE}.json"
    assert kept == f"{_OTHER}.json"
    files = json.loads((target / "compute.assets.json").read_text())["files"]
    key = json.loads((target / "compute.template.json").read_text())["S3Key"].removesuffix(".zip")
    assert files[changed.removesuffix(".json")]["source"]["path"] == "compute.template.json"
    assert files[key]["source"]["path"] == f"asset.{key}"
    assert set(files) == {changed.removesuffix(".json"), key, _OTHER}


def test_what_was_deployed_first_stays_as_it_is(assembly, tmp_path):
    next_release(assembly, tmp_path / "next", "2")

    assert json.loads((assembly / "compute.template.json").read_text())["S3Key"] == f"{_HASH}.zip"
    assert (assembly / f"asset.{_HASH}").is_dir()


def test_an_assembly_without_our_package_is_refused(tmp_path):
    (tmp_path / "cdk.out").mkdir()

    with pytest.raises(ValueError, match="asset"):
        next_release(tmp_path / "cdk.out", tmp_path / "next", "2")
