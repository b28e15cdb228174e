"""The errors that an executor of one's own raises."""

from crawlfleet.kernel.errors import CrawlfleetError, ExtractError, Problem

__all__ = ["CrawlfleetError", "ExtractError", "Problem"]
