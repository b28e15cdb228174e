"""The configuration: documents, changes of them, versions, and the way back."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from crawlfleet.sdk.calls import Calls, Pages, parameters
from crawlfleet.wire.configuration import (
    ConfigChanged,
    ConfigContent,
    ConfigDifferencesAnswer,
    ConfigDocumentsAnswer,
    ConfigVersion,
    ConfigVersionsPage,
)

_PLACE = "/v1/config"


class ConfigCalls(Calls):
    """The calls about the configuration: all of it to operators, its own bizs to a tenant.

    A path is a document's, ``stage``, ``tenants/acme`` or ``bizs/acme/shop``, or leads inside one:
    ``bizs/acme/shop/rules/page``.
    """

    def config_documents(self) -> ConfigDocumentsAnswer:
        """List the documents of the configuration, with the newest revision."""
        return self._get(f"{_PLACE}/documents", ConfigDocumentsAnswer)

    def config_document(self, path: str, *, revision: str | None = None) -> ConfigContent:
        """Read a document, or a part of one, as it stands or stood at a revision.

        Raises:
            NotFoundError: nothing is there, or the revision is not kept.
        """
        params = parameters(path=path, revision=revision)
        return self._get(f"{_PLACE}/document", ConfigContent, params)

    def config_versions(
        self, *, path: str | None = None, page_size: int = 100
    ) -> Pages[ConfigVersion]:
        """List versions of the configuration, or of one document, the newest first."""
        params = parameters(path=path, limit=page_size)
        return self._pages(
            f"{_PLACE}/versions", ConfigVersionsPage, params, identity=attrgetter("revision")
        )

    def config_diff(
        self, before: str, after: str | None = None, *, path: str | None = None
    ) -> ConfigDifferencesAnswer:
        """Tell what differs between two versions, or between one and what stands.

        Raises:
            NotFoundError: one of them is not kept.
        """
        params = {"from": before} | parameters(to=after, path=path)
        return self._get(f"{_PLACE}/diff", ConfigDifferencesAnswer, params)

    def change_config(
        self,
        changes: Mapping[str, Any],
        *,
        revision: str | None = None,
        why: str = "",
        dry_run: bool = False,
    ) -> ConfigChanged:
        """Put contents at paths, all of them or none; None removes what is there.

        With ``dry_run`` all is checked and told, and nothing written.

        Raises:
            InvalidRequestError: names each field that is wrong, or not the tenant's to change.
            ConflictError: the configuration has another revision, or functions may not write it.
        """
        edits = [{"path": path, "content": content} for path, content in changes.items()]
        document: dict[str, Any] = {"changes": edits, "why": why, "dry_run": dry_run}
        if revision is not None:
            document["revision"] = revision
        return self._post(_PLACE, document, ConfigChanged, [])

    def roll_back_config(
        self,
        to: str,
        *,
        path: str | None = None,
        revision: str | None = None,
        why: str = "",
        dry_run: bool = False,
    ) -> ConfigChanged:
        """Go back to a version of the configuration, or of one document; that is a new version.

        Raises:
            NotFoundError: it is not kept.
            InvalidRequestError: what it says is wrong by now; names each field.
            ConflictError: the configuration has another revision, or functions may not write it.
        """
        document = {"to": to, "why": why, "dry_run": dry_run}
        document |= parameters(path=path, revision=revision)
        return self._post(f"{_PLACE}/rollback", document, ConfigChanged, [])
