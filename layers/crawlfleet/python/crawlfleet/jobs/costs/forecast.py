"""Forecast a run from what earlier ones took (SPEC.md H2). Pure.

Each earlier run says what this one would take if it were as that one was, for its size. Runs of the
same spider count in full, the latest most; those of its hosts, and of the tenant, as much together
as a run or a half; what nobody has measured yet, a little. Of these the median is likely, and the
range goes from the tenth to the ninetieth part, wider where few are known. Where each of the latest
runs took more than those before it had said, as a site grows, so will this one.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import msgspec

from crawlfleet.fleet.prices import Prices, cost_of
from crawlfleet.jobs.models import Band, JobForecast, RunFigures
from crawlfleet.jobs.spiders.models import Start, size, url_at
from crawlfleet.kernel.hosts import host_of

#: Hosts of a start that forecasts look at: those of its first page, its middle one and its last.
_LOOKED_AT: Final = (0.0, 0.5, 1.0)
#: Runs that are kept of a spider, a host, a tenant.
KEPT: Final = 20
#: Each run counts so much less than the next one.
_FADES: Final = 0.9
#: The weight of all runs of the hosts, of the tenant, and of what is assumed, together.
_HOSTS, _TENANT, _ASSUMED = 1.0, 0.5, 0.3
#: What is assumed may be so many times less, or more.
_UNSURE: Final = 5.0
#: A run's links lead to so many pages for each that it begins with, where nobody knows.
_LINKED: Final = 20.0
_LOW, _HIGH = 0.1, 0.9
#: A range is no wider than so many times what is likely; and no amount is above the other one.
_WIDEST: Final = 100.0
_MOST: Final = 1e15
#: A line is laid through runs whose sizes differ by so much; a run's own overhead shows then.
_SPREAD: Final = 1.5
_LEAST_RUNS: Final = 3
#: Latest runs that are compared with what was said of them, and how far that corrects at most.
_COMPARED: Final = 5
_MOST_CORRECTED: Final = 2.0
#: A page, where nobody has measured one: bytes, and GB-seconds of a worker with many at once.
_PAGE_BYTES: Final = 100_000.0
_PAGE_GB_SECONDS: Final = 0.016


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a run whose start had ``size`` pages; ``seconds`` from its start to its end.

    ``pages`` are attempts at pages. ``forecast`` is what was forecast of it at its start.
    """

    size: int
    pages: int
    seconds: float
    bytes: int = 0
    gb_seconds: float = 0.0
    stored_bytes: int = 0
    proxy_usd: float = 0.0
    forecast: JobForecast | None = None


class Known(NamedTuple):
    """Earlier runs, the latest last: of the spider, its hosts, its tenant."""

    spider: Sequence[RunSummary] = ()
    hosts: Sequence[RunSummary] = ()
    tenant: Sequence[RunSummary] = ()


class _Said(NamedTuple):
    """An amount that one run says, and how much that counts."""

    value: float
    weight: float


def forecast(
    size: int, known: Known, prices: Prices, *, follows: bool, seconds_a_page: float
) -> JobForecast:
    """Forecast a run whose start has ``size`` pages.

    It ``follows`` links, or does not; ``seconds_a_page`` are what its host allows at the least.

    >>> from crawlfleet.config.documents.prices import PriceTerms
    >>> from crawlfleet.fleet.prices import prices_of
    >>> runs = [RunSummary(size=10, pages=10, seconds=20.0, bytes=5000)] * 4
    >>> prices = prices_of(PriceTerms())
    >>> found = forecast(20, Known(runs), prices, follows=False, seconds_a_page=0.1)
    >>> found.pages.likely, found.bytes.likely, round(found.seconds.likely)
    (20.0, 10000.0, 40)
    """
    runs = len(known.spider)
    assumed_pages = size * (_LINKED if follows else 1.0)

    def of(
        to: float,
        per: Callable[[RunSummary], float],
        get: Callable[[RunSummary], float],
        usual: float,
    ) -> Band:
        said = [*_by_line(known.spider, to, per, get)]
        for some, weight in ((known.hosts, _HOSTS), (known.tenant, _TENANT)):
            said += _by_ratio(some, to, per, get, weight)
        unsure = (1 / _UNSURE, 1.0, _UNSURE)
        said += [_Said(usual * times, _ASSUMED / len(unsure)) for times in unsure]
        return _band(said, runs)

    pages = of(size, _size, _pages, assumed_pages)
    pages = _times(pages, _growth(known.spider, _size, _pages))
    if not follows:
        # Without links it is its start, and what is tried again.
        pages = Band(
            low=max(pages.low, min(size, pages.likely)), likely=pages.likely, high=pages.high
        )

    def each(get: Callable[[RunSummary], float], usual: float) -> Band:
        band = of(pages.likely, _pages, get, usual * pages.likely)
        band = _times(band, _growth(known.spider, _pages, get))
        if pages.likely < 1:
            return band
        # What is wide of pages is as wide of what they take.
        low, high = pages.low / pages.likely, min(_WIDEST, pages.high / pages.likely)
        return Band(low=band.low * low, likely=band.likely, high=band.high * high)

    size_bytes = each(lambda run: run.bytes, _PAGE_BYTES)
    seconds = each(lambda run: run.seconds, seconds_a_page)
    work = each(lambda run: run.gb_seconds, _PAGE_GB_SECONDS)
    stored = each(lambda run: run.stored_bytes, 0.0)
    proxies = each(lambda run: run.proxy_usd, 0.0)

    def usd(pick: Callable[[Band], float]) -> float:
        figures = RunFigures(
            requests=round(pick(pages)),
            bytes=round(pick(size_bytes)),
            gb_seconds=pick(work),
            stored_bytes=round(pick(stored)),
            proxy_usd=pick(proxies),
            workers=1,
        )
        return cost_of(figures, prices).usd

    money = Band(low=usd(_low), likely=usd(_likely), high=usd(_high))
    return JobForecast(
        pages=pages,
        bytes=size_bytes,
        seconds=seconds,
        usd=money,
        runs=runs,
        error=error_of(known.spider, prices),
        why=tuple(_why(known, follows=follows)),
    )


class BudgetReach(NamedTuple):
    """The reach of a budget: the part of a run that it pays for, its pages, when it is used up.

    ``seconds`` go from the start to the end of the run, or of the budget.
    """

    part: Band
    pages: Band
    seconds: Band


def reach_of(found: JobForecast, usd: float) -> BudgetReach:
    """Compute what a budget pays for of a run: of a small one, of the likely one, of a large one.

    >>> each = Band(low=50.0, likely=100.0, high=400.0)
    >>> money = Band(low=1.0, likely=2.0, high=8.0)
    >>> run = JobForecast(pages=each, bytes=each, seconds=each, usd=money)
    >>> reach = reach_of(run, 2.0)
    >>> reach.part, reach.pages.likely, reach.seconds.high
    (Band(low=0.25, likely=1.0, high=1.0), 100.0, 100.0)
    """

    def paid(cost: float) -> float:
        return min(1.0, usd / cost) if cost > 0 else 1.0

    small, likely, large = (paid(pick(found.usd)) for pick in (_low, _likely, _high))

    def of(band: Band) -> Band:
        each = (band.low * small, band.likely * likely, band.high * large)
        return Band(low=min(each), likely=each[1], high=max(each))

    part = Band(low=large, likely=likely, high=small)
    return BudgetReach(part, of(found.pages), of(found.seconds))


def error_of(runs: Sequence[RunSummary], prices: Prices) -> float | None:
    """Compute how far latest forecasts of money were from what runs cost, as a part of that.

    It is the median of them; None where none was forecast.
    """
    found = sorted(
        abs(run.forecast.usd.likely - truth) / truth
        for run in runs[-_COMPARED:]
        if run.forecast is not None and (truth := _usd(run, prices)) > 0
    )
    return found[len(found) // 2] if found else None


def _why(known: Known, *, follows: bool) -> Iterable[str]:
    """Say for people what a forecast rests on, where that is little."""
    if len(known.spider) >= _LEAST_RUNS:
        return
    runs = len(known.spider)
    are = "earlier run of it is" if runs == 1 else "earlier runs of it are"
    yield f"{runs} {are} known: the range is wide"
    if not known.spider:
        if known.hosts:
            yield "its pages are taken to be as others of the same hosts were"
        elif known.tenant:
            yield "its pages are taken to be as those of the tenant's other runs were"
        else:
            yield "nothing was measured yet: a page is taken to have 100 KB"
        if follows:
            yield f"it follows links: {_LINKED:g} pages are assumed for each that it begins with"


def _size(run: RunSummary) -> float:
    return run.size


def _pages(run: RunSummary) -> float:
    return run.pages


def _low(band: Band) -> float:
    return band.low


def _likely(band: Band) -> float:
    return band.likely


def _high(band: Band) -> float:
    return band.high


def _usd(run: RunSummary, prices: Prices) -> float:
    return cost_of(figures_of(run), prices).usd


def figures_of(run: RunSummary) -> RunFigures:
    """Return what is paid for of a run."""
    return RunFigures(
        requests=run.pages,
        bytes=run.bytes,
        gb_seconds=run.gb_seconds,
        stored_bytes=run.stored_bytes,
        proxy_usd=run.proxy_usd,
        workers=1,
    )


def _faded(runs: Sequence[RunSummary]) -> list[tuple[RunSummary, float]]:
    return [(run, _FADES**age) for age, run in enumerate(reversed(runs))]


def _by_ratio(
    runs: Sequence[RunSummary],
    to: float,
    per: Callable[[RunSummary], float],
    get: Callable[[RunSummary], float],
    together: float | None = None,
) -> list[_Said]:
    """Return what runs say of something of this size, in proportion."""
    faded = [(run, weight) for run, weight in _faded(runs) if per(run) > 0]
    whole = sum(weight for _, weight in faded)
    by = 1.0 if together is None or not whole else min(1.0, together / whole)
    return [_Said(get(run) / per(run) * to, weight * by) for run, weight in faded]


def _by_line(
    runs: Sequence[RunSummary],
    to: float,
    per: Callable[[RunSummary], float],
    get: Callable[[RunSummary], float],
) -> list[_Said]:
    """Return what runs say by a line through them (Theil and Sen), where their sizes differ."""
    sizes = [per(run) for run in runs if per(run) > 0]
    if len(sizes) < _LEAST_RUNS or max(sizes) < _SPREAD * min(sizes):
        return _by_ratio(runs, to, per, get)
    faded = [(run, weight) for run, weight in _faded(runs) if per(run) > 0]
    slopes = [
        _Said((get(one) - get(other)) / (per(one) - per(other)), weight * by)
        for place, (one, weight) in enumerate(faded)
        for other, by in faded[:place]
        if abs(per(one) - per(other)) > max(sizes) / 20
    ]
    slope = max(0.0, _quantile(slopes, 0.5))
    begins = max(0.0, _quantile([_Said(get(run) - slope * per(run), by) for run, by in faded], 0.5))
    there = begins + slope * to
    found = []
    for run, weight in faded:
        here = begins + slope * per(run)
        found.append(_Said(get(run) / here * there if here > 0 else 0.0, weight))
    return found


def _quantile(said: Sequence[_Said], part: float) -> float:
    """Return the value below which so much of the weight is.

    >>> _quantile([_Said(1.0, 1.0), _Said(5.0, 1.0), _Said(9.0, 1.0)], 0.5)
    5.0
    """
    if not said:
        return 0.0
    ordered = sorted(said)
    passed = list(accumulate(one.weight for one in ordered))
    return ordered[bisect_left(passed, part * passed[-1])].value


def _band(said: Sequence[_Said], runs: int) -> Band:
    said = [_Said(min(_MOST, one.value), one.weight) for one in said]
    likely = _quantile(said, 0.5)
    wider = 1 + 0.5 / max(1, runs)
    return Band(
        low=min(likely, _quantile(said, _LOW)) / wider,
        likely=likely,
        high=max(likely, _quantile(said, _HIGH)) * wider,
    )


def _times(band: Band, factor: float) -> Band:
    return Band(low=band.low * factor, likely=band.likely * factor, high=band.high * factor)


def _growth(
    runs: Sequence[RunSummary],
    per: Callable[[RunSummary], float],
    get: Callable[[RunSummary], float],
) -> float:
    """Compute by how much latest runs took more, or less, than those before them had said."""
    pairs = []
    for place in range(max(_LEAST_RUNS, len(runs) - _COMPARED), len(runs)):
        said = _by_line(runs[:place], per(runs[place]), per, get)
        pairs.append((get(runs[place]), _quantile(said, 0.5)))
    return _corrected(pairs)


def _corrected(pairs: Sequence[tuple[float, float]]) -> float:
    """Compute a correction from pairs of truth and what was said, if all miss on one side.

    >>> round(_corrected([(12.0, 10.0)] * 5), 2), _corrected([(12.0, 10.0), (9.0, 10.0)] * 3)
    (1.2, 1.0)
    """
    ratios = sorted(truth / said for truth, said in pairs if truth > 0 and said > 0)
    if len(ratios) < _COMPARED or ratios[0] < 1 < ratios[-1]:
        return 1.0
    return min(_MOST_CORRECTED, max(1 / _MOST_CORRECTED, ratios[len(ratios) // 2]))


def hosts_of(start: Start) -> list[str]:
    """Return some hosts of a start, its open places being filled.

    >>> hosts_of(Start(urls=("https://a.example/1", "https://b.example/", "https://a.example/2")))
    ['a.example', 'b.example']
    """
    last = size(start) - 1
    if last < 0:
        return []
    urls = (url_at(start, round(part * last)) for part in _LOOKED_AT)
    return list(dict.fromkeys(host for url in urls if (host := host_of(url))))
