"""The kit hands on what tests use, and nothing that they used once."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
KIT = TESTS / "kit"
IMPORTED = re.compile(
    r"^ *from tests\.kit(?:\.(\w+))? import (?:\(([^)]*)\)|([^(\n]+))$", re.MULTILINE
)


def handed_on(module: Path) -> set[str]:
    """The names of the product that a module of the kit imports and does not use itself."""
    tree = ast.parse(module.read_text())
    bound = {
        name.asname or name.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("crawlfleet")
        for name in node.names
    }
    return bound - {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def taken(file: Path) -> Iterator[tuple[str, str]]:
    """The names that a file takes from the kit, each with its module's."""
    text = file.read_text()
    for module, several, few in IMPORTED.findall(text):
        for name, _, alias in (
            one.strip().partition(" as ") for one in (several or few).split(",")
        ):
            if module:
                yield module, name
            elif name:
                attributes = re.findall(rf"\b{alias or name}\.(\w+)", text)
                yield from ((name, attribute) for attribute in attributes)


def test_every_name_that_the_kit_hands_on_is_taken_by_a_test():
    used = {pair for file in TESTS.rglob("*.py") for pair in taken(file)}

    unused = [
        f"{module.stem}.{name}"
        for module in sorted(KIT.glob("*.py"))
        for name in sorted(handed_on(module))
        if (module.stem, name) not in used
    ]

    assert len(used) > 1_000
    assert unused == []
