"""Tests of the bundle that Lambda receives, from a real build: complete, small, built once."""

import ast
import dataclasses
import importlib.util
import marshal
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from infra import bundle, bytecode, wheels
from infra.bundle import ROOT, ZIPPED_LIMIT_BYTES, BundleError
from infra.bundle_contents import Bundle, Size
from infra.fleet import FLEET, FunctionSpec
from infra.stages import Architecture

EACH_FUNCTION = pytest.mark.parametrize("spec", FLEET.functions, ids=lambda spec: spec.name)


@pytest.fixture(scope="module")
def built() -> Bundle:
    return bundle.build(Architecture.ARM64)


@EACH_FUNCTION
def test_function_with_its_layers_stays_under_50_megabytes_zipped(
    built: Bundle, spec: FunctionSpec, capsys: pytest.CaptureFixture[str]
):
    size = built.size_of(spec)

    with capsys.disabled():
        sys.stdout.write(f"\n{spec.name}: {size.zipped / 1024 / 1024:.1f} MB zipped ")
    assert 0 < size.zipped < ZIPPED_LIMIT_BYTES


@EACH_FUNCTION
def test_handler_lies_where_its_name_says(built: Bundle, spec: FunctionSpec):
    module, _, _ = spec.handler.rpartition(".")

    assert (built.functions[spec.name] / module.replace(".", "/")).with_suffix(".py").is_file()


@EACH_FUNCTION
def test_function_carries_no_other_functions_code(built: Bundle, spec: FunctionSpec):
    folders = {path.name for path in (built.functions[spec.name] / "functions").iterdir()}

    assert folders - {"__init__.py", "__pycache__"} == {spec.package}


@EACH_FUNCTION
def test_everything_a_function_imports_is_in_its_layers(built: Bundle, spec: FunctionSpec):
    layers = [built.vendor_layers[group] / "python" for group in spec.vendor]
    ours = [built.functions[spec.name], built.package_layer / "python"]
    provided = {path.name.split(".")[0] for layer in layers for path in layer.iterdir()}

    imported = dict(imports(f"functions.{spec.package}.handler", ours))

    known = provided | set(sys.stdlib_module_names) | {"boto3", "botocore"}
    missing = {name: by for name, by in imported.items() if name.split(".")[0] not in known}
    assert missing == {}


def imports(start: str, ours: list[Path]) -> Iterator[tuple[str, str]]:
    """Yield external imports reachable from ``start``, each with the module that imports it."""
    waiting, seen = [start], set()
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        waiting += [module.rpartition(".")[0]] if "." in module else []
        file = source(ours, module)
        for name, is_module in imported_names(file, module) if file else ():
            if source(ours, name):
                waiting.append(name)
            elif (is_module and not is_folder(ours, name)) or (
                not is_module and is_bare_folder(ours, name.rpartition(".")[0])
            ):
                yield name, module


def is_folder(ours: list[Path], module: str) -> bool:
    return any((root / module.replace(".", "/")).is_dir() for root in ours)


def is_bare_folder(ours: list[Path], module: str) -> bool:
    """A folder that is no package: it holds modules and defines nothing."""
    return is_folder(ours, module) and source(ours, module) is None


def source(ours: list[Path], module: str) -> Path | None:
    paths = [root / module.replace(".", "/") for root in ours]
    files = [file for path in paths for file in (path.with_suffix(".py"), path / "__init__.py")]
    return next((file for file in files if file.is_file()), None)


def imported_names(file: Path, module: str) -> Iterator[tuple[str, bool]]:
    """Names that a file imports when it runs, also within functions; whether each is a module."""
    tree = ast.parse(file.read_text())
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, True) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            above = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            yield base, True
            yield from ((f"{base}.{alias.name}", False) for alias in node.names)


@pytest.mark.parametrize(
    ("architecture", "machine"), [(Architecture.ARM64, 183), (Architecture.X86_64, 62)]
)
def test_layers_hold_binaries_of_the_functions_processor_only(
    architecture: Architecture, machine: int
):
    layers = bundle.build(architecture).vendor_layers.values()

    binaries = [path for layer in layers for path in layer.rglob("*.so*")]
    assert binaries
    assert {int.from_bytes(path.read_bytes()[18:20], "little") for path in binaries} == {machine}


@pytest.mark.parametrize(
    ("head", "what"),
    [
        (b"\x7fELF\x02\x01" + bytes(12) + (62).to_bytes(2, "little"), "another processor's"),
        (b"\x7fELF\x01\x01" + bytes(12) + (183).to_bytes(2, "little"), "of 32 bits"),
        (b"\x7fELF\x02\x02" + bytes(12) + (183).to_bytes(2, "big"), "the other way round"),
        (b"\x7fELF", "cut off"),
    ],
)
def test_a_binary_of_another_processor_is_refused_by_name(tmp_path: Path, head: bytes, what: str):
    package = tmp_path / "package"
    package.mkdir()
    (package / "text.py").write_bytes(b"x = 1")
    (package / "right.so").write_bytes(
        b"\x7fELF\x02\x01" + bytes(12) + (183).to_bytes(2, "little") + bytes(44)
    )
    wheels.check_machine(tmp_path, Architecture.ARM64)

    (package / "wrong.so").write_bytes(head)

    with pytest.raises(BundleError, match=r"package/wrong\.so .*arm64"):
        wheels.check_machine(tmp_path, Architecture.ARM64)


def test_layers_leave_out_what_the_runtime_has_and_what_only_people_read(built: Bundle):
    files = [
        path.relative_to(layer)
        for layer in built.vendor_layers.values()
        for path in layer.rglob("*")
    ]

    tops = {path.parts[1] for path in files if len(path.parts) > 1}
    assert not tops & {"boto3", "botocore", "s3transfer"}
    assert not [path for path in files if path.suffix in {".pyi", ".c", ".h"}]
    assert not [path for path in files if {"tests", "docs"} & set(path.parts)]


def test_no_two_layers_of_a_function_hold_the_same_file(built: Bundle):
    for spec in FLEET.functions:
        held = [
            path.relative_to(built.vendor_layers[group])
            for group in spec.vendor
            for path in built.vendor_layers[group].rglob("*")
            if path.is_file()
        ]
        assert len(held) == len(set(held))


def test_id_issuer_starts_without_parsers_and_fetchers(built: Bundle):
    spec = FLEET.function("id-issuer")

    carried = {
        path.name
        for group in spec.vendor
        for path in (built.vendor_layers[group] / "python").iterdir()
    }
    assert not carried & {"lxml", "selectolax", "bs4", "aiohttp", "requests"}


def test_package_layer_leaves_the_command_line_at_home(built: Bundle):
    package = built.package_layer / "python" / "crawlfleet"

    assert (package / "kernel").is_dir()
    assert not (package / "cli").exists()


def test_a_second_build_reuses_the_first(built: Bundle):
    folders = [each.stat().st_ino for each in built.vendor_layers.values()]

    again = bundle.build(Architecture.ARM64).vendor_layers

    assert again == built.vendor_layers
    assert [each.stat().st_ino for each in again.values()] == folders


def test_a_package_that_is_not_pinned_is_refused_by_name():
    with pytest.raises(BundleError, match="nosuch"):
        list(bundle.closure(["nosuch"], {}, Architecture.ARM64))


def test_a_function_without_a_handler_is_refused_by_name(tmp_path: Path):
    with pytest.raises(BundleError, match=r"functions/router/handler\.py"):
        bundle.function_files(FLEET.function("router"), tmp_path)


def test_staging_again_drops_what_is_gone_and_takes_what_changed(tmp_path: Path):
    target = tmp_path / "target"
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("x = 1")
    two.write_text("x = 2")
    bundle.put_in_place({"a.py": one, "sub/b.py": two}, target, "/opt")
    compiled = {path.name: path.read_bytes() for path in target.rglob("*.pyc")}

    one.write_text("x = 3")
    bundle.put_in_place({"a.py": one}, target, "/opt")

    sources = [(path.name, path.read_text()) for path in target.rglob("*.py")]
    assert sources == [("a.py", "x = 3")]
    assert len(compiled) == (2 if bytecode.compiler() else 0)
    for path in target.rglob("*.pyc"):
        assert path.read_bytes() != compiled[path.name]


def test_all_code_is_compiled_where_the_runtimes_python_is_at_hand(built: Bundle):
    folders = [*built.vendor_layers.values(), built.package_layer, *built.functions.values()]

    sources = [path for folder in folders for path in folder.rglob("*.py")]
    compiled = {path.stem.split(".")[0] for folder in folders for path in folder.rglob("*.pyc")}

    expected = {path.stem for path in sources} if bytecode.compiler() else set()
    assert compiled == expected


def test_byte_code_names_the_file_where_lambda_has_it(tmp_path: Path):
    source = tmp_path / "python" / "module.py"
    source.parent.mkdir()
    source.write_text("x = 1")

    bytecode.compile_missing(tmp_path, "/opt", sys.executable)

    compiled = Path(importlib.util.cache_from_source(str(source))).read_bytes()
    assert marshal.loads(compiled[16:]).co_filename == "/opt/python/module.py"


def test_byte_code_is_forgotten_with_its_source(tmp_path: Path):
    source = tmp_path / "module.py"
    source.write_text("x = 1")
    bytecode.compile_missing(tmp_path, "/opt", sys.executable)

    bytecode.forget(source)

    assert list(tmp_path.rglob("*.pyc")) == []


def test_a_function_over_the_limit_is_refused_by_name(built: Bundle):
    sizes = dict.fromkeys(built.sizes, Size(unpacked=1, zipped=ZIPPED_LIMIT_BYTES))

    with pytest.raises(BundleError, match="id-issuer"):
        bundle.check_limits(dataclasses.replace(built, sizes=sizes), FLEET)


def test_requirements_leave_out_what_the_runtime_carries():
    pinned = wheels.requirements(Architecture.ARM64, ROOT / "requirements/lambda.txt")

    names = {line.partition("==")[0] for line in pinned.splitlines()}
    assert not names & wheels.IN_RUNTIME
    packages = {package for group in FLEET.vendor_groups for package in group.packages}
    assert {canonicalize_name(package) for package in packages} <= names
    assert all("--hash=sha256:" in line for line in pinned.splitlines())


def test_every_dependency_of_the_product_is_in_a_vendor_group():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    required = {Requirement(line).name for line in project["dependencies"]}
    carried = {package for group in FLEET.vendor_groups for package in group.packages}
    assert required - wheels.IN_RUNTIME == carried


def test_requirements_are_those_of_the_functions_platform(tmp_path: Path):
    (tmp_path / "lambda.txt").write_text(
        "# made by a tool\n"
        "boto3==1.40.0 \\\n    --hash=sha256:aa\n"
        "redis==6.0.0 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n    # via crawlfleet\n"
        "old==1 ; python_full_version < '3.11.3' \\\n    --hash=sha256:dd\n"
        "arm==1 ; platform_machine == 'aarch64' \\\n    --hash=sha256:ee\n"
    )

    text = wheels.requirements(Architecture.ARM64, tmp_path / "lambda.txt")

    assert text.splitlines() == [
        "redis==6.0.0 --hash=sha256:bb --hash=sha256:cc",
        "arm==1 --hash=sha256:ee",
    ]
