"""The configuration in the API: read, try, change, and take back; a tenant sees its own alone."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any, Final

import msgspec
from aws_lambda_powertools.event_handler import Response
from msgspec import Meta

from crawlfleet.api.inputs import read
from crawlfleet.api.responses import filled, page_of, shown
from crawlfleet.api.routing import CURSOR, LIMIT, Call, Parameter, Routes
from crawlfleet.config.editing import Difference, Edit, address_in, content_at, differences, edited
from crawlfleet.config.loading import shape_of
from crawlfleet.config.lookup import operates
from crawlfleet.config.versions.models import Note, Version, owner_of
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.tenancy.configuration import Outcome, Wanted, restored
from crawlfleet.tenancy.service import IN_FORCE_SECONDS
from crawlfleet.wire.configuration import (
    ConfigChanged,
    ConfigContent,
    ConfigDifference,
    ConfigDifferencesAnswer,
    ConfigDocument,
    ConfigDocumentsAnswer,
    ConfigVersion,
    ConfigVersionsPage,
    TouchedBiz,
)

#: Edits of one call, and differences and their characters in an answer.
MOST_CHANGES: Final = 500
MOST_DIFFERENCES: Final = 500
MOST_SIGNS: Final = 2_000_000
Path = Annotated[str, Meta(min_length=1, max_length=500)]
Revision = Annotated[str, Meta(min_length=1, max_length=100)]
Why = Annotated[str, Meta(max_length=500)]


class ConfigEdit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content that is to stand at a path; null removes what is there."""

    path: Path
    content: dict[str, Any] | list[Any] | str | int | float | bool | None


class ConfigChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Edits, made one after the other or none, over the configuration at ``revision``.

    With ``dry_run`` all is checked, and told, and nothing written.
    """

    changes: Annotated[tuple[ConfigEdit, ...], Meta(min_length=1, max_length=MOST_CHANGES)]
    revision: Revision | None = None
    why: Why = ""
    dry_run: bool = False


class ConfigRollback(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The version to go back ``to``, or one document of it, from that at ``revision``."""

    to: Revision
    path: Path | None = None
    revision: Revision | None = None
    why: Why = ""
    dry_run: bool = False


ROUTES: Final = Routes()


def _revision(name: str, meaning: str) -> Parameter:
    shape: dict[str, object] = {"type": "string", "minLength": 1, "maxLength": 100}
    return Parameter(name=name, meaning=meaning, shape=shape)


def _path(meaning: str) -> Parameter:
    shape: dict[str, object] = {"type": "string", "minLength": 1, "maxLength": 500}
    return Parameter(name="path", meaning=meaning, shape=shape)


_DOCUMENT: Final = _path("Only what is of this document.")


@ROUTES.add("GET", "/v1/config/documents", ConfigDocumentsAnswer)
def list_config_documents(call: Call) -> Response[str]:
    """List the documents of the configuration: all to operators, its own ones to a tenant."""
    revision, documents = call.context.config.stored()
    own = _own(call, documents)
    listed = (ConfigDocument(path=path, bytes=len(text)) for path, text in sorted(own.items()))
    return shown(200, ConfigDocumentsAnswer(revision=revision, documents=tuple(listed)))


@ROUTES.add(
    "GET",
    "/v1/config/document",
    ConfigContent,
    problems=(404,),
    parameters=(
        _path("The document, or fields inside it: bizs/acme/shop/rules/page."),
        _revision("revision", "The version that it is of; without it, the newest."),
    ),
)
def get_config_document(call: Call) -> Response[str]:
    """Get a document of the configuration, or a part of one, as it stands or stood."""
    address = address_in(_needed(call, "path"), "path")
    revision = call.query.get("revision")
    if revision is None:
        revision, stored = call.context.config.stored()
    else:
        versions = call.context.versions
        stored = versions.documents(revision, _reader(call), address.path)
    found = content_at(_own(call, stored), address)
    place = "/".join((address.path, *address.keys))
    return shown(200, ConfigContent(path=place, revision=revision, content=found))


@ROUTES.add("GET", "/v1/config/versions", ConfigVersionsPage, parameters=(_DOCUMENT, CURSOR, LIMIT))
def list_config_versions(call: Call) -> Response[str]:
    """List versions of the configuration, the newest first; to a tenant those that change its own.

    Which are kept, `history` of the stage document says.
    """
    path = _document_in(call)
    return page_of(
        call.limit,
        lambda limit: call.context.versions.page(_reader(call), path, call.cursor, limit),
        ConfigVersionsPage,
        lambda version: _version_view(call, version),
    )


@ROUTES.add(
    "GET",
    "/v1/config/diff",
    ConfigDifferencesAnswer,
    problems=(404,),
    parameters=(
        _revision("from", "The version that is compared."),
        _revision("to", "The version that it is compared with; without it, the newest."),
        _DOCUMENT,
    ),
)
def diff_config_versions(call: Call) -> Response[str]:
    """Tell what differs between two versions of the configuration."""
    before, after = _needed(call, "from"), call.query.get("to")
    versions, reader, path = call.context.versions, _reader(call), _document_in(call)
    if after is None:
        after, standing = call.context.config.stored()
        old = versions.documents(before, reader, path)
        new = {at: text for at, text in _own(call, standing).items() if path in {None, at}}
    else:
        old, new = versions.differences(before, after, reader, path)
    views, cut = _differences(differences(old, new))
    answer = ConfigDifferencesAnswer(before=before, after=after, differences=views, cut=cut)
    return shown(200, answer)


@ROUTES.add(
    "POST", "/v1/config", ConfigChanged, problems=(404, 409, 413, 429), body=(ConfigChange,)
)
def change_config(call: Call) -> Response[str]:
    """Change the configuration, or try to: everything is checked, all of it is done or nothing.

    A tenant changes of its own bizs what costs nobody else.
    """
    given = read(call.body, ConfigChange)
    edits = [
        Edit(address_in(one.path, f"changes[{number}].path"), one.content)
        for number, one in enumerate(given.changes)
    ]
    reader = _reader(call)
    for number, edit in enumerate(edits):
        if reader is not None and owner_of(edit.address.path) != reader:
            said = "may be changed by operators alone"
            raise InvalidRequestError.of(f"changes[{number}].path", said)
    return _changed(call, lambda standing: edited(standing, edits), given)


@ROUTES.add(
    "POST",
    "/v1/config/rollback",
    ConfigChanged,
    problems=(404, 409, 413, 429),
    body=(ConfigRollback,),
)
def roll_back_config(call: Call) -> Response[str]:
    """Go back to an earlier version of the configuration, or of one document: that is a new one.

    Tenants that calls manage keep their keys, and stay. A tenant goes back with its own bizs.
    """
    given = read(call.body, ConfigRollback)
    reader = _reader(call)
    if given.path is not None:
        _must_be_document(given.path, "path")
    earlier = call.context.versions.documents(given.to, reader, given.path)

    def wanted(standing: Mapping[str, str]) -> dict[str, str]:
        return restored(standing, earlier, tenant=reader, path=given.path)

    return _changed(call, wanted, given, rolled_back_to=given.to)


def _changed(
    call: Call, wanted: Wanted, given: ConfigChange | ConfigRollback, *, rolled_back_to: str = ""
) -> Response[str]:
    note = Note(by=call.tenant, key=call.key_id, why=given.why, rolled_back_to=rolled_back_to)
    with _as_trial(call):
        outcome = call.context.configuration.change(
            wanted,
            call.now,
            expected=given.revision,
            tenant=_reader(call),
            note=note,
            dry_run=given.dry_run,
            checks_readers=not rolled_back_to,
        )
    return shown(200, _outcome_view(outcome))


def _as_trial(call: Call) -> AbstractContextManager[None]:
    """Count a tenant's change among its trials: what checks its rules is all tenants'."""
    if _reader(call) is None:
        return nullcontext()
    return call.context.submission.ceilings.trial(call.tree, call.tenant)


def _outcome_view(outcome: Outcome) -> ConfigChanged:
    views, cut = _differences(outcome.differences)
    return ConfigChanged(
        revision=outcome.revision,
        written=outcome.written,
        differences=views,
        cut=cut,
        bizs=outcome.bizs,
        touched=tuple(filled(TouchedBiz, one) for one in outcome.touched),
        in_force_seconds=IN_FORCE_SECONDS,
    )


def _differences(found: Iterable[Difference]) -> tuple[tuple[ConfigDifference, ...], bool]:
    """Shape the first differences that an answer can carry, and tell whether there are more."""
    views: list[ConfigDifference] = []
    signs = 0
    for one in found:
        signs += len(one.diff)
        if len(views) == MOST_DIFFERENCES or signs > MOST_SIGNS:
            return tuple(views), True
        views.append(filled(ConfigDifference, one))
    return tuple(views), False


def _version_view(call: Call, version: Version) -> ConfigVersion:
    note = version.note
    is_shown = _reader(call) is None or note.by == call.tenant
    return filled(
        ConfigVersion,
        version,
        by=(note.by or None) if is_shown else None,
        key=(note.key or None) if is_shown else None,
        why=note.why if is_shown else "",
        rolled_back_to=(note.rolled_back_to or None) if is_shown else None,
    )


def _reader(call: Call) -> str | None:
    """Return the tenant whose documents alone are read; None for an operator."""
    return None if operates(call.tree, call.tenant) else call.tenant


def _own(call: Call, documents: Mapping[str, str]) -> Mapping[str, str]:
    reader = _reader(call)
    if reader is None:
        return documents
    return {path: text for path, text in documents.items() if _is_of(path, reader)}


def _is_of(path: str, tenant: str) -> bool:
    return shape_of(path) is not None and owner_of(path) == tenant


def _needed(call: Call, name: str) -> str:
    found = call.query.get(name)
    if not found:
        raise InvalidRequestError.of(name, "is missing")
    return found


def _document_in(call: Call) -> str | None:
    path = call.query.get("path")
    if path is not None:
        _must_be_document(path, "path")
    return path


def _must_be_document(path: str, field: str) -> None:
    if address_in(path, field).keys:
        raise InvalidRequestError.of(field, "is inside a document: name the whole one")
