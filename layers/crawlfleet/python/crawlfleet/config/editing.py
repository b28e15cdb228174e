"""Edit documents of the configuration, a whole one or a part of one, and tell what differs.

An address is a document's path with the names of the fields inside it behind it:
``bizs/acme/shop/rules/page`` is the rule ``page``, ``stage/pools/large`` a pool.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from crawlfleet.config.loading import shape_of
from crawlfleet.config.publishing import compact
from crawlfleet.kernel.errors import InvalidRequestError, NotFoundError, Problem

#: Fields inside one another that an address may name.
MOST_KEYS: Final = 8
_DEPTHS: Final = {"stage": 1, "tenants": 2, "bizs": 3}


class Address(msgspec.Struct, frozen=True):
    """The place of a document, or of what is inside it by ``keys``."""

    path: str
    keys: tuple[str, ...] = ()


class Edit(msgspec.Struct, frozen=True):
    """The content that is to stand at an address; None removes what is there."""

    address: Address
    content: Any


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A document that is ``added``, ``changed`` or ``removed``, and the lines that differ."""

    path: str
    change: str
    diff: str


def address_in(text: str, field: str) -> Address:
    """Read an address.

    >>> address_in("bizs/acme/shop/rules/page", "path")
    Address(path='bizs/acme/shop', keys=('rules', 'page'))

    Raises:
        InvalidRequestError: no document is there, or it is too deep.
    """
    kind, *rest = text.split("/")
    depth = _DEPTHS.get(kind, 0) - 1
    path, keys = "/".join((kind, *rest[:depth])), tuple(rest[depth:]) if depth >= 0 else ()
    if depth < 0 or shape_of(path) is None:
        said = "is no document's: it is stage, tenants/TENANT or bizs/TENANT/BIZ, and fields of it"
        raise InvalidRequestError.of(field, f"{text[:100]!r} {said}")
    if len(keys) > MOST_KEYS or not all(keys):
        raise InvalidRequestError.of(field, f"{text[:100]!r} names no field")
    return Address(path, keys)


def content_at(documents: Mapping[str, str], address: Address) -> Any:
    """Return what stands at an address.

    Raises:
        NotFoundError: nothing does.
    """
    place = "/".join((address.path, *address.keys))[:200]
    text = documents.get(address.path)
    found = None if text is None else _decoded(text)
    for key in address.keys:
        found = found.get(key) if isinstance(found, dict) else None
    if found is None:
        raise NotFoundError(f"the configuration has nothing at {place!r}")
    return found


def edited(standing: Mapping[str, str], edits: Sequence[Edit]) -> dict[str, str]:
    """Return the documents with the edits made, one after the other.

    Raises:
        InvalidRequestError: an edit is inside of what is not there.
    """
    wanted, problems = dict(standing), []
    for number, edit in enumerate(edits):
        path, keys = edit.address.path, edit.address.keys
        if not keys:
            if edit.content is None:
                wanted.pop(path, None)
            else:
                wanted[path] = _encoded(edit.content)
            continue
        whole = _decoded(wanted[path]) if path in wanted else None
        if not _set(whole, keys, edit.content):
            said = f"{path} has nothing that {'/'.join(keys)[:200]!r} could be inside of"
            problems.append(Problem(f"changes[{number}].path", said))
        else:
            wanted[path] = _encoded(whole)
    if problems:
        raise InvalidRequestError(problems)
    return wanted


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Difference]:
    """Tell document by document what differs, as lines of JSON.

    >>> [(one.path, one.change) for one in differences({"stage": "{}"}, {"tenants/a": "{}"})]
    [('stage', 'removed'), ('tenants/a', 'added')]
    """
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old is not None and new is not None and compact(old) == compact(new):
            continue
        change = "added" if old is None else "removed" if new is None else "changed"
        lines = difflib.unified_diff(_lines(old), _lines(new), "before", "after", lineterm="", n=2)
        yield Difference(path=path, change=change, diff="\n".join(lines))


def _set(whole: Any, keys: Sequence[str], content: Any) -> bool:
    """Set what stands at keys inside an object; an object that holds the last may be missing."""
    for depth, key in enumerate(keys[:-1]):
        if not isinstance(whole, dict):
            return False
        if key not in whole and depth == len(keys) - 2 and content is not None:
            whole[key] = {}
        whole = whole.get(key)
    if not isinstance(whole, dict):
        return False
    if content is None:
        return whole.pop(keys[-1], None) is not None
    whole[keys[-1]] = content
    return True


def _lines(text: str | None) -> list[str]:
    if text is None:
        return []
    try:
        return msgspec.json.format(text, indent=2).splitlines()
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return text.splitlines()


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def _encoded(content: Any) -> str:
    return msgspec.json.encode(content).decode()
