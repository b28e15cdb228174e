"""Reading what scrapy-redis has pickled, without what makes pickles dangerous.

A pickle is a program: it names functions and calls them. This reader finds no name but those of
plain containers, so there is nothing to be called. It is the one in Python, not the one in C, whose
memory a few bytes can make grow to gigabytes.
"""

import io
import pickle
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final

#: Bytes of a pickle.
LARGEST: Final = 10_000_000
#: Values that are reached in it, repeats counted again: references can multiply to any number.
MOST_VALUES: Final = 100_000
_DEEPEST: Final = 64


class UnreadablePickleError(ValueError):
    """It is no pickle of plain data; says what it asks for."""


def loads(content: bytes) -> Any:
    """The value, made of None, bool, int, float, str, bytes, list, tuple, dict and sets.

    Raises:
        UnreadablePickleError: it asks for anything else, or is broken or too large.
    """
    if len(content) > LARGEST:
        raise UnreadablePickleError(f"has {len(content):,} bytes, {LARGEST:,} is the most")
    try:
        value = _Reader(content).load()
    except UnreadablePickleError:
        raise
    except Exception as error:  # a broken one makes the reader stumble over anything
        raise UnreadablePickleError(f"is no pickle: {type(error).__name__}") from error
    _look(value, 0, [MOST_VALUES])
    return value


#: A key may be a tuple of so many values, and such tuples may be in it.
_KEY_VALUES: Final = 8
_KEY_DEPTH: Final = 2


def _look_at_keys(keys: Iterable[Any], depth: int = 0) -> None:
    """See that keys are found in no time: a tuple's parts are counted again at each repeat."""
    for key in keys:
        if isinstance(key, tuple):
            if len(key) > _KEY_VALUES or depth >= _KEY_DEPTH:
                raise UnreadablePickleError("has a key of more parts than keys have")
            _look_at_keys(key, depth + 1)


def _guarded(opcode: bytes, keys: slice) -> tuple[int, Callable[[Any], None]]:
    """An operation that looks for keys; before it does it looks at them, on the stack."""
    read = _DISPATCH[opcode[0]]

    def look_first(reader: Any) -> None:
        _look_at_keys(reader.stack[keys])
        read(reader)

    return opcode[0], look_first


_DISPATCH: Final[Mapping[int, Callable[[Any], None]]] = pickle._Unpickler.dispatch  # noqa: SLF001  as below
_GUARDED: Final = dict(
    (
        _guarded(pickle.SETITEM, slice(-2, -1)),
        _guarded(pickle.SETITEMS, slice(0, None, 2)),
        _guarded(pickle.DICT, slice(0, None, 2)),
        _guarded(pickle.ADDITEMS, slice(None)),
        _guarded(pickle.FROZENSET, slice(None)),
    )
)


class _Reader(pickle._Unpickler):  # noqa: SLF001  the one in Python, see above
    """A reader that finds nothing that could do anything."""

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="utf-8", errors="surrogateescape")

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {**_DISPATCH, **_GUARDED}

    def find_class(self, module: str, name: str) -> Any:
        """The few plain kinds. A function is made anew each time: a pickle could change it."""
        if (module, name) == ("_codecs", "encode"):
            return _encoder()
        if name == "bytes" and module in {"builtins", "__builtin__"}:
            return _no_bytes()
        if name in _SETS and module in {"builtins", "__builtin__"}:
            return _set_maker(_SETS[name])
        raise UnreadablePickleError(f"asks for {module}.{name}, which is not plain data")

    def persistent_load(self, pid: Any) -> Any:  # noqa: ARG002  the base class's signature
        """There is nothing beside the pickle."""
        raise UnreadablePickleError("asks for something beside itself")

    def get_extension(self, code: int) -> Any:
        """Nor is there a registry of names."""
        raise UnreadablePickleError(f"asks for extension {code}")


def _encoder() -> Callable[..., bytes]:
    """What old pickles of Python 3 write bytes by."""

    def encode(text: str, encoding: str = "latin1") -> bytes:
        if encoding not in {"latin1", "latin-1"}:
            raise UnreadablePickleError(f"asks for the encoding {encoding!r}")
        return text.encode("latin-1")

    return encode


def _no_bytes() -> Callable[[], bytes]:
    """What they write empty ones by. With an argument it would be memory of any size."""
    return lambda: b""


_SETS: Final[Mapping[str, Callable[[Iterable[Any]], Any]]] = {"set": set, "frozenset": frozenset}


def _set_maker(kind: Callable[[Iterable[Any]], Any]) -> Callable[..., Any]:
    """What they write sets by."""

    def make(members: Iterable[Any] = ()) -> Any:
        _look_at_keys(members)
        return kind(members)

    return make


def _look(value: Any, depth: int, left: list[int]) -> None:
    """See that the value is plain, and no more of it than can be written out."""
    left[0] -= 1
    if left[0] < 0 or depth > _DEEPEST:
        raise UnreadablePickleError("holds more values, or deeper ones, than a request has")
    if value is None or isinstance(value, str | bytes | bool | float):
        return
    if isinstance(value, int):
        if value.bit_length() > _DEEPEST * 64:
            raise UnreadablePickleError("holds a number of thousands of digits")
    elif type(value) in {list, tuple, set, frozenset}:
        for each in value:
            _look(each, depth + 1, left)
    elif type(value) is dict:
        for key, each in value.items():
            _look(key, depth + 1, left)
            _look(each, depth + 1, left)
    else:
        raise UnreadablePickleError(f"holds a {type(value).__name__}, which is not plain data")
