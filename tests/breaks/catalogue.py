"""The list of breaks: places of the product whose loss the tests must notice, as data."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
LIST: Final = Path(__file__).with_name("breaks.toml")


class StaleBreakError(Exception):
    """A break does not fit today's code any more: the text that it replaces has gone or repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """One change to the product that harms a user, a tenant or an operator.

    Attributes:
        name: A sentence fragment with hyphens; unique.
        capability: The room of the house that it is in.
        file: Path of the product's file, from the root.
        old: Text that is in the file exactly once.
        new: Text that takes its place.
        why: Whom it hurts, and how.
        tests: Patterns of paths, from the root, of the tests that should find it first.
    """

    name: str
    capability: str
    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...]

    def applied(self, text: str) -> str:
        """Return the file's text with the break in it.

        Raises:
            StaleBreakError: the old text is not there exactly once.

        >>> one = Break(name="", capability="", file="a.py", old="<=", new="<", why="", tests=())
        >>> one.applied("if a <= b:")
        'if a < b:'
        """
        if (count := text.count(self.old)) != 1:
            raise StaleBreakError(f"{self.name}: its old text is {count} times in {self.file}")
        return text.replace(self.old, self.new)

    def paths(self, root: Path) -> list[str]:
        """Find the files and folders of its tests below a root.

        Raises:
            StaleBreakError: a pattern matches nothing.
        """
        found: dict[str, None] = {}
        for pattern in self.tests:
            matches = sorted(str(path.relative_to(root)) for path in root.glob(pattern))
            if not matches:
                raise StaleBreakError(f"{self.name}: there is no test {pattern}")
            found |= dict.fromkeys(matches)
        return list(found)


def breaks() -> list[Break]:
    """Read the list."""
    with LIST.open("rb") as file:
        listed = tomllib.load(file)["break"]
    return [Break(**{**one, "tests": tuple(one["tests"])}) for one in listed]
