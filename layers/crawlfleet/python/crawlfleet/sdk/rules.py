"""Rules tried before they are in force: what they yield, as the API tells it."""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from crawlfleet.config.documents.rule import Rule
from crawlfleet.kernel.errors import InvalidRequestError, Problem
from crawlfleet.sdk.calls import Calls, path_of
from crawlfleet.sdk.explain import FieldCoverage


class FetchedPage(msgspec.Struct, frozen=True, kw_only=True):
    """The page that came; ``url`` is where ``redirects`` ended."""

    url: str
    status: int
    content_type: str = ""
    bytes: int = 0
    seconds: float = 0.0
    redirects: tuple[str, ...] = ()


class FetchFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no page; ``status`` is 0 where the site gave no answer or was not asked."""

    reason: str
    message: str
    status: int = 0
    retryable: bool = False
    retry_after_seconds: float | None = None


class FollowedLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link that would be followed; ``rule`` is what reads it, None the rule that is tried."""

    url: str
    rule: str | None = None
    depth: int = 0
    meta: dict[str, Any] = {}


class TriedRule(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule yields of a page.

    ``error`` says why a URL could not be fetched, ``problems`` what of the page could not be read;
    with either there are no records. ``rejected`` says of the first of ``rejected_count`` records
    why they would not be stored, ``left_out`` of the first of ``left_out_count`` things of the
    page why a spider could not read them. ``records`` and ``links`` are the first ones of
    ``record_count`` and ``link_count``; ``cut`` says that there are others. ``coverage`` says of
    how many records each field has a value.
    """

    version: str = ""
    fetched: FetchedPage | None = None
    error: FetchFailure | None = None
    problems: tuple[Problem, ...] = ()
    records: tuple[dict[str, Any], ...] = ()
    record_count: int = 0
    rejected: tuple[str, ...] = ()
    rejected_count: int = 0
    left_out: tuple[str, ...] = ()
    left_out_count: int = 0
    coverage: tuple[FieldCoverage, ...] = ()
    links: tuple[FollowedLink, ...] = ()
    link_count: int = 0
    refused: dict[str, int] = {}
    cut: bool = False
    seconds: float = 0.0


class TrialCalls(Calls):
    """Trying rules."""

    def try_rule(
        self,
        biz: str,
        rule: str | Rule | Mapping[str, Any],
        *,
        url: str | None = None,
        page: str | bytes | None = None,
        page_url: str | None = None,
        content_type: str | None = None,
        depth: int = 0,
    ) -> TriedRule:
        """What a rule yields of a page; nothing is stored.

        ``rule`` is the name of a rule or a spider of the biz, or a whole rule. The page is fetched
        from ``url`` by the fleet, or is ``page``: its text, or its bytes as they came with this
        ``content_type`` from ``page_url``, up to 1,000,000 bytes.

        Raises:
            InvalidRequestError: names what is wrong with the rule.
            UnknownRuleError: the biz has none of that name.
        """
        if url is None and page is None:
            raise InvalidRequestError.of("page", "is missing, and so is url: give one of the two")
        if url is not None and page is not None:
            raise InvalidRequestError.of("page", "goes without url: give one of the two")
        document: dict[str, Any] = {"rule": rule, "depth": depth}
        if page is None:
            document["url"] = url
        else:
            raw = isinstance(page, bytes)
            sent = base64.b64encode(page).decode() if isinstance(page, bytes) else page
            given = {
                "body_base64" if raw else "body": sent,
                "url": page_url,
                "content_type": content_type,
            }
            document["page"] = {name: value for name, value in given.items() if value is not None}
        return self._post(path_of(biz, "rules", "try"), document, TriedRule, [])
