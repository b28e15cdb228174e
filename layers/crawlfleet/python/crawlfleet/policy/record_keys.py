"""What tells one record from another over all pages: its key (SPEC.md B9)."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

#: 160 bits: two of a thousand million records share a key with a chance below 10^-30. Its 40 hex
#: digits tell it from every id of a request, too.
KEY_BYTES: Final = 20

_encode: Final = msgspec.json.Encoder(order="sorted").encode


def key_of(
    tenant: str, biz: str, rule: str, fields: Sequence[str], record: Mapping[str, Any]
) -> str | None:
    """The key that a record in normal form has by its key ``fields``, in hex.

    None if one of them is missing: not there, null, or an empty text, list or mapping, as nothing
    is told from anything by that.

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
    """The key that whoever made a record gave it as a text of their own."""
    return _digest(tenant, biz, rule, {"text": text})


def key_of_content(tenant: str, biz: str, rule: str, owner: str, record: Mapping[str, Any]) -> str:
    """The key of a record that nothing else tells from others: by its owner and all it has.

    ``owner`` is the request that it came of, or the URL where there was none. So the same record,
    delivered twice, is stored once.
    """
    return _digest(tenant, biz, rule, {"of": owner, "fields": record})


def _digest(tenant: str, biz: str, rule: str, what: object) -> str:
    content = _encode([tenant, biz, rule, what])
    return blake2b(content, digest_size=KEY_BYTES).hexdigest()
