"""Whether two configurations say the same (SPEC.md A3, D11), told by a few characters."""

from hashlib import sha256
from typing import Final

import msgspec

from crawlfleet.model.biz import Tree

#: Characters of a digest: 48 bits, for telling apart, not for keeping out.
_LENGTH: Final = 12
_encode = msgspec.json.Encoder(order="deterministic").encode


def digest_of(tree: Tree) -> str:
    """A digest of all documents in force, whatever their revision is called.

    Defaults are part of it: another version of the code may come to another one.
    """
    return sha256(_encode((tree.stage, tree.tenants, tree.bizs))).hexdigest()[:_LENGTH]
