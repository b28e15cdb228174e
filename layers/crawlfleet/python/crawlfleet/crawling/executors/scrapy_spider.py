"""``scrapy``: the callbacks of a Scrapy spider, without Scrapy's engine (SPEC.md E1).

The worker has downloaded the page; here it becomes a response, the callback is called, and what it
gives becomes records and links. A start URL is read by ``parse``. A link carries the name of its
callback, ``cb_kwargs`` and ``meta`` in its own ``meta``, as text under one key.

Spiders are code, and code is trusted: it is the operator's, shipped with the function. A
configuration, which a tenant may have written, chooses among the spiders of packages that the
operator has named (``registry.allow_spiders``) and can import nothing else.

What an engine would do is not done: no middlewares, pipelines, errbacks, start requests, and
nothing to await. ``allowed_domains`` and ``DEPTH_LIMIT`` hold, since they say what a spider is for.
Politeness, retries, cookies and the filter of duplicates are the fleet's.
"""

import importlib
import inspect
import json
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from crawlfleet.config.documents.policies import LARGEST_SEED
from crawlfleet.crawling.executors import scrapy_wire
from crawlfleet.crawling.executors.base import Context, Executor, Found, Parameters
from crawlfleet.crawling.executors.registry import allowed, is_allowed, look_into_folders
from crawlfleet.crawling.executors.scrapy_wire import NotPortableError, request_of
from crawlfleet.kernel.errors import ExtractError, Problem
from crawlfleet.kernel.names import ENV_SCRAPY_PACKAGES
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.validation import Words
from crawlfleet.requests.models import SCRAPY_META, Link, Skipped

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.http import Response

#: Bytes of a link: its URL, that, and headers; one with more is left out. What this leaves of a
#: seed is for the names of its fields, its rule and its job.
LONGEST: Final = LARGEST_SEED - 2_000

#: A spider by its place: ``package.module:Class``.
Place = Annotated[
    str,
    Meta(max_length=300, pattern=r"^[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*\Z"),
    Words("the place of a class, such as package.module:Class"),
]
SettingName = Annotated[
    str,
    Meta(max_length=100, pattern=r"^[A-Z][A-Z0-9_]*\Z"),
    Words("the name of a setting, such as DEPTH_LIMIT"),
]

_END: Final = object()


class ScrapyParameters(Parameters, frozen=True, kw_only=True):
    """``arguments`` are what ``scrapy crawl -a`` would give, ``settings`` what ``-s`` would."""

    spider: Place
    arguments: Annotated[dict[str, Any], Meta(max_length=100)] = {}  # noqa: RUF012  it is copied
    settings: Annotated[dict[SettingName, Any], Meta(max_length=100)] = {}  # noqa: RUF012


class ScrapySpider(Executor[ScrapyParameters]):
    """Reads pages by the callbacks of a Scrapy spider."""

    name = "scrapy"
    Parameters = ScrapyParameters

    def __init__(self, parameters: ScrapyParameters, rules: Any) -> None:
        super().__init__(parameters, rules)
        self._lock = Lock()
        self._made: Spider | None = None

    @classmethod
    def problems(cls, parameters: ScrapyParameters) -> Iterator[Problem]:
        """Check that the spider is of a package that the operator has named."""
        module = parameters.spider.partition(":")[0]
        if not is_allowed(module):
            named = f"{', '.join(allowed())}; {ENV_SCRAPY_PACKAGES} names them"
            yield Problem("spider", f"{module!r} is in none of the operator's packages: {named}")

    def read(self, page: Page, context: Context) -> Iterator[Found]:
        """Read what the callback gives.

        Raises ExtractError: there is no such spider or callback here, or it fails.
        """
        spider = self._spider()
        response, callback = _call_of(page, context, spider)
        name = getattr(callback, "__name__", "callback")
        for given in _given(callback(response, **response.cb_kwargs), name):
            context.tick()
            yield from _found(given, spider, context)

    def _spider(self) -> "Spider":
        with self._lock:
            if self._made is None:
                self._made = _make(self.parameters)
            return self._made


def _make(parameters: ScrapyParameters) -> "Spider":
    for problem in ScrapySpider.problems(parameters):
        raise ExtractError("parameters.spider", problem.message)
    module, _, name = parameters.spider.partition(":")
    look_into_folders()
    try:
        from scrapy import Spider
        from scrapy.crawler import Crawler
        from scrapy.statscollectors import MemoryStatsCollector
    except ImportError as error:
        why = "Scrapy is not here; consumers carry it where scrapy_packages of the stage name any"
        raise ExtractError("executor", f"{why} ({error})") from error
    try:
        kind = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise ExtractError("parameters.spider", f"cannot be imported: {error}") from error
    if not (inspect.isclass(kind) and issubclass(kind, Spider)):
        raise ExtractError("parameters.spider", f"{parameters.spider!r} is no Scrapy spider")
    # Holds settings, signals and stats, which spiders ask for; it never runs an engine.
    crawler = Crawler(kind, dict(parameters.settings))
    crawler.stats = MemoryStatsCollector(crawler)
    return kind.from_crawler(crawler, **parameters.arguments)


def _call_of(page: Page, context: Context, spider: "Spider") -> "tuple[Response, Any]":
    """Make the response of a page, and find what is to be called with it."""
    from scrapy.http import Headers
    from scrapy.responsetypes import responsetypes

    asked = page.redirects[0] if page.redirects else page.url
    try:
        request = _request_of(context.meta.get(SCRAPY_META), asked, spider)
    except NotPortableError as error:
        raise ExtractError(f"meta.{SCRAPY_META}.{error.place}", error.why) from error
    plain = {name: value for name, value in context.meta.items() if name != SCRAPY_META}
    request.meta.update({**plain, **request.meta, "depth": context.depth})
    if page.redirects:
        request.meta["redirect_urls"] = list(page.redirects)
        request.meta["redirect_times"] = len(page.redirects)
    request.meta["download_latency"] = page.seconds
    # The body is unpacked by now.
    headers = Headers({k: v for k, v in page.headers.items() if k != "content-encoding"})
    kind = responsetypes.from_args(headers=headers, url=page.url, body=page.body)
    response = kind(page.url, status=page.status, headers=headers, body=page.body, request=request)
    return response, request.callback or spider._parse  # noqa: SLF001  what the engine calls


def _request_of(text: object, url: str, spider: "Spider") -> "Request":
    if text is None:
        return request_of({"url": url}, spider)
    if not isinstance(text, str):
        raise NotPortableError("request", "is no text")
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotPortableError("request", f"is no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise NotPortableError("request", "is no object")
    return request_of({**fields, "url": url}, spider)


def _given(output: Any, name: str) -> Iterator[Any]:
    """Give what a callback returns one by one: nothing, one thing, several, sync or async."""
    from scrapy.utils.misc import arg_to_iter

    if isinstance(output, Coroutine):
        output = _awaited(output, name)
    if isinstance(output, AsyncIterator):
        while (each := _next_of(output, name)) is not _END:
            yield each
    else:
        yield from arg_to_iter(output)


def _next_of(items: AsyncIterator[Any], name: str) -> Any:
    async def step() -> Any:
        return await anext(items, _END)

    return _awaited(step(), name)


def _awaited(coroutine: Coroutine[Any, Any, Any], name: str) -> Any:
    """Return the result of a coroutine that has nothing to wait for."""
    try:
        # None is what `asyncio.sleep(0)` gives way by.
        while coroutine.send(None) is None:
            pass
    except StopIteration as end:
        return end.value
    coroutine.close()
    why = "waits for something beside the page; in a worker nothing can be awaited"
    raise ExtractError(f"callback {name}", why)


def _found(given: Any, spider: "Spider", context: Context) -> Iterator[Found]:
    from scrapy import Request

    if given is None:
        return
    if not isinstance(given, Request):
        try:
            yield scrapy_wire.item_fields(given)
        except NotPortableError as error:
            yield Skipped(error.place, error.why)
    elif _is_meant(given, spider, context):
        yield _link(given, spider, context)


def _is_meant(request: "Request", spider: "Spider", context: Context) -> bool:
    """Tell whether the spider is for this page: its domains, and how deep it goes."""
    domains = getattr(spider, "allowed_domains", None) or ()
    allowed = request.dont_filter or request.meta.get("allow_offsite") or not domains
    if not allowed and not _is_of_any(request.url, domains):
        return False
    deepest = spider.settings.getint("DEPTH_LIMIT")
    return not deepest or context.depth < deepest


def _is_of_any(url: str, domains: Iterable[str | None]) -> bool:
    """Tell whether the host is of one of these domains, as Scrapy's off-site filter does.

    >>> _is_of_any("http://shop.example:8080/", ["shop.example"])
    True
    >>> _is_of_any("http://notshop.example/", ["shop.example", None])
    False
    """
    host = urlsplit(url).hostname or ""
    return any(f".{host}".endswith(f".{domain.lower()}") for domain in domains if domain)


def _link(request: "Request", spider: "Spider", context: Context) -> Link | Skipped:
    """Make the link that a request is, or say why it cannot be one."""
    url = request.url[:500]
    try:
        body = request.body.decode() if request.body else None
    except UnicodeDecodeError:
        return Skipped(url, "has a body that is no text of UTF-8")
    try:
        fields = scrapy_wire.request_fields(request, spider)
    except NotPortableError as error:
        return Skipped(url, str(error))
    for name in ("url", "headers", "cookies"):
        fields.pop(name, None)
    text = json.dumps(fields, separators=(",", ":"))
    headers = _headers(request)
    parts = (request.url, text, body or "", *headers, *headers.values())
    size = sum(len(part.encode()) for part in parts)
    if size > LONGEST:
        why = f"has {size:,} bytes with its body, meta and headers; {LONGEST:,} is the most"
        return Skipped(url, why)
    link = context.link(request.url, context.rule, meta={SCRAPY_META: text} if fields else {})
    if link is None:
        return Skipped(url, "is no page that can be requested")
    return msgspec.structs.replace(
        link, headers=headers, method=request.method, body=body, repeat=request.dont_filter
    )


def _headers(request: "Request") -> dict[str, str]:
    headers = {
        name.decode("latin-1"): b", ".join(values).decode("latin-1")
        for name, values in request.headers.items()
    }
    given: Any = request.cookies
    several = not isinstance(given, Mapping)
    pairs = [(one["name"], one["value"]) for one in given] if several else given.items()
    if pairs:
        cookies = (
            f"{scrapy_wire.text_of(name)}={scrapy_wire.text_of(value)}" for name, value in pairs
        )
        headers.setdefault("Cookie", "; ".join(cookies))
    return headers
