"""Functions that carry their layers have in them what the layers have, and name no layer."""

import json
import shutil

import pytest

from infra.localstack.folding import fold_layers
from infra.localstack.release import next_release

_CODE, _OURS, _VENDOR, _TEMPLATE = ("0" * 63 + letter for letter in "abcd")


@pytest.fixture
def assembly(tmp_path):
    folder = tmp_path / "cdk.out"
    for asset, files in {
        _CODE: {"functions/router/handler.py": "handler"},
        _OURS: {"python/crawlfleet/__init__.py": '__version__ = "1"\n'},
        _VENDOR: {"python/lib/__init__.py": "lib", "python/lib/inner.py": "inner"},
    }.items():
        for name, content in files.items():
            path = folder / f"asset.{asset}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    template = {
        "Resources": {
            "Ours": {
                "Type": "AWS::Lambda::LayerVersion",
                "Properties": {"Content": {"S3Key": f"{_OURS}.zip"}},
            },
            "Vendor": {
                "Type": "AWS::Lambda::LayerVersion",
                "Properties": {"Content": {"S3Key": f"{_VENDOR}.zip"}},
            },
            "Router": {
                "Type": "AWS::Lambda::Function",
                "Properties": {
                    "Code": {"S3Key": f"{_CODE}.zip"},
                    "Layers": [{"Ref": "Ours"}, {"Ref": "Vendor"}],
                },
            },
        }
    }
    (folder / "compute.template.json").write_text(json.dumps(template))
    files = {known: {"source": {"path": f"asset.{known}"}} for known in (_CODE, _OURS, _VENDOR)}
    files[_TEMPLATE] = {"source": {"path": "compute.template.json"}}
    (folder / "compute.assets.json").write_text(json.dumps({"files": files}))
    return folder


def function(folder):
    template = json.loads((folder / "compute.template.json").read_text())
    return template["Resources"]["Router"]["Properties"]


def package(folder):
    return folder / f"asset.{function(folder)['Code']['S3Key'].removesuffix('.zip')}"


def test_a_function_has_its_layers_modules_beside_its_own(assembly):
    assert fold_layers(assembly) == 1

    assert "Layers" not in function(assembly)
    held = package(assembly)
    assert held.name != f"asset.{_CODE}"
    found = {str(path.relative_to(held)) for path in held.rglob("*") if path.is_file()}
    assert found == {
        "functions/router/handler.py",
        "crawlfleet/__init__.py",
        "lib/__init__.py",
        "lib/inner.py",
    }
    files = json.loads((assembly / "compute.assets.json").read_text())["files"]
    assert held.name.removeprefix("asset.") in files
    assert not {_CODE, _TEMPLATE} & set(files)


def test_the_next_release_of_it_has_another_version_in_the_function(assembly, tmp_path):
    fold_layers(assembly)

    next_release(assembly, tmp_path / "next", "2")

    module = package(tmp_path / "next") / "crawlfleet" / "__init__.py"
    assert module.read_text() == '__version__ = "2"\n'
    assert package(tmp_path / "next").name != package(assembly).name


def test_a_layer_of_somebody_else_cannot_be_carried(assembly):
    path = assembly / "compute.template.json"
    path.write_text(path.read_text().replace('{"Ref": "Vendor"}', '"arn:aws:lambda:layer"'))

    with pytest.raises(ValueError, match="layer"):
        fold_layers(assembly)


def test_a_template_without_functions_is_left_as_it_is(assembly, tmp_path):
    (assembly / "state.template.json").write_text('{"Resources": {}}')
    shutil.copytree(assembly, tmp_path / "copy")

    fold_layers(assembly)

    assert json.loads((assembly / "state.template.json").read_text()) == {"Resources": {}}
