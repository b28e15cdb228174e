"""Drain the queue, as one process of several: ``python -m benchmarks.volume.worker NUMBER``.

The consumer's wiring as it is, but that its downloads are answered from memory. It is invoked again
and again, as a warm environment of Lambda is, until an invocation ends because nothing is left.
"""

import sys
import time
from collections import Counter
from types import TracebackType
from typing import Any, Final, Self

from benchmarks.house import BenchParts
from benchmarks.usage import Started, cpu_seconds, peak_kb, report
from benchmarks.volume.children import begin
from benchmarks.volume.pages import ROBOTS, page_of
from crawlfleet.apps import consumer as wiring
from crawlfleet.apps.process import keep_memory
from crawlfleet.config.documents.biz import FetchLimits
from crawlfleet.crawling.fetching.models import NO_FETCH_CONTEXT, FetchContext, HopGuard
from crawlfleet.kernel.page import Page
from crawlfleet.requests.models import Body

#: How long Lambda lets an invocation work.
INVOCATION_SECONDS: Final = 900.0
_COUNTS: Final = ("leased", "done", "retried", "dead", "skipped", "put_aside", "lost", "left")


class LocalFetcher:
    """Answers every request at once, after all that is asked before anything may be sent."""

    def __init__(self, allow_private: bool, **surroundings: Any) -> None:
        del allow_private, surroundings  # it connects to nothing

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    async def fetch(
        self,
        body: Body,
        limits: FetchLimits,
        hop_guard: HopGuard | None = None,
        fetch_context: FetchContext = NO_FETCH_CONTEXT,
    ) -> Page:
        """Download as the fetcher does, from memory."""
        del limits, fetch_context
        if hop_guard is not None:
            await hop_guard(body.url)
        return ROBOTS if body.url.endswith("/robots.txt") else page_of(body.url)


def main() -> None:
    task, number = begin(), int(sys.argv[1])
    # What the wiring names is what it takes; it is looked up at the call.
    vars(wiring)["AiohttpFetcher"] = LocalFetcher
    parts = BenchParts(task.addresses, task.plan.tree(), "consumer")
    consumer = wiring.Consumer(parts)
    keep_memory()
    counts: Counter[str] = Counter()
    phases: Counter[str] = Counter()
    started, working = time.perf_counter(), cpu_seconds()
    stopped = ""
    with Started() as others:
        while stopped != "idle":
            end = time.monotonic() + INVOCATION_SECONDS
            name = f"volume-{number}-{counts['invocations']}"
            done: dict[str, Any] = consumer.work(name, lambda end=end: end - time.monotonic())  # type: ignore[misc]  # mypy cannot infer a lambda's default
            counts.update({key: done[key] for key in _COUNTS})
            counts["invocations"] += 1
            phases.update(done["phases"])
            stopped = str(done["stopped_because"])
    seconds = time.perf_counter() - started
    more = {"counts": dict(counts), "phases": dict(phases)}
    consumer.close()  # of processes only those count that have ended
    facts = {
        "working_cpu": cpu_seconds() - working,
        "peak_mb": (peak_kb() + others.peak_kb) // 1024,
    }
    sys.stdout.write(report(pages=counts["done"], seconds=seconds, more=more, **facts) + "\n")


if __name__ == "__main__":
    main()
