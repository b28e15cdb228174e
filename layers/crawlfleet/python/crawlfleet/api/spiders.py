"""Spiders in the API: put, get, list, delete."""

import re
from typing import Final, Literal

import msgspec
from aws_lambda_powertools.event_handler import Response

from crawlfleet.api.inputs import number_in, read
from crawlfleet.api.responses import filled, no_content, page_of, shown
from crawlfleet.api.routing import CURSOR, LIMIT, Call, Parameter, Routes
from crawlfleet.jobs.spiders.models import (
    ConfiguredSpider,
    KeptSpider,
    LinkNeeds,
    SpiderPlan,
    Start,
    open_places,
    size,
)
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.kernel.queue_key import MAIN_POOL
from crawlfleet.wire import Page

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}\Z")
_LARGEST_VERSION: Final = 9_999_999


class SpiderView(msgspec.Struct, frozen=True, kw_only=True):
    """A spider: one that is ``kept``, or what the biz document has (``configuration``).

    ``content`` differs for every different content. Of one of the configuration it is all that
    there is of a version; its ``executor`` is null where it is a rule. Of a kept one ``version``
    counts from 1, ``places`` are those that the start of a job has to fill, and ``tasks``
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


class SpidersPage(Page, frozen=True):
    """A page of spiders; ``cursor`` is where to go on."""

    spiders: list[SpiderView]


class SpiderVersionView(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a spider, without its start."""

    version: int
    content: str
    rule: str
    priority: int
    pool: str | None
    tasks: int
    description: str
    put_at: str


class SpiderVersionsView(msgspec.Struct, frozen=True, kw_only=True):
    """The versions of a spider that are kept, the newest first."""

    name: str
    versions: list[SpiderVersionView]


def spider_view(spider: KeptSpider | ConfiguredSpider) -> SpiderView:
    """Shape a spider."""
    if isinstance(spider, ConfiguredSpider):
        return SpiderView(
            name=spider.name,
            origin="configuration",
            content=spider.version,
            description=spider.description,
            executor=spider.executor,
        )
    plan = spider.plan
    return filled(
        SpiderView,
        plan,
        name=spider.name,
        origin="kept",
        content=plan.digest,
        version=spider.version,
        executor=None,
        places=open_places(plan.start),
        tasks=size(plan.start),
        put_at=spider.put_at,
    )


def versions_view(name: str, versions: list[KeptSpider]) -> SpiderVersionsView:
    """Shape the versions of a spider."""
    return SpiderVersionsView(name=name, versions=[_version(each) for each in versions])


def _version(kept: KeptSpider) -> SpiderVersionView:
    plan = kept.plan
    return filled(
        SpiderVersionView,
        plan,
        version=kept.version,
        content=plan.digest,
        tasks=size(plan.start),
        put_at=kept.put_at,
    )


_VERSION: Final = Parameter(
    name="version",
    meaning="The version to show; the newest where it is left out.",
    shape={"type": "integer", "minimum": 1, "maximum": 9_999_999},
)

ROUTES: Final = Routes()


@ROUTES.add("GET", "/v1/{biz}/spiders", SpidersPage, parameters=(CURSOR, LIMIT))
def list_spiders(call: Call, biz: str) -> Response[str]:
    """List rules and spiders of the biz document by name, then the kept spiders by name."""
    spiders = call.context.spiders
    return page_of(
        call.limit,
        lambda limit: spiders.list_all(
            call.tree, call.tenant, biz, cursor=call.cursor, limit=limit
        ),
        SpidersPage,
        spider_view,
    )


@ROUTES.add("GET", "/v1/{biz}/spiders/{spider}", SpiderView, parameters=(_VERSION,))
def get_spider(call: Call, biz: str, spider: str) -> Response[str]:
    """Get one spider: its start, its rule, the needs of its jobs."""
    text = call.query.get("version")
    version = None if text is None else number_in(text, "version", 1, _LARGEST_VERSION)
    found = call.context.spiders.get(call.tree, call.tenant, biz, spider, version)
    return shown(200, spider_view(found))


@ROUTES.add(
    "PUT",
    "/v1/{biz}/spiders/{spider}",
    {200: SpiderView, 201: SpiderView},
    problems=(413, 429),
    body=(SpiderPlan,),
)
def put_spider(call: Call, biz: str, spider: str) -> Response[str]:
    """Keep a spider: 201 with a new version, 200 with an equal one."""
    if not _NAME.match(spider):
        raise InvalidRequestError.of(
            "name", "must be 1 to 32 of a-z, 0-9, _ and -, beginning with a letter or a digit"
        )
    plan = read(call.body, SpiderPlan)
    pools = {MAIN_POOL, *(pool.name for pool in call.context.settings.pools)}
    kept, new = call.context.spiders.put(call.tree, call.tenant, biz, spider, plan, pools, call.now)
    return shown(201 if new else 200, spider_view(kept))


@ROUTES.add("DELETE", "/v1/{biz}/spiders/{spider}", {204: None}, problems=(409,))
def delete_spider(call: Call, biz: str, spider: str) -> Response[str]:
    """Delete a spider; its jobs go on. One that a schedule starts is not deleted."""
    call.context.spiders.delete(call.tree, call.tenant, biz, spider, call.now)
    return no_content()


@ROUTES.add("GET", "/v1/{biz}/spiders/{spider}/versions", SpiderVersionsView)
def list_spider_versions(call: Call, biz: str, spider: str) -> Response[str]:
    """List the versions of a spider that are kept, the newest first."""
    found = call.context.spiders.list_versions(call.tree, call.tenant, biz, spider)
    return shown(200, versions_view(spider, found))
