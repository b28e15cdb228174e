"""Normalise records, write items of the data queue, and make keys of records (SPEC.md B9).

The one form that every store takes a record's fields in:

===================================  =============================================================
what comes                           what is stored
===================================  =============================================================
text that is no Unicode              halves of surrogate pairs are joined; one alone is U+FFFD
an integer beyond 64 bits            its digits as text: a float would lose some of them
NaN, infinity                        null, as JSON has neither
a date or a time                     ISO 8601, a decimal number or a UUID as text
a name that is no text               as text; NUL, which MongoDB takes in no name, is U+FFFD
a name with ``$`` or ``.``           as it is: MongoDB 5 and later keep both below the top level
any other kind of value              refused, and so is what is nested or as large as below
===================================  =============================================================

NUL in a text is kept: MongoDB and JSON hold it. An item is a JSON object::

    {"rule": "product", "url": "https://shop.example/1", "fields": {"sku": "A-1", "price": 9.5}}

``key`` and ``request`` may be beside these (requests.models.Item). Its id says when it was put, by
the clock of the queue's server: what was put later is newer, whichever worker had it.
"""

from collections.abc import Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from hashlib import blake2b
from math import isfinite
from typing import Any, Final
from uuid import UUID, uuid4

import msgspec

from crawlfleet.kernel.errors import BacklogFullError, InvalidRequestError, Problem
from crawlfleet.requests.models import KEY_BYTES, Item

#: The largest record, in bytes of UTF-8 and :data:`VALUE_BYTES` for each value. A quarter of what
#: MongoDB takes of one document, and what the API can still give in one answer.
LARGEST_BYTES: Final = 4_000_000
#: What a value takes at least: more than its type, its place in a list and a number do in BSON.
VALUE_BYTES: Final = 20
#: Texts about rejected records that are kept of one page, and how long each may be.
MOST_REPORTED: Final = 10
LONGEST_REPORTED: Final = 300
DEEPEST: Final = 64  #: How deep lists and mappings may be nested; MongoDB takes about 100 levels.

_INT64: Final = 2**63
#: About 3,000 digits; Python itself refuses to write out more than 4,300.
_MOST_BITS: Final = 10_000
_LONGEST_NAME: Final = 64


class Unfit(msgspec.Struct, frozen=True, array_like=True):
    """Stand for a record that could not be normalised where it was read; says why."""

    problems: tuple[Problem, ...]


def normalised(fields: Mapping[Any, Any] | Unfit) -> dict[str, Any]:
    """Normalise fields to what is stored; normalised ones stay as they are.

    >>> normalised({"n": float("nan"), "big": 2**64, "of": ("a", None)})
    {'n': None, 'big': '18446744073709551616', 'of': ['a', None]}

    Raises InvalidRequestError: names the field that no store can take.
    """
    if isinstance(fields, Unfit):
        raise InvalidRequestError(fields.problems)
    form = _Form()
    try:
        return form.mapping(fields, 1)
    except _MisfitError as misfit:
        raise InvalidRequestError.of(path_of(misfit.path[::-1]), misfit.message) from None


def path_of(path: list[str | int]) -> str:
    """Write a place in a record as people do; long names and long paths are cut.

    >>> path_of(["offers", 2, "price"])
    'offers[2].price'
    """
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = step[:_LONGEST_NAME].encode("utf-8", "replace").decode()
            text += f".{name}" if text else name
        if len(text) > 4 * _LONGEST_NAME:
            return text[: 4 * _LONGEST_NAME] + "..."
    return text


class _MisfitError(Exception):
    """A value that no store takes; ``path`` is where, innermost first."""

    def __init__(self, message: str) -> None:
        self.message = message
        self.path: list[str | int] = []


class _Form:
    """The normaliser of a record; ``left`` is how many bytes it may still take."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = LARGEST_BYTES

    def mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        if depth > DEEPEST:
            raise _MisfitError(f"is nested more than {DEEPEST} levels deep")
        made: dict[str, Any] = {}
        for name, item in value.items():
            key = name
            if type(name) is not str or not name.isascii():
                key = self._text(name if isinstance(name, str) else str(name))
            else:
                self.left -= len(name)
            if "\0" in key:
                key = key.replace("\0", "\ufffd")
            try:
                made[key] = self._value(item, depth)
            except _MisfitError as misfit:
                misfit.path.append(key)
                raise
        return made

    def _several(self, values: Any, depth: int) -> list[Any]:
        if depth > DEEPEST:
            raise _MisfitError(f"is nested more than {DEEPEST} levels deep")
        made: list[Any] = []
        for item in values:
            try:
                made.append(self._value(item, depth))
            except _MisfitError as misfit:
                misfit.path.append(len(made))
                raise
        return made

    def _value(self, value: Any, depth: int) -> Any:
        self.left -= VALUE_BYTES
        if self.left < 0:
            raise _too_large()
        # The commonest first: this is done for every value of every record.
        kind = type(value)
        if kind is str and value.isascii():
            self.left -= len(value)
            if self.left < 0:
                raise _too_large()
            return value
        if isinstance(value, str):
            return self._text(value)
        if kind is dict:
            return self.mapping(value, depth + 1)
        if value is None or kind is bool:
            return value
        if isinstance(value, int):
            return self._integer(int(value))
        if isinstance(value, float):
            return float(value) if isfinite(value) else None
        if isinstance(value, Mapping):
            return self.mapping(value, depth + 1)
        if isinstance(value, list | tuple):
            return self._several(value, depth + 1)
        return self._text(_reported(value))

    def _text(self, value: str) -> str:
        if type(value) is not str:  # such as a parser's own class, which holds on to its document
            value = str.__str__(value)
            value = "".join(value) if type(value) is not str else value
        if value.isascii():
            self.left -= len(value)
        else:
            try:
                self.left -= len(value.encode())
            except UnicodeEncodeError:
                value = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
                self.left -= len(value.encode())
        if self.left < 0:
            raise _too_large()
        return value

    def _integer(self, value: int) -> int | str:
        if -_INT64 <= value < _INT64:
            return value
        if value.bit_length() > _MOST_BITS:
            raise _MisfitError("is a number of thousands of digits")
        return self._text(str(value))


def _reported(value: object) -> str:
    """Write what JSON has no kind of its own for."""
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    raise _MisfitError(f"is a {type(value).__name__}, which no record can hold")


def _too_large() -> _MisfitError:
    return _MisfitError(f"makes the record larger than {LARGEST_BYTES:,} bytes")


LARGEST_ITEM: Final = 1_000_000  #: The largest item, in bytes.
QUEUE_BYTES: Final = 64_000_000  #: Bytes of all items of a queue key: Redis holds them in memory.
LEASE_BYTES: Final = 8_000_000  #: Bytes of one lease, so that its answer comes in time.
FULL_SECONDS: Final = 5.0  #: When a full queue key may have room again.
_PUT_DIGITS: Final = 19  #: Those of an epoch ns, till the year 2286.

_encode: Final = msgspec.json.Encoder().encode
_decoder: Final = msgspec.json.Decoder(Item)


def wire_of(item: Item) -> bytes:
    """Encode an item, its fields normalised.

    >>> wire_of(Item(rule="product", url="https://a.example/", fields={"n": float("inf")}))
    b'{"rule":"product","url":"https://a.example/","fields":{"n":null}}'

    Raises InvalidRequestError: names what of it cannot be sent.
    """
    plain = msgspec.structs.replace(item, fields=normalised(item.fields))
    try:
        wire = _encode(plain)
        # The types above are not checked when an item is made.
        _decoder.decode(wire)
    except (msgspec.ValidationError, UnicodeEncodeError, TypeError) as error:
        raise InvalidRequestError.of("item", str(error)[:200]) from error
    return wire


def item_of(wire: bytes) -> Item:
    """Decode what was queued; raises InvalidRequestError where it is no item."""
    try:
        return _decoder.decode(wire)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"is no item: {str(error)[:200]}"
        raise InvalidRequestError.of("item", message) from error


def item_ids(put_us: int, count: int) -> list[str]:
    """Make ids of items that are put together at an epoch us; each is newer than those before it.

    >>> [id_.partition("-")[0] for id_ in item_ids(1767225600000000, 2)]
    ['1767225600000000000', '1767225600000000001']
    """
    first = put_us * 1_000
    return [f"{put:019d}-{uuid4().hex}" for put in range(first, first + count)]


def put_of(item_id: str) -> int | None:
    """Return when the item was put, in epoch ns; None if its id is from before ids said so.

    >>> put_of("1767225600000000001-6f0c")
    1767225600000000001
    >>> put_of("6f0c2d3e4a5b46c78d9e0f1a2b3c4d5e") is None
    True
    """
    put, dash, _ = item_id.partition("-")
    return int(put) if dash and len(put) == _PUT_DIGITS and put.isdecimal() else None


def refuse_large(items: Sequence[bytes]) -> None:
    """Refuse items that are too large to be queued, by InvalidRequestError with their places."""
    problems = [
        Problem(f"items[{place}]", f"has {len(item):,} bytes; {LARGEST_ITEM:,} are allowed")
        for place, item in enumerate(items)
        if len(item) > LARGEST_ITEM
    ]
    if problems:
        raise InvalidRequestError(problems)


def no_room(biz: str, count: int) -> BacklogFullError:
    """Make the error of a queue key that has as many bytes of items as it may."""
    message = f"the data queue of {biz} has no room for {count} items more"
    return BacklogFullError(message, retry_after_seconds=FULL_SECONDS)


_canonical: Final = msgspec.json.Encoder(order="sorted").encode


def key_of(
    tenant: str, biz: str, rule: str, fields: Sequence[str], record: Mapping[str, Any]
) -> str | None:
    """Make the key of a normalised record by its key ``fields``, in hex.

    None if one of them is missing: not there, null, or an empty text, list or mapping, as that
    distinguishes nothing.

    >>> key_of("acme", "shop", "detail", ("sku",), {"sku": "A-1", "price": 9})
    'e3f16de03b236354edecbe4f1f65ff31c2fc92ab'
    >>> key_of("acme", "shop", "detail", ("sku",), {"sku": ""}) is None
    True
    """
    values = [record.get(field) for field in fields]
    if any(value is None or value in ("", [], {}) for value in values):
        return None
    return _digest(tenant, biz, rule, values)


def key_of_text(tenant: str, biz: str, rule: str, text: str) -> str:
    """Make the key of a record that came with a text as its key."""
    return _digest(tenant, biz, rule, {"text": text})


def key_of_content(tenant: str, biz: str, rule: str, owner: str, record: Mapping[str, Any]) -> str:
    """Make the key of a record without any: by its owner and all it has.

    ``owner`` is the request that it came of, or the URL where there was none. So the same record,
    delivered twice, is stored once.
    """
    return _digest(tenant, biz, rule, {"of": owner, "fields": record})


def _digest(tenant: str, biz: str, rule: str, what: object) -> str:
    content = _canonical([tenant, biz, rule, what])
    return blake2b(content, digest_size=KEY_BYTES).hexdigest()
