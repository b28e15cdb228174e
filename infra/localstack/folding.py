"""Functions that carry their layers, for a LocalStack that does without layers.

LocalStack's free edition in Docker takes layers and ignores them. There each function's own package
has what its layers hold: ``/var/task`` is on the path as ``/opt/python`` is. The stacks are as on
AWS otherwise; what they deploy is of the same bytes.
"""

import json
import shutil
from pathlib import Path
from typing import Any, Final

from infra.localstack.assembly import other_hash, rename_assets

_LAYER: Final = "AWS::Lambda::LayerVersion"
_FUNCTION: Final = "AWS::Lambda::Function"
#: Where a layer has its modules.
_MODULES: Final = "python"


def fold_layers(assembly: Path) -> int:
    """Move every layer into the functions that have it; how many functions there are.

    Raises:
        ValueError: a function has a layer of another stack.
    """
    names: dict[str, str] = {}
    for path in assembly.glob("*.template.json"):
        template = json.loads(path.read_text())
        resources = template["Resources"]
        for function in _of_kind(resources, _FUNCTION):
            properties = function["Properties"]
            known = _asset(properties["Code"])
            layers = [_layer(resources, one) for one in properties.pop("Layers", ())]
            for layer in layers:
                held = assembly / f"asset.{layer}" / _MODULES
                if held.is_dir():
                    shutil.copytree(held, assembly / f"asset.{known}", dirs_exist_ok=True)
            names[known] = other_hash(known, " ".join(layers))
        path.write_text(json.dumps(template, indent=1))
    rename_assets(assembly, names)
    return len(names)


def _layer(resources: dict[str, Any], reference: Any) -> str:
    layer = resources.get(str(reference.get("Ref"))) if isinstance(reference, dict) else None
    if layer is None or layer["Type"] != _LAYER:
        raise ValueError(f"{reference} is no layer of the function's own stack")
    return _asset(layer["Properties"]["Content"])


def _asset(place: dict[str, Any]) -> str:
    return str(place["S3Key"]).removesuffix(".zip")


def _of_kind(resources: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [one for one in resources.values() if one["Type"] == kind]
