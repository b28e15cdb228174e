"""How items travel through the data queue: a JSON object each (SPEC.md B9).

::

    {"rule": "product", "url": "https://shop.example/1", "fields": {"sku": "A-1", "price": 9.5}}

``key`` and ``request`` may be beside these (model.harvest.Item). Whoever puts items uses
:func:`wire_of`; the data processor reads them with :func:`item_of`.
"""

from typing import Final

import msgspec

from crawlfleet.errors import InvalidRequestError
from crawlfleet.model.harvest import Item
from crawlfleet.policy.normal_form import normal_form

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
