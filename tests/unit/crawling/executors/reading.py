"""Reads a page as a consumer does, and sorts what comes of it."""

from datetime import UTC, datetime
from pathlib import Path

from tests.kit.config import Spider
from tests.kit.executors import Registry, SpiderExecutors
from tests.kit.extract import RuleExtractor
from tests.kit.requests import Body, Link, Page, Skipped

SAMPLE = Path(__file__).parents[4] / "samplesconfig" / "executors"
NOW = datetime(2026, 3, 10, tzinfo=UTC)


class Reading:
    """The records, links and skips that a spider made of a page, by kind."""

    def __init__(self, found):
        self.found = list(found)
        self.links = [one for one in self.found if isinstance(one, Link)]
        self.skipped = [one for one in self.found if isinstance(one, Skipped)]
        self.records = [one for one in self.found if isinstance(one, dict)]

    @property
    def urls(self):
        return [link.url for link in self.links]


def page(body, url="https://garden.example/x", content_type=""):
    headers = {"content-type": content_type} if content_type else {}
    text = body.encode() if isinstance(body, str) else body
    return Page(url=url, status=200, headers=headers, body=text)


def spider(executor, **parameters):
    return Spider(executor=executor, parameters=parameters)


class Reader:
    """Reads pages as a consumer does."""

    def __init__(self, registry=None, **options):
        registry = registry or Registry(installed=False)
        options = {"clock": lambda: NOW} | options
        self.executors = SpiderExecutors(registry, RuleExtractor(), **options)

    def stream(self, spider, page, *, rule="it", depth=0, meta=None):
        body = Body(url=page.url, rule=rule, rule_version="v", depth=depth, meta=meta or {})
        return self.executors.read(spider, page, body)

    def __call__(self, spider, page, **about):
        return Reading(self.stream(spider, page, **about))
