"""The API's spiders: kept, shown, listed, deleted."""

import re
from typing import Final, Literal

from aws_lambda_powertools.event_handler import Response

from crawlfleet.api.inputs import number_in, read
from crawlfleet.api.responses import View, at, no_content, page_of, shown
from crawlfleet.api.routing import ANY, CURSOR, LIMIT, Call, Parameter, Route
from crawlfleet.jobs.spiders import service
from crawlfleet.jobs.spiders.models import (
    ConfiguredSpider,
    KeptSpider,
    LinkNeeds,
    SpiderPlan,
    Start,
)
from crawlfleet.jobs.spiders.starts import open_places, size
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.kernel.queue_key import MAIN_POOL

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}\Z")
_LARGEST_VERSION: Final = 9_999_999


class SpiderView(View, frozen=True, kw_only=True):
    """A spider: one that is ``kept``, or what the biz document has (``configuration``).

    ``content`` differs for every different content. Of one of the configuration it is all that
    there is of a version; its ``executor`` is null where it is a rule. Of a kept one ``version``
    counts from 1, ``places`` are those that whoever starts a job of it has to fill, and ``tasks``
    how many a job has.
    """

    name: str
    origin: Literal["kept", "configuration"]
    content: str
    description: str
    version: int | None = None
    executor: str | None = None
    rule: str | None = None
    start: Start | None = None
    places: tuple[str, ...] = ()
    tasks: int | None = None
    priority: int | None = None
    link: LinkNeeds | None = None
    pool: str | None = None
    put_at: str | None = None


class SpidersView(View, frozen=True, kw_only=True):
    """A page of spiders; ``cursor`` is where to go on."""

    spiders: list[SpiderView]
    cursor: str | None
    more: bool


class SpiderVersionView(View, frozen=True, kw_only=True):
    """A version of a spider, without its start."""

    version: int
    content: str
    rule: str
    priority: int
    pool: str | None
    tasks: int
    description: str
    put_at: str


class SpiderVersionsView(View, frozen=True, kw_only=True):
    """The versions of a spider that are kept, the newest first."""

    name: str
    versions: list[SpiderVersionView]


def spider_view(spider: KeptSpider | ConfiguredSpider) -> SpiderView:
    """A spider."""
    if isinstance(spider, ConfiguredSpider):
        return SpiderView(
            name=spider.name,
            origin="configuration",
            content=spider.version,
            description=spider.description,
            executor=spider.executor,
        )
    plan = spider.plan
    return SpiderView(
        name=spider.name,
        origin="kept",
        content=plan.digest,
        description=plan.description,
        version=spider.version,
        rule=plan.rule,
        start=plan.start,
        places=open_places(plan.start),
        tasks=size(plan.start),
        priority=plan.priority,
        link=plan.link,
        pool=plan.pool,
        put_at=at(spider.put_at),
    )


def versions_view(name: str, versions: list[KeptSpider]) -> SpiderVersionsView:
    """The versions of a spider."""
    return SpiderVersionsView(
        name=name,
        versions=[
            SpiderVersionView(
                version=each.version,
                content=each.plan.digest,
                rule=each.plan.rule,
                priority=each.plan.priority,
                pool=each.plan.pool,
                tasks=size(each.plan.start),
                description=each.plan.description,
                put_at=at(each.put_at),
            )
            for each in versions
        ],
    )


def _list(call: Call, biz: str) -> Response[str]:
    ports = call.context.spiders
    return page_of(
        call.limit,
        lambda limit: service.list_spiders(
            ports, call.tree, call.tenant, biz, cursor=call.cursor, limit=limit
        ),
        lambda page: SpidersView(
            spiders=[spider_view(spider) for spider in page.items],
            cursor=page.cursor,
            more=page.more,
        ),
    )


def _get(call: Call, biz: str, spider: str) -> Response[str]:
    text = call.query.get("version")
    version = None if text is None else number_in(text, "version", 1, _LARGEST_VERSION)
    found = service.get_spider(call.context.spiders, call.tree, call.tenant, biz, spider, version)
    return shown(200, spider_view(found))


def _put(call: Call, biz: str, spider: str) -> Response[str]:
    if not _NAME.match(spider):
        raise InvalidRequestError.of(
            "name", "must be 1 to 32 of a-z, 0-9, _ and -, beginning with a letter or a digit"
        )
    plan = read(call.body, SpiderPlan)
    pools = {MAIN_POOL, *(pool.name for pool in call.context.settings.pools)}
    kept, new = service.put_spider(
        call.context.spiders, call.tree, call.tenant, biz, spider, plan, pools, call.now
    )
    return shown(201 if new else 200, spider_view(kept))


def _delete(call: Call, biz: str, spider: str) -> Response[str]:
    service.delete_spider(call.context.spiders, call.tree, call.tenant, biz, spider, call.now)
    return no_content()


def _versions(call: Call, biz: str, spider: str) -> Response[str]:
    found = service.list_versions(call.context.spiders, call.tree, call.tenant, biz, spider)
    return shown(200, versions_view(spider, found))


_VERSION: Final = Parameter(
    name="version",
    meaning="The version to show; the newest where it is left out.",
    shape={"type": "integer", "minimum": 1, "maximum": 9_999_999},
)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        operation="listSpiders",
        handler=_list,
        method="GET",
        path="/v1/{biz}/spiders",
        summary="Rules and spiders of the biz document by name, then the kept spiders by name.",
        parameters=(CURSOR, LIMIT),
        answers={200: SpidersView},
        problems=ANY,
    ),
    Route(
        operation="getSpider",
        handler=_get,
        method="GET",
        path="/v1/{biz}/spiders/{spider}",
        summary="One spider: what it crawls, by which rule, what its jobs need.",
        parameters=(_VERSION,),
        answers={200: SpiderView},
        problems=ANY,
    ),
    Route(
        operation="putSpider",
        handler=_put,
        method="PUT",
        path="/v1/{biz}/spiders/{spider}",
        summary="Keep a spider: 201 with a new version, 200 with the one that says the same.",
        body=(SpiderPlan,),
        answers={200: SpiderView, 201: SpiderView},
        problems=(*ANY, 413, 429),
    ),
    Route(
        operation="deleteSpider",
        handler=_delete,
        method="DELETE",
        path="/v1/{biz}/spiders/{spider}",
        summary="Delete a spider; its jobs go on. What a schedule starts is not deleted.",
        answers={204: None},
        problems=(*ANY, 409),
    ),
    Route(
        operation="listSpiderVersions",
        handler=_versions,
        method="GET",
        path="/v1/{biz}/spiders/{spider}/versions",
        summary="The versions of a spider that are kept, the newest first.",
        answers={200: SpiderVersionsView},
        problems=ANY,
    ),
)
