"""How the API shows spiders."""

from typing import Literal

from crawlfleet.edge.views import View, at
from crawlfleet.model.plan import ConfiguredSpider, KeptSpider, LinkNeeds
from crawlfleet.model.start import Start
from crawlfleet.policy.starting import open_places, size


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
