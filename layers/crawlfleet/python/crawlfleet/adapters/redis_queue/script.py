"""The Lua scripts of ``scripts/``."""

from functools import cache
from hashlib import sha1
from importlib.resources import files


class Script:
    """A Lua script of ``scripts/`` by its name, with the prelude before it, or with two."""

    __slots__ = ("digest", "name", "source")

    def __init__(self, name: str, second_prelude: str | None = None) -> None:
        self.name = name
        second = b"" if second_prelude is None else _read(second_prelude)
        self.source = _prelude() + second + _read(name)
        self.digest = sha1(self.source, usedforsecurity=False).hexdigest()


@cache
def _prelude() -> bytes:
    return _read("prelude")


def _read(name: str) -> bytes:
    return files(__package__).joinpath("scripts", f"{name}.lua").read_bytes()
