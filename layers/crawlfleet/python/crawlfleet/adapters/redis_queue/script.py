"""The Lua scripts of ``scripts/``."""

from functools import cache
from hashlib import sha1
from importlib.resources import files


class Script:
    """A Lua script of ``scripts/`` by its name, with the prelude before it, and with more."""

    __slots__ = ("digest", "name", "source")

    def __init__(self, name: str, *preludes: str) -> None:
        self.name = name
        self.source = b"".join([_prelude(), *map(_read, preludes), _read(name)])
        self.digest = sha1(self.source, usedforsecurity=False).hexdigest()


@cache
def _prelude() -> bytes:
    return _read("prelude")


def _read(name: str) -> bytes:
    return files(__package__).joinpath("scripts", f"{name}.lua").read_bytes()
