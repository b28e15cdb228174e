"""Read a folder of YAML files as documents of the config centre, and write it.

YAML, because rules are written by people and want comments; the runtime never sees it. What is read
here becomes JSON, and the JSON is what the runtime's reader decodes. So that nothing changes on the
way, this YAML has JSON's values only: ``yes`` and ``2026-01-01`` are strings, keys are strings and
may stand once, and there are no anchors and tags. A JSON file is read just as well.

Layout: ``stage.yaml``, ``tenants/{tenant}.yaml``, ``bizs/{tenant}/{biz}.yaml``. Below
``schedules/``, ``spiders/`` and ``subscriptions/`` lie samples of what goes through the API, below
``pages/`` what is tried on them and on rules; they are not part of the config centre.
"""

import math
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from crawlfleet.config.loading import NAMES, misnamed, shape_of
from crawlfleet.kernel.errors import ConfigError, Problem
from crawlfleet.kernel.names import CONFIG_BIZS, CONFIG_STAGE, CONFIG_TENANTS

SUFFIXES: Final = (".yaml", ".yml", ".json")
#: Where else than in documents a file may lie.
_ELSEWHERE: Final = frozenset({"pages", "project", "schedules", "spiders", "subscriptions"})
#: Largest file; a document has the same limit.
_MAX_FILE_BYTES: Final = 2_000_000
#: Most folders that a message offers.
_OFFERED: Final = 5

_JSON_SCALARS: Final = (
    ("tag:yaml.org,2002:null", r"(?:null|~|)\Z", ["n", "~", ""]),
    ("tag:yaml.org,2002:bool", r"(?:true|false)\Z", list("tf")),
    ("tag:yaml.org,2002:int", r"-?(?:0|[1-9][0-9]*)\Z", list("-0123456789")),
    (
        "tag:yaml.org,2002:float",
        r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?\Z",
        list("-0123456789"),
    ),
)
_LINE_ENDS: Final = re.compile("[\x85\u2028\u2029\ufeff]")


class _Loader(yaml.SafeLoader):
    """YAML whose values are JSON's, as in YAML 1.2, without aliases."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem="aliases are not read here", problem_mark=event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        found: dict[Hashable, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                problem = f"the key {key!r} is no string; put it in quotes"
            elif key in found:
                problem = f"the key {key!r} stands here a second time"
            else:
                found[key] = self.construct_object(value_node, deep=deep)
                continue
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
        return found


class _Dumper(yaml.SafeDumper):
    """Writes what :class:`_Loader` reads."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  the base class's signature
        return True


def _represent_string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # PyYAML writes Unicode's own line ends unescaped unless it is made to use double quotes.
    style = '"' if _LINE_ENDS.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _represent_string)

for _tag, _pattern, _first in _JSON_SCALARS:
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(_tag, re.compile(_pattern), _first)


def _constructor(kind: type[int] | type[float]) -> Callable[[Any, Any], float]:
    return lambda loader, node: kind(str(loader.construct_scalar(node)))


# No tag but JSON's kinds; and YAML 1.1's constructors would read 010 as eight, 1:30 as ninety.
_Loader.yaml_constructors = {
    tag: yaml.SafeLoader.yaml_constructors[tag]
    for tag in (
        *(f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "str", "seq", "map")),
        None,
    )
}
_Loader.add_constructor("tag:yaml.org,2002:int", _constructor(int))
_Loader.add_constructor("tag:yaml.org,2002:float", _constructor(float))


def read_folder(folder: Path) -> dict[str, str]:
    """Every document of the folder as compact JSON, by its path in the config centre.

    Raises:
        ConfigError: a file cannot be read, or lies where no document belongs; names every such one.
    """
    documents, problems = scan_folder(folder)
    if problems:
        raise ConfigError(problems)
    return documents


def scan_folder(folder: Path) -> tuple[dict[str, str], list[Problem]]:
    """Every document of the folder, and every file that is none.

    A document whose file cannot be read is an empty text, and its path the problem's field.
    """
    if not folder.is_dir():
        wanted = "expected one with stage.yaml, such as samplesconfig/local"
        return {}, [Problem(str(folder), f"is no folder; {wanted}")]
    documents: dict[str, str] = {}
    problems: list[Problem] = []
    for file in sorted(folder.rglob("*")):
        relative = file.relative_to(folder)
        if not file.is_file() or _is_elsewhere(relative):
            continue
        path = relative.with_suffix("").as_posix()
        if file.suffix not in SUFFIXES or shape_of(path) is None:
            problems.append(
                Problem(relative.as_posix(), f"is no document: {_expected(file, path)}")
            )
        elif path in documents:
            problems.append(Problem(relative.as_posix(), f"is a second file for {path}"))
        else:
            try:
                documents[path] = read_file(file)
            except (OSError, ValueError) as error:
                documents[path] = ""
                problems.append(Problem(path, f"{file.name}: {error}"))
    if problems and not documents and not _is_begun(folder):
        return {}, [_another_folder(folder)]
    return documents, problems


def _expected(file: Path, path: str) -> str:
    wrong = misnamed(path) if file.suffix in SUFFIXES else []
    if wrong:
        return f"{' and '.join(map(repr, wrong))} will not do, {NAMES}"
    return "expected stage.yaml, tenants/TENANT.yaml or bizs/TENANT/BIZ.yaml"


def _is_begun(folder: Path) -> bool:
    """Tell whether a layout of documents was begun here, though all may be wrong as yet."""
    return _has_stage(folder) or any((folder / n).is_dir() for n in (CONFIG_TENANTS, CONFIG_BIZS))


def _has_stage(folder: Path) -> bool:
    return any((folder / f"{CONFIG_STAGE}{suffix}").is_file() for suffix in SUFFIXES)


def _another_folder(folder: Path) -> Problem:
    """Name the problem of a folder without documents, and the folder that may be meant."""
    there = [each for each in sorted(folder.iterdir()) if each.is_dir() and _has_stage(each)]
    said = "has no stage.yaml, so it is the configuration of no stage"
    if there:
        said += f"; did you mean {' or '.join(map(str, there[:_OFFERED]))}?"
    return Problem(str(folder), said)


def read_file(file: Path) -> str:
    """Read one file as compact JSON.

    Raises:
        ValueError: it is too large, empty, no UTF-8, no YAML, or holds what JSON cannot.
        OSError: it cannot be opened.
    """
    if file.stat().st_size > _MAX_FILE_BYTES:
        raise ValueError(f"is larger than {_MAX_FILE_BYTES} bytes")
    text = parse(file.read_text(encoding="utf-8-sig"))
    if text == "null":
        raise ValueError("has nothing in it but comments; a document of defaults alone is {}")
    return text


def parse(text: str) -> str:
    r"""YAML as compact JSON, the keys in the order they are written.

    >>> parse("on: yes  # a string\nretry: {max_attempts: 3}")
    '{"on":"yes","retry":{"max_attempts":3}}'
    """
    try:
        value = yaml.load(text, Loader=_Loader)  # noqa: S506  a SafeLoader
        _refuse_infinities(value)
        return msgspec.json.encode(value).decode()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ValueError(f"{where}{error.problem}") from error
    except (yaml.YAMLError, TypeError, OverflowError) as error:
        raise ValueError(str(error)) from error
    except RecursionError as error:
        raise ValueError("is nested too deeply") from error


def render(text: str) -> str:
    """JSON as YAML for people; :func:`parse` gives the same JSON back. No JSON is left as it is."""
    try:
        value = msgspec.json.decode(text)
        return yaml.dump(
            value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100, indent=2
        )
    except (msgspec.DecodeError, yaml.YAMLError, RecursionError):
        return text


def inline(value: object) -> str:
    """Write a value of JSON as YAML on one line.

    >>> inline({"css": "h1", "list": True})
    '{css: h1, list: true}'
    """
    text = yaml.dump(
        value,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=10**6,
        default_flow_style=True,
    )
    return text.removesuffix("\n").removesuffix("\n...")


def file_of(folder: Path, path: str) -> Path:
    """Return the file of a document: the one there is, or ``.yaml``."""
    for suffix in SUFFIXES:
        file = folder / f"{path}{suffix}"
        if file.exists():
            return file
    return folder / f"{path}.yaml"


def write_folder(folder: Path, documents: Mapping[str, str]) -> Iterator[Path]:
    """Write each document to its file and yield it. A JSON file stays one."""
    for path, text in documents.items():
        file = file_of(folder, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        content = (
            msgspec.json.format(text, indent=2) + "\n" if file.suffix == ".json" else render(text)
        )
        file.write_text(content, encoding="utf-8")
        yield file


def _is_elsewhere(relative: Path) -> bool:
    hidden = any(part.startswith(".") for part in relative.parts)
    return hidden or relative.parts[0] in _ELSEWHERE or relative.suffix in (".md", ".txt")


def _refuse_infinities(value: object) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number is too large")
    for item in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        _refuse_infinities(item)
