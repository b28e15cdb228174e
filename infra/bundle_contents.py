"""A bundle's folders and their sizes, for those who build, deploy and report it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.fleet import FunctionSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Bytes of a folder, as it lies and as Lambda receives it."""

    unpacked: int
    zipped: int

    def __add__(self, other: "Size") -> "Size":
        return Size(unpacked=self.unpacked + other.unpacked, zipped=self.zipped + other.zipped)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """The folders built for one architecture; CDK's assets are exactly these.

    Attributes:
        package_layer: Folder of the layer that holds our package.
        vendor_layers: Folder of each vendor group's layer.
        functions: Folder of each function's own code.
        sizes: Size of every folder above.
    """

    package_layer: Path
    vendor_layers: Mapping[str, Path]
    functions: Mapping[str, Path]
    sizes: Mapping[Path, Size]

    def size_of(self, spec: FunctionSpec) -> Size:
        """A function's code with all its layers."""
        total = self.sizes[self.functions[spec.name]] + self.sizes[self.package_layer]
        for group in spec.vendor:
            total += self.sizes[self.vendor_layers[group]]
        return total


def megabytes(size: int) -> str:
    """A size for people.

    >>> megabytes(50 * 1024 * 1024)
    '50.0 MB'
    """
    return f"{size / 1024 / 1024:.1f} MB"
