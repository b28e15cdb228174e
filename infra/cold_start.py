"""Measure a cold start before its first line: the imports of a handler, in CPU time.

A new interpreter of the runtime's version sees the bundle's folders and its own standard library,
and nothing else of this machine: no packages, no variables, no folder of the caller's. So a bundle
in which something is missing cannot be imported here either, and is refused before it is deployed.
That includes boto3, which the runtime has and no bundle: it costs more than all else of a handler,
so whatever needs it imports it then.
"""

import platform
import statistics
import subprocess
import sys
from typing import Final

from infra.bundle_contents import Bundle
from infra.fleet import PYTHON_VERSION, FunctionSpec
from infra.stages import Architecture
from infra.wheels import BundleError

#: Imports of each handler; the median counts.
RUNS: Final = 5
#: The slowest takes a second on a busy machine.
_SECONDS: Final = 60
_MACHINES: Final = {
    "aarch64": Architecture.ARM64,
    "arm64": Architecture.ARM64,
    "x86_64": Architecture.X86_64,
    "AMD64": Architecture.X86_64,
}
_PROGRAM: Final = """
import importlib, sys, time
sys.path[:0] = sys.argv[2:]
started = time.process_time()
importlib.import_module(sys.argv[1])
print((time.process_time() - started) * 1000)
"""


def unmeasured(
    architecture: Architecture,
    interpreter: str | None,
    system: str = sys.platform,
    machine: str = platform.machine(),
) -> str | None:
    """Tell why imports cannot be measured for these functions here; None where they can.

    Args:
        architecture: The functions'.
        interpreter: A Python of the runtime's version, where there is one.
        system: What runs here.
        machine: The processor here.
    """
    if system != "linux" or _MACHINES.get(machine) is not architecture:
        return f"{architecture} is not what runs here ({system} on {machine})"
    if interpreter is None:
        return f"no python{PYTHON_VERSION} here, which is the runtime's"
    return None


def import_ms(bundle: Bundle, spec: FunctionSpec, interpreter: str, *, runs: int = RUNS) -> float:
    """CPU milliseconds that the import of a handler takes, the median of some runs.

    Raises:
        BundleError: It cannot be imported.
    """
    layers = [bundle.package_layer, *(bundle.vendor_layers[group] for group in spec.vendor)]
    folders = [bundle.functions[spec.name], *(layer / "python" for layer in layers)]
    module = spec.handler.rpartition(".")[0]
    # -I: no variables, no folder of the caller; -S: no installed packages; -B: the bundle stays as
    # it will be deployed.
    command = [interpreter, "-I", "-S", "-B", "-c", _PROGRAM, module, *map(str, folders)]
    return statistics.median(_run(command, module) for _ in range(runs))


def _run(command: list[str], module: str) -> float:
    done = subprocess.run(  # noqa: S603  our own program over our own folders
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        raise BundleError(f"{module} cannot be imported from its bundle: {''.join(last)[-500:]}")
    return float(done.stdout)
