"""How items travel through the data queue: a JSON object each (SPEC.md B9).

::

    {"rule": "product", "url": "https://shop.example/1", "fields": {"sku": "A-1", "price": 9.5}}

``key`` and ``request`` may be beside these (model.harvest.Item). Whoever puts items uses
:func:`wire_of`; the data processor reads them with :func:`item_of`. The id of an item says when it
was put, by the clock of the queue's server: what was put later is newer, whatever becomes of the
workers that either was handed to.
"""

from collections.abc import Sequence
from typing import Final
from uuid import uuid4

import msgspec

from crawlfleet.errors import BacklogFullError, InvalidRequestError, Problem
from crawlfleet.model.harvest import Item
from crawlfleet.policy.normal_form import normal_form

#: The largest item, in bytes.
LARGEST_ITEM: Final = 1_000_000
#: What all items of a lane may have, in bytes: Redis holds them in memory.
LANE_BYTES: Final = 64_000_000
#: What one lease may have, in bytes, so that its answer comes in time.
LEASE_BYTES: Final = 8_000_000
#: When a lane that is full may have room again.
FULL_SECONDS: Final = 5.0
#: Those of an epoch ns, till the year 2286.
_PUT_DIGITS: Final = 19

_encode: Final = msgspec.json.Encoder().encode
_decoder: Final = msgspec.json.Decoder(Item)


def wire_of(item: Item) -> bytes:
    """The item as it travels, its fields in normal form.

    >>> wire_of(Item(rule="product", url="https://a.example/", fields={"n": float("inf")}))
    b'{"rule":"product","url":"https://a.example/","fields":{"n":null}}'

    Raises:
        InvalidRequestError: names what of it cannot be sent.
    """
    plain = msgspec.structs.replace(item, fields=normal_form(item.fields))
    try:
        wire = _encode(plain)
        # The types above are not looked at when an item is made.
        _decoder.decode(wire)
    except (msgspec.ValidationError, UnicodeEncodeError, TypeError) as error:
        raise InvalidRequestError.of("item", str(error)[:200]) from error
    return wire


def item_of(wire: bytes) -> Item:
    """The item in what was queued.

    Raises:
        InvalidRequestError: it is none.
    """
    try:
        return _decoder.decode(wire)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"is no item: {str(error)[:200]}"
        raise InvalidRequestError.of("item", message) from error


def item_ids(put_us: int, count: int) -> list[str]:
    """Ids of items that are put together at an epoch us; each is newer than those before it.

    >>> [id_.partition("-")[0] for id_ in item_ids(1767225600000000, 2)]
    ['1767225600000000000', '1767225600000000001']
    """
    first = put_us * 1_000
    return [f"{put:019d}-{uuid4().hex}" for put in range(first, first + count)]


def put_of(item_id: str) -> int | None:
    """When the item was put, in epoch ns; None if its id is from before ids told that.

    >>> put_of("1767225600000000001-6f0c")
    1767225600000000001
    >>> put_of("6f0c2d3e4a5b46c78d9e0f1a2b3c4d5e") is None
    True
    """
    put, dash, _ = item_id.partition("-")
    return int(put) if dash and len(put) == _PUT_DIGITS and put.isdecimal() else None


def refuse_large(items: Sequence[bytes]) -> None:
    """Look at the sizes of items that are to be queued.

    Raises:
        InvalidRequestError: names those that are too large.
    """
    problems = [
        Problem(f"items[{place}]", f"has {len(item):,} bytes; {LARGEST_ITEM:,} are allowed")
        for place, item in enumerate(items)
        if len(item) > LARGEST_ITEM
    ]
    if problems:
        raise InvalidRequestError(problems)


def no_room(biz: str, count: int) -> BacklogFullError:
    """The lane has as many bytes of items as it may."""
    message = f"the data queue of {biz} has no room for {count} items more"
    return BacklogFullError(message, retry_after_seconds=FULL_SECONDS)
