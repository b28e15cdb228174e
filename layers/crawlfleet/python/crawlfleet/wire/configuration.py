"""The configuration: documents, changes of them, and the versions that were in force."""

from datetime import datetime
from typing import Any

import msgspec

from crawlfleet.wire import Page


class ConfigDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document of the configuration, such as ``bizs/acme/shop``."""

    path: str
    bytes: int = 0


class ConfigDocumentsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The documents of a revision that whoever asks may read."""

    revision: str
    documents: tuple[ConfigDocument, ...] = ()


class ConfigContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content at a path at some revision: a document, or a part of one such as a rule."""

    path: str
    revision: str
    content: Any = None


class ConfigVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version of the configuration: who put it in force and why, and what it changed.

    ``by`` is the tenant whose key it was, nobody where it was pushed past the API. ``paths`` are
    the first of its ``changes``. What others did and why is shown to operators alone.
    """

    revision: str
    at: datetime
    by: str | None = None
    key: str | None = None
    why: str = ""
    rolled_back_to: str | None = None
    changes: int = 0
    paths: tuple[str, ...] = ()


class ConfigVersionsPage(Page, frozen=True):
    """A page of versions, the newest first."""

    versions: tuple[ConfigVersion, ...]


class ConfigDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A document that is ``added``, ``changed`` or ``removed``, and its lines that differ."""

    path: str
    change: str
    diff: str = ""


class ConfigDifferencesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The differences from one version to another; ``cut`` says that there are more."""

    before: str
    after: str
    differences: tuple[ConfigDifference, ...] = ()
    cut: bool = False


class TouchedBiz(msgspec.Struct, frozen=True, kw_only=True):
    """The open work of a biz whose document changes; up to 1,000 subscriptions are counted."""

    tenant: str
    biz: str
    requests: int = 0
    jobs: int = 0
    schedules: int = 0
    subscriptions: int = 0


class ConfigChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the configuration: made, or with ``written`` false none, and what it means.

    ``revision`` is the one that stands now. ``touched`` are the first of the ``bizs`` that change.
    It is in force within seconds, ``in_force_seconds`` at most.
    """

    revision: str
    written: bool = False
    differences: tuple[ConfigDifference, ...] = ()
    cut: bool = False
    bizs: int = 0
    touched: tuple[TouchedBiz, ...] = ()
    in_force_seconds: int = 0
