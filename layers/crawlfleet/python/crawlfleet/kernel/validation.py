"""Find all validation errors of a document at once, each with its field path (SPEC.md A3).

msgspec stops at the first error, and its message names a place by counting (``$.rules[...]``). Here
the document is decoded whole first, which is all that a right one costs. Only a wrong one is
walked: a part that does not convert is taken apart until the parts do, so that what is left over is
exactly what is wrong, and where. At the end the names and numbers that documents are made of.
"""

import difflib
import re
import types
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from crawlfleet.kernel.errors import Problem


class Words(NamedTuple):
    """Beside a pattern in ``Annotated``: what is expected, as it goes on from "expected"."""

    text: str


T = TypeVar("T")

#: Longest value that a message quotes.
_QUOTED_CHARACTERS: Final = 60
#: Most fields that a message names.
_NAMED: Final = 16
#: Below these fields a value may be a credential; messages never quote it.
_UNQUOTED: Final = frozenset({"headers"})

#: The decoder's names of what JSON has, and how it writes them in a message.
_KINDS: Final = {
    "object": "an object",
    "array": "a list",
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
}
_KIND: Final = re.compile(r"`([a-z]+(?: \| [a-z]+)*)`")
_PATTERN: Final = " matching regex "

#: What the decoder raises for text that is no JSON at all.
_UNREADABLE: Final = (msgspec.DecodeError, RecursionError, UnicodeError)


def decode(content: str | bytes, shape: type[T]) -> tuple[T | None, tuple[Problem, ...]]:
    """Decode a document as ``shape``, or return None and all its errors, by paths from its root.

    >>> from crawlfleet.config.documents.biz import Tenant
    >>> unknown, wrong = decode('{"api_keys": ["k", 5], "quota": 1}', Tenant)[1]
    >>> unknown.field, wrong
    ('quota', Problem(field='api_keys[1]', message='expected a text, got a whole number (5)'))
    """
    try:
        return msgspec.json.decode(content, type=shape, strict=True), ()
    except msgspec.ValidationError as error:
        whole = str(error)
    except _UNREADABLE as error:
        return None, (_unreadable(error),)
    try:
        value = msgspec.json.decode(content)
    except _UNREADABLE as error:
        return None, (_unreadable(error),)
    try:
        found = tuple(_walk(value, shape, ""))
    except RecursionError as error:  # Python's stack ends before the decoder's
        return None, (_unreadable(error),)
    # Two decoders of one library; should they ever disagree, the first one's word stands.
    return None, found or (Problem("", _lowered(whole)),)


def _unreadable(error: Exception) -> Problem:
    if isinstance(error, RecursionError):
        return Problem("", "is nested too deeply")
    return Problem("", "is no UTF-8" if isinstance(error, UnicodeError) else _lowered(str(error)))


def right_fields(content: str | bytes, shape: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the right fields of a wrong document, mappings without their wrong entries.

    For those who check what the types cannot say, so that one error does not hide another.

    >>> from crawlfleet.config.documents.biz import Tenant
    >>> right_fields('{"api_keys": ["k"], "description": 5}', Tenant)
    {'api_keys': ('k',)}
    """
    try:
        value = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return {}
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(shape):
        if not isinstance(value, dict) or field.encode_name not in value:
            continue
        given = value[field.encode_name]
        bare = _bare(field.type, given)
        if isinstance(given, dict) and get_origin(bare) is dict:
            given = {key: item for key, item in given.items() if is_right({key: item}, bare)}
        if is_right(given, field.type):
            found[field.name] = msgspec.convert(given, field.type)
    return found


def is_right(value: object, shape: Any) -> bool:
    """Tell whether a value that JSON has converts to ``shape``."""
    try:
        msgspec.convert(value, shape, strict=True)
    except (msgspec.ValidationError, RecursionError):
        return False
    return True


def join(path: str, name: str) -> str:
    """Return the path of a field below another one.

    >>> join("rules", "detail"), join("", "rules"), join("headers", "X Y")
    ('rules.detail', 'rules', 'headers["X Y"]')
    """
    if not name or not all(character.isalnum() or character in "_-" for character in name):
        return f"{path}[{msgspec.json.encode(name[:_QUOTED_CHARACTERS]).decode()}]"
    return f"{path}.{name}" if path else name


def named(fields: Iterable[str], like: str) -> str:
    """List fields, so many as one reads; those that ``like`` may have meant are first.

    >>> named(["url", "rule", "meta"], "rul")
    'rule, url, meta'
    """
    there = list(fields)
    meant = difflib.get_close_matches(like[:_QUOTED_CHARACTERS], there, n=2)
    first = [*meant, *(name for name in there if name not in meant)]
    more = len(first) - _NAMED
    return ", ".join(first[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _walk(value: object, shape: Any, path: str) -> Iterator[Problem]:
    """Yield the errors of ``value``, if it is no ``shape``."""
    try:
        msgspec.convert(value, shape, strict=True)
    except msgspec.ValidationError as error:
        inside = list(_inside(value, _bare(shape, value), path, _words_beside(shape)))
        # Where its parts are right it is the thing itself.
        yield from inside or [Problem(path, _message(error, value, path, shape))]


def _words_beside(shape: Any) -> tuple[str, ...]:
    """Return the words that may stand in the place of an object of a union."""
    return tuple(_members(shape)) if _struct_in(shape) is not None else ()


def _struct_in(shape: Any) -> type[msgspec.Struct] | None:
    """Return the object that a union takes, beside other things."""
    while get_origin(shape) is Annotated:
        shape = get_args(shape)[0]
    options = get_args(shape) if get_origin(shape) in (Union, types.UnionType) else ()
    structs = (each for each in options if isinstance(each, type))
    return next((each for each in structs if issubclass(each, msgspec.Struct)), None)


def _inside(value: object, shape: Any, path: str, words: tuple[str, ...] = ()) -> Iterator[Problem]:
    """Yield the errors of the parts of ``value``, when it is a container of the wanted kind.

    ``words`` may stand in the place of an object.
    """
    if isinstance(value, dict) and isinstance(shape, type) and issubclass(shape, msgspec.Struct):
        yield from _inside_struct(value, shape, path, words)
    elif isinstance(value, dict) and get_origin(shape) is dict:
        key_shape, value_shape = get_args(shape)
        for key, item in value.items():
            try:
                msgspec.convert(key, key_shape)
            except msgspec.ValidationError as error:
                yield Problem(join(path, key), f"name: {_message(error, key, path, key_shape)}")
            yield from _walk(item, value_shape, join(path, key))
    elif isinstance(value, list) and get_origin(shape) in (tuple, list):
        item_shape = get_args(shape)[0]
        for index, item in enumerate(value):
            yield from _walk(item, item_shape, f"{path}[{index}]")


def _inside_struct(
    value: dict[str, object],
    shape: type[msgspec.Struct],
    path: str,
    words: tuple[str, ...],
) -> Iterator[Problem]:
    fields = {field.encode_name: field for field in msgspec.structs.fields(shape)}
    for key in value:
        if key not in fields:
            message = f"is no field of this document; it has {named(fields, key)}"
            message += f"; words by themselves are {', '.join(words)}" if words else ""
            yield Problem(join(path, key), message)
    for name, field in fields.items():
        if name in value:
            yield from _walk(value[name], field.type, join(path, name))
        elif field.required:
            yield Problem(join(path, name), "is missing")


def _bare(shape: Any, value: object) -> Any:
    """Return the shape without constraints; of alternatives what ``value`` seems to mean."""
    while get_origin(shape) is Annotated:
        shape = get_args(shape)[0]
    if get_origin(shape) in (Union, types.UnionType):
        for option in get_args(shape):
            bare = _bare(option, value)
            is_struct = isinstance(bare, type) and hasattr(bare, "__struct_fields__")
            if is_struct and isinstance(value, dict):
                return bare
    return shape


def _message(error: Exception, value: object, path: str, shape: Any = None) -> str:
    text = _lowered(str(error).partition(" - at `")[0])
    if text.startswith("invalid enum value"):
        text = "is none of " + ", ".join(_members(shape))
        if (struct := _struct_in(shape)) is not None:
            fields = ", ".join(field.encode_name for field in msgspec.structs.fields(struct))
            text += f", nor an object of {fields}"
    elif _PATTERN in text and (words := _words(shape)) is not None:
        text = f"expected {words}"
    else:
        text = _KIND.sub(lambda kinds: _kinds(kinds[1]), text)
    last = path.replace("[", ".").split(".")
    if isinstance(value, str | int | float | None) and not _UNQUOTED.intersection(last):
        quoted = msgspec.json.encode(value).decode()
        more = "..." if len(quoted) > _QUOTED_CHARACTERS else ""
        text += f" ({quoted[:_QUOTED_CHARACTERS]}{more})"
    return text


def _kinds(names: str) -> str:
    """Name kinds, which the decoder calls ``object | null``, as people do."""
    return " or ".join(_KINDS.get(name, f"`{name}`") for name in names.split(" | "))


def _words(shape: Any) -> str | None:
    """Return the words of a pattern somewhere in the shape."""
    for part in getattr(shape, "__metadata__", ()):
        if isinstance(part, Words):
            return part.text
    return next((words for part in get_args(shape) if (words := _words(part))), None)


def _members(shape: Any) -> Iterator[str]:
    """Yield the members of an enumeration somewhere in the shape."""
    if isinstance(shape, type) and issubclass(shape, Enum):
        yield from (str(member.value) for member in shape)
    if get_origin(shape) is Literal:
        yield from map(str, get_args(shape))
    for part in get_args(shape):
        yield from _members(part)


def _lowered(text: str) -> str:
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


#: Tenants, bizs, nodes, schedules. No underscore: it separates them in database names.
Slug = Annotated[
    str,
    Meta(pattern=r"^[a-z][a-z0-9-]{0,31}\Z"),
    Words("up to 32 of a-z, 0-9 and -, a letter first"),
]
#: Collections and queues.
StoreName = Annotated[
    str,
    Meta(pattern=r"^[a-z][a-z0-9_-]{0,31}\Z"),
    Words("up to 32 of a-z, 0-9, _ and -, a letter first"),
]
#: Short enough that ``cf_{tenant}_{database}`` stays below MongoDB's 64 bytes.
DatabaseName = Annotated[
    str,
    Meta(pattern=r"^[a-z][a-z0-9_-]{0,23}\Z"),
    Words("up to 24 of a-z, 0-9, _ and -, a letter first"),
]
#: Rules and spiders.
RuleName = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z"),
    Words("up to 64 letters, digits, _, . and -, a letter or a digit first"),
]
#: A host as it stands in a URL: lower case, no port; an IPv6 address in brackets.
HostName = Annotated[
    str,
    Meta(pattern=r"^(?:[a-z0-9._-]{1,253}|\[[0-9a-f:.]{2,45}\])\Z"),
    Words("a host in lower case without a port, such as shop.example"),
]
#: An address below which something is asked for; who asks has no name and no password.
WebAddress = Annotated[
    str,
    Meta(pattern=r"^https?://[^\s@/?#]{1,253}(?:/[^\s?#]{0,200})?\Z"),
    Words("an http or https address without a user, such as http://collector:4318"),
]
#: An address with a place for the id of a trace.
TraceAddress = Annotated[
    str,
    Meta(pattern=r"^https?://[^\s@]{0,400}\{trace\}[^\s@]{0,100}\Z"),
    Words("an http or https address with {trace} in it"),
]
Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]


class Document(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The base of config documents and their parts: unknown keys are errors."""
