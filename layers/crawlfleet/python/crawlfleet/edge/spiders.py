"""The API's calls about spiders."""

import re
from typing import Final

from aws_lambda_powertools.event_handler import Response

from crawlfleet.edge import inputs, spider_views, views
from crawlfleet.edge.answers import JSON, page_of, shown
from crawlfleet.edge.call import Call
from crawlfleet.edge.operations import Page
from crawlfleet.errors import InvalidRequestError
from crawlfleet.model.plan import SpiderPlan

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}\Z")
_LARGEST_VERSION: Final = 9_999_999


class SpiderCalls(Call):
    """Keep, show, list, delete."""

    def _list_spiders(self, tenant: str, biz: str) -> Response[str]:
        query = self._query()

        def ask(limit: int) -> Page:
            return self._operations.list_spiders(
                tenant, biz, cursor=query.get("cursor"), limit=limit
            )

        def view(page: Page) -> views.View:
            found = [spider_views.spider_view(spider) for spider in page.items]
            return spider_views.SpidersView(spiders=found, cursor=page.cursor, more=page.more)

        return page_of(inputs.limit_in(query.get("limit")), ask, view)

    def _get_spider(self, tenant: str, biz: str, spider: str) -> Response[str]:
        text = self._query().get("version")
        version = None if text is None else inputs.number_in(text, "version", 1, _LARGEST_VERSION)
        found = self._operations.get_spider(tenant, biz, spider, version)
        return shown(200, spider_views.spider_view(found))

    def _put_spider(self, tenant: str, biz: str, spider: str) -> Response[str]:
        if not _NAME.match(spider):
            raise InvalidRequestError.of(
                "name", "must be 1 to 32 of a-z, 0-9, _ and -, beginning with a letter or a digit"
            )
        plan = inputs.read(inputs.body_of(self._event), SpiderPlan)
        kept, new = self._operations.put_spider(tenant, biz, spider, plan)
        return shown(201 if new else 200, spider_views.spider_view(kept))

    def _delete_spider(self, tenant: str, biz: str, spider: str) -> Response[str]:
        self._operations.delete_spider(tenant, biz, spider)
        return Response(204, JSON, "")

    def _list_spider_versions(self, tenant: str, biz: str, spider: str) -> Response[str]:
        found = self._operations.list_spider_versions(tenant, biz, spider)
        return shown(200, spider_views.versions_view(spider, found))
