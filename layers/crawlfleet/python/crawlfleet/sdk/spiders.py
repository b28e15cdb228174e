"""Spiders and rules: keep a spider, try a rule before it is in force, read its coverage."""

import base64
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from crawlfleet.config.documents.rule import Rule
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.sdk.calls import Calls, Pages, Values, parameters, path_of, start_of
from crawlfleet.wire import Page
from crawlfleet.wire.rules import BizsAnswer, BizSummary, CoverageAnswer, RuleCoverage, TriedRule


class Spider(msgspec.Struct, frozen=True, kw_only=True):
    """A spider: one that is ``kept``, or what the biz document has (``configuration``).

    ``start`` is what its jobs crawl, as it was put; ``places`` are those that the start of a job
    fills, ``tasks`` how many a job has. ``content`` differs for every different content. A rule
    has no ``executor``.
    """

    name: str
    origin: str = "kept"
    content: str = ""
    description: str = ""
    version: int | None = None
    executor: str | None = None
    rule: str | None = None
    start: dict[str, Any] | None = None
    places: tuple[str, ...] = ()
    tasks: int | None = None
    priority: int | None = None
    link: dict[str, Any] | None = None
    pool: str | None = None
    put_at: datetime | None = None

    @property
    def id(self) -> str:
        """Its identity in a list: a kept one may have the name of a rule."""
        return f"{self.origin} {self.name}"


class SpiderVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a kept spider, without its start."""

    version: int
    content: str
    rule: str
    priority: int
    tasks: int
    put_at: datetime
    pool: str | None = None
    description: str = ""


class SpidersPage(Page, frozen=True):
    """A page of spiders."""

    spiders: tuple[Spider, ...]


class SpiderVersionsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The versions of a spider, as they travel."""

    versions: tuple[SpiderVersion, ...]


class SpiderCalls(Calls):
    """The calls about spiders."""

    def spiders(
        self, biz: str, *, cursor: str | None = None, page_size: int = 100
    ) -> Pages[Spider]:
        """List the biz document's rules and spiders by name, then the kept spiders by name."""
        params = parameters(limit=page_size)
        return self._pages(path_of(biz, "spiders"), SpidersPage, params, cursor)

    def spider(self, biz: str, name: str, *, version: int | None = None) -> Spider:
        """Read one spider, in its newest version or in this one.

        Raises:
            NotFoundError: the biz has none of that name, or not that version of it.
        """
        return self._get(path_of(biz, "spiders", name), Spider, parameters(version=version))

    def put_spider(
        self,
        biz: str,
        name: str,
        *,
        rule: str,
        urls: str | Iterable[str] | None = None,
        pattern: str | None = None,
        values: Mapping[str, Values] | None = None,
        priority: int | None = None,
        link: Mapping[str, Any] | None = None,
        pool: str | None = None,
        description: str = "",
    ) -> Spider:
        """Keep a spider; content equal to its newest version makes no new one.

        ::

            fleet.put_spider(
                "shop", "catalogue", rule="listing",
                pattern="https://shop.example/{kind}?page={page}",
                values={"kind": ["tools", "garden"], "page": range(1, 101)},
            )

        Either ``urls``, or a ``pattern`` with places in braces and the ``values`` that go into
        them; a place without values is filled when a job is started. With neither, its jobs begin
        with what the rule's own parameters name. ``link`` says what a
        link to the site must be like: ``test_url``, ``seconds_below``,
        ``bytes_per_second_above``.

        Raises:
            InvalidRequestError: names every field that is wrong.
            QuotaExceededError: the biz keeps as many spiders as it may.
        """
        start: dict[str, Any] = {}
        if urls is not None:
            start["urls"] = [urls] if isinstance(urls, str) else list(urls)
        if pattern is not None:
            start["pattern"] = pattern
        if values:
            start["values"] = values
        plan: dict[str, Any] = {"rule": rule, "start": start_of(start)}
        given = {"priority": priority, "link": link, "pool": pool, "description": description}
        plan |= {field: value for field, value in given.items() if value not in (None, "")}
        return self.put_spider_plan(biz, name, plan)

    def put_spider_plan(self, biz: str, name: str, plan: Mapping[str, Any]) -> Spider:
        """Keep a spider by the document as the API takes it.

        Raises:
            InvalidRequestError: names every field that is wrong.
        """
        body = msgspec.json.encode(plan)
        return self._read(
            self._transport.call("PUT", path_of(biz, "spiders", name), body=body), Spider
        )

    def spider_versions(self, biz: str, name: str) -> list[SpiderVersion]:
        """List the versions of a spider that are kept, the newest first.

        Raises:
            NotFoundError: none is.
        """
        path = path_of(biz, "spiders", name, "versions")
        return list(self._get(path, SpiderVersionsAnswer).versions)

    def delete_spider(self, biz: str, name: str) -> None:
        """Delete a kept spider; its jobs go on.

        Raises:
            NotFoundError: the biz keeps none of that name.
            ConflictError: schedules start it.
        """
        self._remove(path_of(biz, "spiders", name))


class RuleCalls(Calls):
    """The calls about rules."""

    def bizs(self) -> list[BizSummary]:
        """List the bizs of the key's tenant, each with its rules and spiders."""
        return list(self._get("/v1/bizs", BizsAnswer).bizs)

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
        """Try a rule on a page; nothing is stored.

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
