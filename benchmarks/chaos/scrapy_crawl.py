"""A Scrapy crawl beside the fleet: its requests and its items are to survive what Redis loses.

``python -m benchmarks.chaos.scrapy_crawl SITE PAGES`` crawls until it is ended; the settings are in
the environment. It stays when it has nothing to do: what it has put into the data queue is in its
hands until it is stored.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from benchmarks.chaos.house import BIZ, World
from infra.local.parts import python_environment

#: A page a so many requests of the run.
REQUESTS_A_PAGE: Final = 8
_END_SECONDS: Final = 20.0
_SETTINGS: Final = {
    "ADDONS": {"crawlfleet.scrapy.Addon": 100},
    "CRAWLFLEET_BIZ": BIZ,
    "CRAWLFLEET_LEASE_SECONDS": 5,
    "SCHEDULER_IDLE_BEFORE_CLOSE": 3_600,
    "DOWNLOAD_DELAY": 0.03,
    "DOWNLOAD_TIMEOUT": 20,
    "TELNETCONSOLE_ENABLED": False,
    "LOG_LEVEL": "WARNING",
}


def name_of(number: int) -> str:
    """Return the name of the item of a page.

    >>> name_of(7)
    'scrapy 7'
    """
    return f"scrapy {number}"


class ScrapyCrawl:
    """The crawl's process, which is started again when it dies.

    Args:
        world: Where it is joined.
        site: The address of its pages, which their numbers follow.
        pages: How many there are; where there are none, no process is started.
        log: A file for its log.
    """

    def __init__(self, world: World, site: str, pages: int, log: Path | None) -> None:
        self.pages = pages
        self._world, self._site, self._log = world, site, log
        self._stack = ExitStack()
        self._folder = ""
        self._process: subprocess.Popen[bytes] | None = None
        self.started = 0

    def keep(self) -> None:
        """Start the process where it does not live."""
        if not self.pages or (self._process is not None and self._process.poll() is None):
            return
        self.started += 1
        out = Path(os.devnull) if self._log is None else self._log.with_suffix(".scrapy.log")
        with out.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "benchmarks.chaos.scrapy_crawl",
                    self._site,
                    str(self.pages),
                ],
                env={
                    **python_environment(),
                    "CRAWLFLEET_REDIS_URL": self._world.redis,
                    "CHAOS_TENANT": self._world.tenant,
                    "CHAOS_JOURNAL": self._folder,
                },
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """Kill it; another one goes on with its journal."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def missing(self, names: Callable[[], Iterator[str]]) -> list[str]:
        """Return the items that are not among the records."""
        found = set(names())
        return [name for number in range(self.pages) if (name := name_of(number)) not in found]

    def __enter__(self) -> Self:
        """Start."""
        folder = tempfile.TemporaryDirectory(prefix="chaos-scrapy-")
        self._folder = self._stack.enter_context(folder)
        self.keep()
        return self

    def __exit__(self, *_: object) -> None:
        """End it in good order, or kill it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._stack.close()


def main() -> None:
    """Crawl."""
    import scrapy
    from scrapy.crawler import CrawlerProcess

    site, pages = sys.argv[1], int(sys.argv[2])

    class PagesSpider(scrapy.Spider):
        name = "chaos"
        start_urls = [f"{site}/0"]  # noqa: RUF012  as Scrapy has it

        def parse(self, response: Any) -> Iterator[Any]:
            number = int(response.url.rpartition("/")[2])
            yield {"name": name_of(number)}
            for other in (2 * number + 1, 2 * number + 2):
                if other < pages:
                    yield response.follow(f"{site}/{other}", self.parse)

    where = {
        "CRAWLFLEET_TENANT": os.environ["CHAOS_TENANT"],
        "CRAWLFLEET_JOURNAL": os.environ["CHAOS_JOURNAL"],
    }
    process = CrawlerProcess({**_SETTINGS, **where})
    process.crawl(PagesSpider)
    process.start()


if __name__ == "__main__":
    main()
