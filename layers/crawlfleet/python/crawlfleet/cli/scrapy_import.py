"""``crawlfleet import scrapy-redis``: take over what scrapy-redis has queued (SPEC.md H10)."""

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import click

from crawlfleet.cli.console import Exit, api_options, draw, emit, note, progress, table
from crawlfleet.cli.failures import NamingGroup
from crawlfleet.cli.terminal import say
from crawlfleet.kernel.errors import ConfigError, ConflictError, Problem, StoreError
from crawlfleet.kernel.names import DEFAULT_TENANT

if TYPE_CHECKING:
    from crawlfleet.kernel.redis.connection import RedisConnection
    from crawlfleet.scrapy.redis_source import Counts, RedisSource, SourceKeys


#: Passwords that are in no address. The second one is the fleet's, where it is another Redis.
ENV_SOURCE_PASSWORD: Final = "SCRAPY_REDIS_PASSWORD"  # noqa: S105  the variable's name
ENV_TARGET_PASSWORD: Final = "CRAWLFLEET_REDIS_PASSWORD"  # noqa: S105
#: Reasons that are shown; the rest is counted.
_SHOWN: Final = 20
_API, _SCHEDULER = "api", "scheduler"
#: Requests that cannot be read and are named; keys of other spiders that are.
_FIRST: Final = 5
_KEYS: Final = 12
#: What a rule is asked about by name; nothing is requested of it.
_ANY_URL: Final = "https://page.invalid/"
#: Options that belong to one target only.
_OF: Final = {_API: ("biz", "rule", "job"), _SCHEDULER: ("to_redis", "crawl")}


@click.group("import", cls=NamingGroup)
def import_() -> None:
    """Take over what another crawler has queued."""


class Report:
    """Report of what was found, and what became of it."""

    def __init__(self, found: "Counts", make: str) -> None:
        self.found = found
        self.make = make
        self.readable = 0
        self.unreadable: Counter[str] = Counter()
        #: The first of them: which one of the queue it is, its URL, and why.
        self.first_unreadable: list[dict[str, Any]] = []
        self.done: dict[str, int] = {}
        self.rejected: Counter[str] = Counter()
        #: The keys that nothing was taken of, as somebody goes on with them where they are.
        self.staying: set[str] = set()
        self.deleted = False

    def document(self, *, acted: bool) -> dict[str, Any]:
        """Return the import's result as a JSON document, for scripts."""
        return {
            "requests": self.found.requests,
            "readable": self.readable,
            "unreadable": dict(self.unreadable),
            "first_unreadable": self.first_unreadable,
            "fingerprints": self.found.fingerprints,
            "fingerprints_made_by": self.make or None,
            "start_urls": self.found.start_urls,
            "acted": acted,
            **({"done": self.done, "rejected": dict(self.rejected)} if acted else {}),
            "deleted": self.deleted,
        }

    def show(self) -> None:
        """Show what was found."""
        rows = [
            ("requests", self.found.requests),
            ("of them readable", self.readable),
            ("fingerprints", self.found.fingerprints),
            ("start URLs", self.found.start_urls),
        ]
        draw(table(["found", "number>"], rows))
        _announce("not readable", self.unreadable)
        for one in self.first_unreadable:
            url = one["url"] or "which has no URL that can be seen"
            note(f"  request {one['place']} of the queue, {url}: {one['why']}")

    @property
    def whole(self) -> bool:
        """Tell whether nothing was left behind."""
        return not self.unreadable and not self.rejected


@import_.command("scrapy-redis")
@click.argument("redis_url")
@click.option("--spider", required=True, help="Name of the spider whose keys they are.")
@click.option(
    "--to",
    "target",
    type=click.Choice([_API, _SCHEDULER]),
    default=_API,
    show_default=True,
    help="Requests of a biz, or those of our scheduler for the same Scrapy project.",
)
@click.option("--biz", help="With --to api: the biz that they become requests of.")
@click.option("--rule", help="With --to api: the rule or spider that reads them.")
@click.option("--job", help="With --to api: what they are counted under.")
@click.option("--to-redis", metavar="URL", help="With --to scheduler: another Redis than this one.")
@click.option(
    "--tenant",
    default=DEFAULT_TENANT,
    show_default=True,
    help="With --to scheduler: CRAWLFLEET_TENANT of the project.",
)
@click.option("--crawl", help="With --to scheduler: CRAWLFLEET_CRAWL. Default: the spider's name.")
@click.option("--requests-key", default="%(spider)s:requests", show_default=True)
@click.option("--dupefilter-key", default="%(spider)s:dupefilter", show_default=True)
@click.option("--start-urls-key", default="%(spider)s:start_urls", show_default=True)
@click.option(
    "--delete", is_flag=True, help="Delete in the end what was taken over, if all was read."
)
@click.option("--yes", is_flag=True, help="Do it. Without it nothing is changed anywhere.")
@api_options
def scrapy_redis(redis_url: str, target: str, **options: Any) -> int:
    """Take over the requests, fingerprints and start URLs of a scrapy-redis spider.

    REDIS_URL is where they are; its password may be in SCRAPY_REDIS_PASSWORD. The spider should be
    paused. Nothing of what is pickled there is run: what is more than plain data is told and left.
    Done again it stores nothing twice, so that it may be repeated after any failure. Without --yes
    it asks the API, where one is set, whether there are such a biz and rule.

    \b
    crawlfleet import scrapy-redis redis://10.0.0.7 --spider shop --biz shop
    crawlfleet import scrapy-redis redis://10.0.0.7 --spider shop --biz shop --rule shop --yes
    crawlfleet import scrapy-redis redis://10.0.0.7 --spider shop --to scheduler --yes
    """  # noqa: D301  click reads this backspace: the lines below it are not to be wrapped
    spider, as_json = options["spider"], options["as_json"]
    if target == _API and not options["biz"]:
        raise click.UsageError("--biz says whose requests they become; or give --to scheduler")
    for name in _OF[_SCHEDULER if target == _API else _API]:
        if options[name]:
            raise click.UsageError(f"--{name.replace('_', '-')} does not go with --to {target}")
    _needs_scrapy()
    if target == _API:
        _check_biz(options)
    from crawlfleet.kernel.redis.connection import RedisConnection
    from crawlfleet.scrapy.redis_source import RedisSource, SourceKeys

    names = SourceKeys.__struct_fields__
    keys = SourceKeys(**{name: options[f"{name}_key"] % {"spider": spider} for name in names})
    password = os.environ.get(ENV_SOURCE_PASSWORD)
    with RedisConnection(redis_url, password=password) as connection:
        source = RedisSource(connection, keys)
        report = _survey(source, as_json)
        if not as_json:
            report.show()
        if not any((report.found.requests, report.found.fingerprints, report.found.start_urls)):
            if as_json:
                emit(report.document(acted=False))
            raise _nothing(source, keys, options)
        if options["yes"]:
            act = _to_api if target == _API else _to_scheduler
            act(source, connection, report, options)
            _end(source, report, options["delete"])
        if as_json:
            emit(report.document(acted=options["yes"]))
        elif options["yes"]:
            for what, number in report.done.items():
                say(f"{what}: {number}")
            _announce("not accepted", report.rejected)
        else:
            note("nothing was changed: --yes takes it over")
    return Exit.FINE if report.whole or not options["yes"] else Exit.FAILED


def _check_biz(options: dict[str, Any]) -> None:
    """Have the API refuse a biz that the tenant has not, or a rule that the biz has not.

    That changes nothing there.
    """
    from crawlfleet.sdk import Client

    try:
        fleet = Client(options["api_url"], options["api_key"])
    except ConfigError:
        if options["yes"]:
            raise
        note("whether there is such a biz was not asked: no API is set (--api-url)")
        return
    with fleet:
        if options["rule"]:
            fleet.explain_url(options["biz"], _ANY_URL, rule=options["rule"])
        else:
            fleet.stats(options["biz"])


def _nothing(source: "RedisSource", keys: "SourceKeys", options: dict[str, Any]) -> ConfigError:
    """Name the keys of other spiders where there are none of this one."""
    names = [options[f"{name}_key"] for name in keys.__struct_fields__]
    try:
        found = source.alike([name % {"spider": "*"} for name in names], _KEYS)
    except StoreError:  # who may read one spider's keys may not look at all of them
        found = []
    there = (
        f"there are {', '.join(found)}" if found else "no other key that may be seen is named so"
    )
    looked = ", ".join(getattr(keys, name) for name in keys.__struct_fields__)
    return ConfigError([Problem("--spider", f"nothing is under {looked}; {there}")])


def _survey(source: "RedisSource", as_json: bool) -> Report:
    from crawlfleet.scrapy.redis_source import Asked

    make = source.find_fingerprinter()
    report = Report(source.counts(), make)
    with progress("looking", hidden=as_json) as advance:
        for place, each in enumerate(source.requests(make), start=1):
            if isinstance(each, Asked):
                report.readable += 1
            else:
                report.unreadable[each.why] += 1
                if len(report.first_unreadable) < _FIRST:
                    one = {"place": place, "url": each.url, "why": each.why}
                    report.first_unreadable.append(one)
            advance(place, report.found.requests)
    return report


def _to_api(
    source: "RedisSource", _: "RedisConnection", report: Report, options: dict[str, Any]
) -> None:
    from crawlfleet.crawling.executors.scrapy_wire import NotPortableError
    from crawlfleet.scrapy.importing import entry_of, entry_of_start, readable
    from crawlfleet.sdk import Client

    def entries() -> Iterator[dict[str, Any]]:
        for asked in readable(source.requests(report.make)):
            yield from made(entry_of, asked)
        for start in source.start_urls():
            yield from made(entry_of_start, start)

    def made(make: Callable[[Any, str], dict[str, Any]], found: object) -> Iterator[dict[str, Any]]:
        try:
            yield make(found, options["spider"])
        except NotPortableError as error:
            report.rejected[str(error)] += 1

    total = report.readable + report.found.start_urls
    accepted = repeated = 0
    with (
        Client(options["api_url"], options["api_key"]) as fleet,
        progress("submitting", hidden=options["as_json"]) as advance,
    ):
        common = {"rule": options["rule"], "job": options["job"], "timeout": math.inf}
        results = fleet.submit_each(options["biz"], entries(), **common)
        for place, result in enumerate(results, start=1):
            if result.error is not None:
                report.rejected[str(result.error)] += 1
            else:
                accepted += not result.repeated
                repeated += result.repeated
            advance(place, total)
    report.done = {"submitted": accepted, "submitted before": repeated}
    if report.found.fingerprints:
        report.staying.add("dupefilter")
        note("fingerprints stay where they are: what is submitted is told apart by its client id")


def _to_scheduler(
    source: "RedisSource", connection: "RedisConnection", report: Report, options: dict[str, Any]
) -> None:
    from crawlfleet.kernel.redis.connection import RedisConnection
    from crawlfleet.scrapy import importing
    from crawlfleet.scrapy.redis import RedisCrawl

    with ExitStack() as opened:
        target = connection
        if options["to_redis"]:
            password = os.environ.get(ENV_TARGET_PASSWORD)
            made = RedisConnection(options["to_redis"], password=password)
            target = opened.enter_context(made)
        crawl = RedisCrawl(
            target, options["tenant"], options["crawl"] or options["spider"], "import"
        )
        make = "" if report.make == "scrapy" else report.make
        known, present = crawl.known()
        if known and present != make:
            raise ConflictError(
                f"the crawl has {known} fingerprints of Scrapy's own make or of {present!r}, and "
                f"these are of {make or 'Scrapy'!r}: import into another --crawl, or flush that one"
            )
        if make:
            crawl.set_fingerprinter(make)
        new = seen = 0
        with progress("queueing", hidden=options["as_json"]) as advance:
            readable = importing.readable(source.requests(make))
            for queued, of in importing.queue_all(crawl, map(importing.pushed_of, readable)):
                new, seen = new + queued, seen + of
                advance(seen, report.readable)
        report.done = {"requests queued": new, "requests queued before": seen - new}
        if report.make:
            learnt = 0
            with progress("fingerprints", hidden=options["as_json"]) as advance:
                for number in importing.learn_all(crawl, source):
                    learnt += number
                    advance(learnt, report.found.fingerprints)
            report.done["fingerprints"] = learnt
        elif report.found.fingerprints:
            report.rejected["fingerprints of a make that nobody knows"] = report.found.fingerprints
        if target is not connection:
            starts = importing.queue_all(crawl, map(importing.pushed_of_start, source.start_urls()))
            report.done["start URLs"] = sum(queued for queued, _ in starts)
        elif report.found.start_urls:
            report.staying.add("start_urls")
            note("start URLs stay where they are: a RedisSpider of ours reads them there")


def _end(source: "RedisSource", report: Report, delete: bool) -> None:
    if not delete:
        return
    if not report.whole:
        note("nothing is deleted, because not all of it was taken over")
        return
    report.deleted = source.remove(report.found, report.staying)
    if not report.deleted:
        note("nothing is deleted: there is more or less than before, so somebody is at work there")


def _needs_scrapy() -> None:
    try:
        import scrapy  # noqa: F401  is it there?
    except ImportError as error:
        message = "is not installed: pip install 'crawlfleet[scrapy]'"
        raise ConfigError([Problem("scrapy", message)]) from error


def _announce(what: str, reasons: Counter[str]) -> None:
    for why, number in reasons.most_common(_SHOWN):
        note(f"{number} {what}: {why}")
    if len(reasons) > _SHOWN:
        note(f"... and for {len(reasons) - _SHOWN} other reasons")
