"""Bounds of the configuration's history in the stage document (SPEC.md A3)."""

from typing import Annotated

from msgspec import Meta

from crawlfleet.kernel.validation import Document


class HistoryTerms(Document, frozen=True, kw_only=True):
    """The history of the configuration: the latest ``versions``, and none older than ``days``.

    The version in force is always kept.
    """

    versions: Annotated[int, Meta(ge=2, le=10_000)] = 1_000
    days: Annotated[int, Meta(ge=1, le=3_650)] = 400
