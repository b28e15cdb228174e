"""A spider: an executor and its configuration (SPEC.md B7, B8)."""

from hashlib import blake2b
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from crawlfleet.model.document import Document
from crawlfleet.model.schema import RecordSchema
from crawlfleet.model.words import Words


class Spider(Document, frozen=True, kw_only=True):
    """What reads a page where a rule does not.

    ``executor`` is a name of the registry (crawlfleet.executors), ``parameters`` match the ones it
    declares one to one. ``key`` and ``schema`` are as in a rule.
    """

    executor: Annotated[
        str,
        Meta(pattern=r"^[a-z][a-z0-9_]{0,63}\Z"),
        Words("up to 64 of a-z, 0-9 and _, a letter first"),
    ]
    parameters: dict[str, Any] = {}
    key: Annotated[tuple[str, ...], Meta(max_length=16)] = ()
    schema: RecordSchema | None = None
    description: str = ""

    @property
    def version(self) -> str:
        """Twelve hex digits that differ for every different spider (the description aside)."""
        content = msgspec.json.encode(msgspec.structs.replace(self, description=""), order="sorted")
        return blake2b(content, digest_size=6).hexdigest()
