"""Runs the project as people do, by ``scrapy crawl`` in a process of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.kit.kernel import QueueKey
from tests.kit.records import RedisDataQueue, item_of
from tests.kit.redis import RedisConnection
from tests.kit.requests import Item
from tests.kit.scrapy import CrawlKeys, crawl_keys

PROJECT = Path(__file__).parent
_ROOT = PROJECT.parents[1]
_SECONDS = 180


class Crawls:
    """The crawls of one tenant; its processes end with the test.

    Args:
        connection: The Redis that they share.
        redis_url: Its address.
        tenant: Whose they are.
        folder: Where the processes' logs go.
    """

    def __init__(
        self, connection: RedisConnection, redis_url: str, tenant: str, folder: Path
    ) -> None:
        self.connection = connection
        self._url = redis_url
        self._tenant = tenant
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []

    def begin(
        self, spider: str, *arguments: str, settings: str = "linked.settings", address: bool = True
    ) -> "Process":
        """Start ``scrapy crawl``; without ``address`` its settings say alone where Redis is."""
        log = self._folder / f"{len(self._processes)}.log"
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("COV_")},
            "PYTHONPATH": str(_ROOT / "layers/crawlfleet/python"),
            "CRAWLFLEET_REDIS_URL": self._url if address else "",
            "LINKED_TENANT": self._tenant,
            "SCRAPY_SETTINGS_MODULE": settings,
        }
        python = os.environ.get("LINKED_PYTHON", sys.executable)
        journal = ("-s", f"CRAWLFLEET_JOURNAL={self._folder / 'journal'}")
        with log.open("wb") as out:
            process = subprocess.Popen(
                [python, "-m", "scrapy", "crawl", spider, *journal, *arguments],
                cwd=PROJECT,
                env=environment,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self._processes.append(process)
        return Process(process, log)

    def run(self, spider: str, *arguments: str) -> str:
        """Crawl to the end; returns the log."""
        return self.begin(spider, *arguments).end()

    def items(self, biz: str = "docs") -> list[Item]:
        """Lease all items of the data queue; return them in the order of their arrival."""
        now = datetime.now(UTC)
        queue = RedisDataQueue(self.connection)
        queue_key = QueueKey(self._tenant, biz, "main")
        found: list[Item] = []
        while part := queue.lease(queue_key, "test", 500, now, now + timedelta(hours=1)):
            found += [item_of(each.data) for each in part]
        return found

    def pages(self) -> set[int]:
        """The pages of which an item arrived."""
        return {item.fields["page"] for item in self.items()}

    def keys(self, crawl: str = "pages") -> CrawlKeys:
        """Return the Redis keys of a crawl."""
        return crawl_keys(self._tenant, crawl)

    def left(self, crawl: str = "pages") -> list[str]:
        """The kinds of keys that the crawl has in Redis for good."""
        client, names = self.connection.client, self.keys(crawl)._asdict()
        return [name for name, key in names.items() if client.ttl(key) == -1]

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()


class Process:
    """A ``scrapy crawl`` under way."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def code(self) -> int | None:
        """Return the exit code of the process; None while it runs."""
        return self._process.poll()

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        """Kill the process, as a power failure of its machine would."""
        self._process.kill()
        self._process.wait()

    def interrupt(self) -> str:
        """Ctrl-C once; returns the log when it has ended."""
        self._process.send_signal(signal.SIGINT)
        return self.end()

    def terminate(self) -> str:
        """SIGTERM once; returns the log when it has ended."""
        self._process.terminate()
        return self.end()

    def end(self) -> str:
        self._process.wait(timeout=_SECONDS)
        return self.log


@contextmanager
def crawls(
    connection: RedisConnection, redis_url: str, tenant: str, folder: Path
) -> Iterator[Crawls]:
    made = Crawls(connection, redis_url, tenant, folder)
    try:
        yield made
    finally:
        made.close()
