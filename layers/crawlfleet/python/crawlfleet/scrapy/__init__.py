"""Join any Scrapy project to a fleet by settings alone (SPEC.md E1, H10).

::

    ADDONS = {"crawlfleet.scrapy.Addon": 100}
    CRAWLFLEET_REDIS_URL = "redis://127.0.0.1:6379/0"
    CRAWLFLEET_BIZ = "shop"

A request leaves Redis when its callback is exhausted and everything that it yielded is queued;
until then it is leased. Processes on any number of machines share a crawl, and the leased requests
of one that dies, at whatever instant, are done by another. Nothing is pickled.

The add-on stands for ``SCHEDULER``, ``DUPEFILTER_CLASS`` and one of ``ITEM_PIPELINES``, each of
which may be set by itself to the class of that name here. Where a project has set scrapy-redis'
there, ours takes their places (:mod:`crawlfleet.scrapy.scrapy_redis`). The settings are those of
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
    from crawlfleet.scrapy.politeness import PolitenessMiddleware
    from crawlfleet.scrapy.scheduler import Scheduler
    from crawlfleet.scrapy.spiders import RedisCrawlSpider, RedisMixin, RedisSpider
    from crawlfleet.scrapy.stats import StatsCollector

__all__ = [
    "Addon",
    "DupeFilter",
    "Legacy26Fingerprinter",
    "Pipeline",
    "PolitenessMiddleware",
    "RedisCrawlSpider",
    "RedisMixin",
    "RedisSpider",
    "Scheduler",
    "ScrapyRedisFingerprinter",
    "StatsCollector",
]

# Imported lazily: a project that uses one part does not import the others.
_PLACES: Final = {
    "DupeFilter": "fingerprints",
    "Legacy26Fingerprinter": "fingerprints",
    "Pipeline": "pipeline",
    "PolitenessMiddleware": "politeness",
    "RedisCrawlSpider": "spiders",
    "RedisMixin": "spiders",
    "RedisSpider": "spiders",
    "Scheduler": "scheduler",
    "ScrapyRedisFingerprinter": "fingerprints",
    "StatsCollector": "stats",
}
#: Above Scrapy's defaults, below the project's own settings.
_PRIORITY: Final = "addon"
_PIPELINE: Final = "crawlfleet.scrapy.Pipeline"
_PLACE: Final = 300
#: Nearest to the downloader: what a cache answers takes no slot.
_POLITENESS: Final = "crawlfleet.scrapy.PolitenessMiddleware"
_NEAREST: Final = 990
_REACTOR: Final = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"


class Addon:
    """Sets scheduler and dupefilter; where ``CRAWLFLEET_BIZ`` is set, pipeline and politeness."""

    def update_settings(self, settings: "Settings") -> None:
        """Change the settings before Scrapy reads them.

        Raises ConfigError (names a scheduler or dupefilter that cannot stand beside ours).
        """
        from crawlfleet.scrapy.scrapy_redis import replace_classes
        from crawlfleet.scrapy.settings import log_errors_in_one_line

        log_errors_in_one_line()
        replace_classes(settings)
        settings.set("SCHEDULER", "crawlfleet.scrapy.Scheduler", _PRIORITY)
        settings.set("DUPEFILTER_CLASS", "crawlfleet.scrapy.DupeFilter", _PRIORITY)
        if not settings.get("CRAWLFLEET_BIZ"):
            return
        for name, path, place in (
            ("ITEM_PIPELINES", _PIPELINE, _PLACE),
            ("DOWNLOADER_MIDDLEWARES", _POLITENESS, _NEAREST),
        ):
            if path not in settings.getdict(name):
                # A change in place keeps the priority that the project has given the setting.
                settings[name][path] = place
        if not settings.get("TWISTED_REACTOR"):  # before 2.13
            settings.set("TWISTED_REACTOR", _REACTOR, _PRIORITY)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
