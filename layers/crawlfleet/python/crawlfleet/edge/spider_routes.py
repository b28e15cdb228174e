"""The calls about spiders, as a table."""

from typing import Final

from crawlfleet.edge import spider_views
from crawlfleet.edge.route import ANY, CURSOR, LIMIT, Parameter, Route
from crawlfleet.model.plan import SpiderPlan

_VERSION: Final = Parameter(
    name="version",
    meaning="The version to show; the newest where it is left out.",
    shape={"type": "integer", "minimum": 1, "maximum": 9_999_999},
)

SPIDER_ROUTES: Final[tuple[Route, ...]] = (
    Route(
        operation="listSpiders",
        method="GET",
        path="/v1/{biz}/spiders",
        summary="Rules and spiders of the biz document by name, then the kept spiders by name.",
        parameters=(CURSOR, LIMIT),
        answers={200: spider_views.SpidersView},
        problems=ANY,
    ),
    Route(
        operation="getSpider",
        method="GET",
        path="/v1/{biz}/spiders/{spider}",
        summary="One spider: what it crawls, by which rule, what its jobs need.",
        parameters=(_VERSION,),
        answers={200: spider_views.SpiderView},
        problems=ANY,
    ),
    Route(
        operation="putSpider",
        method="PUT",
        path="/v1/{biz}/spiders/{spider}",
        summary="Keep a spider: 201 with a new version, 200 with the one that says the same.",
        body=(SpiderPlan,),
        answers={200: spider_views.SpiderView, 201: spider_views.SpiderView},
        problems=(*ANY, 413, 429),
    ),
    Route(
        operation="deleteSpider",
        method="DELETE",
        path="/v1/{biz}/spiders/{spider}",
        summary="Delete a spider; its jobs go on. What a schedule starts is not deleted.",
        answers={204: None},
        problems=(*ANY, 409),
    ),
    Route(
        operation="listSpiderVersions",
        method="GET",
        path="/v1/{biz}/spiders/{spider}/versions",
        summary="The versions of a spider that are kept, the newest first.",
        answers={200: spider_views.SpiderVersionsView},
        problems=ANY,
    ),
)
