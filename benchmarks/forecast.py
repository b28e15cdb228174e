"""Forecasts of runs beside what they took: simulated ones of several kinds, and real crawls.

Each run is forecast from those before it, as a job is at its start. The simulated ones differ in
what makes forecasts wrong: sizes, links that lead to more or less, a site that grows, one that is
slow on some days, pages that fail. The real ones are crawls of the local site, of several sizes.
"""

import random
import statistics
from collections.abc import Callable, Sequence
from typing import Any, Final

from benchmarks.bench import Bench, Found
from benchmarks.crawl import ours
from benchmarks.house import tree_of
from benchmarks.site import running_site
from crawlfleet.config.documents.prices import PriceTerms
from crawlfleet.fleet.prices import cost_of, prices_of
from crawlfleet.jobs.costs.forecast import Known, RunSummary, figures_of, forecast

#: Runs of each simulated spider; the first ones are forecast from nothing and are not judged.
RUNS: Final = 20
SPIDERS_OF_A_KIND: Final = 20
UNJUDGED: Final = 1
#: Parts of the pages of ``crawl`` that real runs have.
SIZES: Final = (1.0, 0.4, 0.7, 0.5, 0.9, 0.6)
_PRICES: Final = prices_of(PriceTerms())


def _run(draw: random.Random, size: int, pages: float, slow: float = 1.0) -> RunSummary:
    """A run that waits some seconds at its begin and end, and whose pages differ a little."""
    count = max(1, round(pages))
    each = draw.lognormvariate(0, 0.05)
    return RunSummary(
        size=size,
        pages=count,
        seconds=4 + count * 0.05 * slow * draw.lognormvariate(0, 0.1),
        bytes=round(count * 60_000 * each),
        gb_seconds=0.3 + count * 0.02 * slow * draw.lognormvariate(0, 0.1),
        stored_bytes=round(count * 400 * each),
    )


def _steady(draw: random.Random, _: int) -> RunSummary:
    return _run(draw, 500, 500)


def _sized(draw: random.Random, _: int) -> RunSummary:
    size = round(draw.lognormvariate(6, 1))
    return _run(draw, size, size)


def _linked(draw: random.Random, _: int) -> RunSummary:
    return _run(draw, 1, 2_000 * draw.lognormvariate(0, 0.2))


def _growing(draw: random.Random, number: int) -> RunSummary:
    return _run(draw, 1, 500 * 1.05**number * draw.lognormvariate(0, 0.05))


def _slow_at_times(draw: random.Random, _: int) -> RunSummary:
    return _run(draw, 300, 300, slow=4.0 if draw.random() < 0.15 else 1.0)


def _failing(draw: random.Random, _: int) -> RunSummary:
    return _run(draw, 400, 400 * draw.uniform(1.0, 1.4))


KINDS: Final[dict[str, Callable[[random.Random, int], RunSummary]]] = {
    "steady": _steady,
    "of several sizes": _sized,
    "following links": _linked,
    "on a site that grows": _growing,
    "on a site that is slow at times": _slow_at_times,
    "with pages that fail": _failing,
}


def errors_of(runs: Sequence[RunSummary], *, follows: bool) -> list[float]:
    """Forecast each run from those before it; return by what part its cost was missed."""
    found = []
    for place in range(UNJUDGED, len(runs)):
        run = runs[place]
        said = forecast(
            run.size, Known(runs[:place][-20:]), _PRICES, follows=follows, seconds_a_page=0.1
        )
        truth = cost_of(figures_of(run), _PRICES).usd
        missed = (abs(said.usd.likely / truth - 1), abs(said.seconds.likely / run.seconds - 1))
        found += [*missed, abs(said.pages.likely / run.pages - 1)]
    return found


def _real(bench: Bench) -> list[RunSummary]:
    found = []
    with running_site(bench.scale.pages) as site:
        for part in SIZES:
            bench.addresses.clear()
            urls = site.urls(max(20, round(bench.scale.crawl_requests * part)))
            done: dict[str, Any] = ours(bench, tree_of(), urls)
            count, seconds = int(done["pages"]), float(done["seconds"])
            found.append(
                RunSummary(
                    size=len(urls),
                    pages=count,
                    seconds=seconds,
                    bytes=round(count * site.mean_bytes),
                    gb_seconds=seconds,
                )
            )
            bench.tick(f"forecast, a real run of {count:,} pages")
    return found


def run(bench: Bench) -> Found:
    """Forecast simulated runs of each kind, and real ones."""
    draw = random.Random(11)
    missed: dict[str, list[float]] = {}
    for kind, make in KINDS.items():
        missed[kind] = []
        for _ in range(SPIDERS_OF_A_KIND):
            runs = [make(draw, number) for number in range(RUNS)]
            missed[kind] += errors_of(runs, follows=runs[0].size == 1)
    real = _real(bench)
    missed["real"] = errors_of(real, follows=False)
    medians = {kind: statistics.median(errors) for kind, errors in missed.items()}
    return Found(
        figures={"forecast_error_median": max(medians.values())},
        details={"forecast errors, median by kind": medians},
    )
