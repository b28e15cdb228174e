"""Join any Scrapy project to a fleet by settings alone (SPEC.md E1, H10).

::

    ADDONS = {"crawlfleet.scrapy.Addon": 100}
    CRAWLFLEET_REDIS_URL = "redis://127.0.0.1:6379/0"
    CRAWLFLEET_BIZ = "shop"

A request leaves Redis when its callback is exhausted and everything that it yielded is queued;
until then it is leased. Processes on any number of machines share a crawl, and the leased requests
of one that dies, at whatever instant, are done by another. Nothing is pickled.

The add-on stands for ``SCHEDULER``, ``DUPEFILTER_CLASS`` and one of ``ITEM_PIPELINES``, each of
which may be set by itself to the class of that name here. The settings are those of
:class:`crawlfleet.scrapy.settings.ProjectSettings`.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from scrapy.settings import Settings

    from crawlfleet.scrapy.fingerprints import (
        DupeFilter,
        Legacy26Fingerprinter,
        ScrapyRedisFingerprinter,
    )
    from crawlfleet.scrapy.pipeline import Pipeline
    from crawlfleet.scrapy.scheduler import Scheduler
    from crawlfleet.scrapy.spiders import RedisCrawlSpider, RedisMixin, RedisSpider

__all__ = [
    "Addon",
    "DupeFilter",
    "Legacy26Fingerprinter",
    "Pipeline",
    "RedisCrawlSpider",
    "RedisMixin",
    "RedisSpider",
    "Scheduler",
    "ScrapyRedisFingerprinter",
]

# Imported lazily: a project that uses one part does not import the others.
_PLACES: Final = {
    "DupeFilter": "fingerprints",
    "Legacy26Fingerprinter": "fingerprints",
    "Pipeline": "pipeline",
    "RedisCrawlSpider": "spiders",
    "RedisMixin": "spiders",
    "RedisSpider": "spiders",
    "Scheduler": "scheduler",
    "ScrapyRedisFingerprinter": "fingerprints",
}
#: Above Scrapy's defaults, below the project's own settings.
_PRIORITY: Final = "addon"
_PIPELINE: Final = "crawlfleet.scrapy.Pipeline"
_PLACE: Final = 300


class Addon:
    """Sets scheduler and dupefilter, and the pipeline where ``CRAWLFLEET_BIZ`` is set."""

    def update_settings(self, settings: "Settings") -> None:
        """Change the settings before Scrapy reads them."""
        settings.set("SCHEDULER", "crawlfleet.scrapy.Scheduler", _PRIORITY)
        settings.set("DUPEFILTER_CLASS", "crawlfleet.scrapy.DupeFilter", _PRIORITY)
        pipelines = settings.getdict("ITEM_PIPELINES")
        if settings.get("CRAWLFLEET_BIZ") and _PIPELINE not in pipelines:
            # A change in place keeps the priority that the project has given the setting.
            settings["ITEM_PIPELINES"][_PIPELINE] = _PLACE


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
