"""One line for all settings: ``ADDONS = {"crawlfleet.scrapy.Addon": 100}``."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from scrapy.settings import Settings


#: Above Scrapy's defaults and what other add-ons say, below what the project says itself.
_PRIORITY: Final = "addon"
_PIPELINE: Final = "crawlfleet.scrapy.Pipeline"
_PLACE: Final = 300


class Addon:
    """Sets scheduler and dupefilter, and the pipeline where ``CRAWLFLEET_BIZ`` says for whom."""

    def update_settings(self, settings: "Settings") -> None:
        """Called by Scrapy before anything is made of the settings."""
        settings.set("SCHEDULER", "crawlfleet.scrapy.Scheduler", _PRIORITY)
        settings.set("DUPEFILTER_CLASS", "crawlfleet.scrapy.DupeFilter", _PRIORITY)
        pipelines = settings.getdict("ITEM_PIPELINES")
        if settings.get("CRAWLFLEET_BIZ") and _PIPELINE not in pipelines:
            # What is changed in place keeps the priority that the project has given it.
            settings["ITEM_PIPELINES"][_PIPELINE] = _PLACE
