"""Rules: try one before it is in force, read how well those in force find their fields."""

import base64
from collections.abc import Mapping
from typing import Any

from crawlfleet.config.documents.rule import Rule
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.sdk.calls import Calls, path_of
from crawlfleet.wire.rules import CoverageAnswer, RuleCoverage, TriedRule


class RuleCalls(Calls):
    """The calls about rules."""

    def coverage(self, biz: str) -> list[RuleCoverage]:
        """Return in how many records each field has a value, by rule; the current version first."""
        return list(self._get(path_of(biz, "coverage"), CoverageAnswer).coverage)

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
