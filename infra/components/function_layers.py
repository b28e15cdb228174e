"""The layers: our package, and one for each vendor group of ``fleet.py``."""

from collections.abc import Sequence
from pathlib import Path

from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.bundle_contents import Bundle
from infra.fleet import FLEET, PYTHON_VERSION, FunctionSpec
from infra.stages import Architecture


def runtime() -> lambda_.Runtime:
    """The runtime of every function and layer."""
    return lambda_.Runtime(f"python{PYTHON_VERSION}", lambda_.RuntimeFamily.PYTHON)


def architecture(chosen: Architecture) -> lambda_.Architecture:
    """CDK's word for ours."""
    return {
        Architecture.ARM64: lambda_.Architecture.ARM_64,
        Architecture.X86_64: lambda_.Architecture.X86_64,
    }[chosen]


class FunctionLayers(Construct):
    """The Lambda layers of a stage, from the folders that ``bundle.py`` built."""

    def __init__(
        self, scope: Construct, construct_id: str, *, bundle: Bundle, chosen: Architecture
    ) -> None:
        super().__init__(scope, construct_id)
        self._chosen = architecture(chosen)
        self._package = self._layer("Package", bundle.package_layer, "The package crawlfleet")
        self._vendor = {
            group.name: self._layer(
                f"Vendor-{group.name}", bundle.vendor_layers[group.name], ", ".join(group.packages)
            )
            for group in FLEET.vendor_groups
        }

    def of(self, spec: FunctionSpec) -> Sequence[lambda_.ILayerVersion]:
        """The layers that a function needs: ours and its vendor groups, no others."""
        return [self._package, *(self._vendor[group] for group in spec.vendor)]

    def _layer(self, construct_id: str, folder: Path, description: str) -> lambda_.LayerVersion:
        return lambda_.LayerVersion(
            self,
            construct_id,
            code=lambda_.Code.from_asset(str(folder)),
            compatible_runtimes=[runtime()],
            compatible_architectures=[self._chosen],
            description=description,
        )
