"""A crawl of which nothing is traced, the default share, and all: CPU a page of the worker.

The pages, the rule and the site are those of ``crawl``. Spans go to a socket that takes the place
of X-Ray's daemon, which Lambda runs beside a function; nobody reads what they say.
"""

import socket
import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from msgspec.structs import replace

from benchmarks.bench import Bench, BenchError, Found
from benchmarks.crawl import ours
from benchmarks.figures import rotated
from benchmarks.house import BIZ, ENV_XRAY, TENANT, tree_of
from benchmarks.site import running_site
from crawlfleet.config.documents.biz import Biz, Tree

_DEFAULT: Final = tree_of().bizs[TENANT][BIZ].trace_share
SHARES: Final = {"none": 0.0, "default": _DEFAULT, "all": 1.0}
#: Spans of a page that is traced: queue, attempt, hop, read, settle.
_SPANS: Final = 5


def run(bench: Bench) -> Found:
    """Measure each share in turn."""
    scale = bench.scale
    spent: dict[str, list[float]] = {name: [] for name in SHARES}
    with running_site(scale.pages) as site, _daemon() as (address, count):
        urls = site.urls(scale.crawl_requests)
        for number in range(scale.crawl_rounds):
            for name in rotated(list(SHARES), number):
                bench.addresses.clear()
                before = count()
                done = ours(bench, tracing(SHARES[name]), urls, **{ENV_XRAY: address})
                sent = count() - before
                if done["pages"] != len(urls) or _wrong(name, sent, len(urls)):
                    raise BenchError(f"{name}: {sent} spans, {done['pages']} of {len(urls)} pages")
                spent[name].append(done["working_cpu"] / done["pages"])
                bench.tick(f"tracing, {name}: {1000 * spent[name][-1]:.3f} ms a page")
    ratios = {
        name: [one / none for one, none in zip(spent[name], spent["none"], strict=True)]
        for name in ("default", "all")
    }
    whole = statistics.median(ratios["all"]) - 1
    return Found(
        figures={
            "tracing_cpu_default": statistics.median(ratios["default"]),
            "tracing_cpu_all": statistics.median(ratios["all"]),
        },
        details={
            "CPU a page by the share that is traced": spent,
            "the same / nothing traced": ratios,
            "share of CPU a page at the default share, by what all cost": whole * _DEFAULT,
        },
    )


def tracing(share: float) -> Tree:
    """A configuration of which so much is traced."""
    tree = tree_of()
    biz: Biz = replace(tree.bizs[TENANT][BIZ], trace_share=share)
    return replace(tree, bizs={TENANT: {BIZ: biz}})


def _wrong(name: str, sent: int, pages: int) -> bool:
    """Check that what was to be measured took place; the socket may lose some."""
    return sent > 0 if name == "none" else name == "all" and sent < pages * _SPANS // 2


@contextmanager
def _daemon() -> Iterator[tuple[str, "Counting"]]:
    """Take spans by UDP; yields the address, and what counts them."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taking:
        taking.bind(("127.0.0.1", 0))
        taking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_000_000)
        counting = Counting(taking)
        thread = threading.Thread(target=counting.run, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{taking.getsockname()[1]}", counting
        finally:
            counting.stop()
            thread.join()


class Counting:
    """Counts what comes by a socket."""

    def __init__(self, taking: socket.socket) -> None:
        self._taking, self._count, self._stopped = taking, 0, threading.Event()
        taking.settimeout(0.2)

    def __call__(self) -> int:
        return self._count

    def run(self) -> None:
        """Take until stopped."""
        while not self._stopped.is_set():
            try:
                self._taking.recv(65_536)
            except TimeoutError:
                continue
            self._count += 1

    def stop(self) -> None:
        """Take no more."""
        self._stopped.set()
