"""The figures: what each is, what it is to reach, and the arithmetic from rounds to a figure."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

#: The folders of ``functions/``, and the milliseconds of CPU below which each is to be imported.
IMPORT_MS: Final = {
    "id_issuer": 350,
    "router": 400,
    "consumer": 700,
    "scheduler": 450,
    "monitor": 450,
    "trials": 400,
    "streams": 700,
}
FUNCTIONS: Final = tuple(IMPORT_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure: a key of ``latest.json``. Without a bound it is only printed and kept."""

    key: str
    meaning: str
    least: float | None = None
    most: float | None = None
    below: float | None = None
    above: float | None = None
    needs_peers: bool = False

    @property
    def target(self) -> str:
        """The bound as the table shows it."""
        for sign, bound in ((">=", self.least), ("<=", self.most), ("<", self.below)):
            if bound is not None:
                return f"{sign} {bound:g}"
        return "" if self.above is None else f"> {self.above:g}"

    def reached(self, value: float) -> bool | None:
        """Check whether the value is within the bound; None where there is no bound."""
        if not self.target:
            return None
        return (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
            and (self.above is None or value > self.above)
        )


FIGURES: Final = (
    Figure(
        key="ingest_vs_floor",
        meaning="batches of 1,000 through the router / insert_many + LPUSH",
        least=0.5,
    ),
    Figure(
        key="ingest_vs_rq",
        meaning="batches of 1,000 through the router / RQ's enqueue_many",
        above=1,
        needs_peers=True,
    ),
    Figure(
        key="single_submit_vs_floor",
        meaning="single submissions / insert_one + LPUSH, requests per second",
        least=0.66,
    ),
    Figure(
        key="crawl_vs_scrapy_redis",
        meaning="pages per CPU second, worker / scrapy-redis",
        least=4,
        needs_peers=True,
    ),
    Figure(
        key="crawl_vs_crawlee",
        meaning="pages per CPU second, worker / Crawlee",
        least=3,
        needs_peers=True,
    ),
    Figure(
        key="crawl_vs_floor",
        meaning="pages per CPU second, worker / aiohttp + lexbor",
        least=0.65,
    ),
    Figure(
        key="tracing_cpu_default",
        meaning="CPU a page of a worker, the default share traced / nothing traced",
        most=1.02,
    ),
    Figure(
        key="tracing_cpu_all",
        meaning="the same where every page is traced",
    ),
    Figure(
        key="metering_cost_ratio",
        meaning="CPU a page of a worker, under four quotas / without any",
        most=1.03,
    ),
    Figure(
        key="forecast_error_median",
        meaning="runs' cost, time and pages, missed by their forecasts: median of the worst kind",
        most=0.2,
    ),
    Figure(key="consumer_rss_mb", meaning="memory of a worker at its peak, MB", most=150),
    Figure(
        key="two_worker_speedup",
        meaning="pages per second of two workers / of one, site 250 ms away; limits stand below",
        least=1.7,
    ),
    Figure(
        key="two_worker_speedup_saturated",
        meaning="the same on a site that answers at once, where they share the cores with all else",
        above=1,
    ),
    Figure(
        key="two_worker_efficiency",
        meaning="pages per CPU second of a worker beside another / alone",
        least=0.85,
    ),
    Figure(
        key="politeness_vs_fifo",
        meaning="until all small hosts are done beside a large one: plain queue / slots, deferral",
        above=1,
    ),
    Figure(
        key="politeness_large_host",
        meaning="the large host beside them: time at its rate alone / time taken",
        least=0.95,
    ),
    Figure(
        key="ageing_tasks_beyond_bound",
        meaning="tasks that waited longer than is proven, of those of the simulation",
        most=0,
    ),
    Figure(
        key="ageing_returns_beyond_bound",
        meaning="the same where one in ten comes back with its old time, as retries do",
        most=0,
    ),
    Figure(
        key="ageing_strict_beyond_bound",
        meaning="part of the tasks that strict order keeps waiting beyond that bound",
        above=0,
    ),
    Figure(
        key="ageing_sources_beyond_bound",
        meaning="part of the tasks that the sources' order keeps waiting beyond it: it starves",
        above=0,
    ),
    Figure(
        key="ageing_endless",
        meaning="tasks served with a priority beyond every number of 64 bits, of the simulation",
        most=0,
    ),
    Figure(
        key="ageing_sources_endless",
        meaning="part of the tasks in the sources' order, with 1 for 0: it explodes",
        above=0,
    ),
    Figure(
        key="ageing_worst_vs_strict",
        meaning="longest wait of the lowest priority: strict order / ageing",
        above=1,
    ),
    Figure(
        key="ageing_worst_vs_sources",
        meaning="longest wait of the lowest priority: the sources' order / ageing",
        above=1,
    ),
    Figure(
        key="ageing_urgent_vs_fifo",
        meaning="median wait of the highest priority: first come first served / ageing",
        above=1,
    ),
    Figure(
        key="placement_connections_ratio",
        meaning="connections that polite hosts see: each worker at its own hosts / anybody's",
        most=0.5,
    ),
    Figure(
        key="dedupe_checks_per_s",
        meaning="URLs looked for in a segment's filter, in batches of 1,000; known and strange",
        least=100_000,
    ),
    Figure(
        key="dedupe_bytes_per_url",
        meaning="Redis memory of a URL in a segment's filter, at one error in a thousand",
        most=2,
    ),
    Figure(key="redis_bytes_per_request", meaning="Redis memory of a queued request", most=80),
    Figure(
        key="expansion_vs_submission",
        meaning="tasks a second, a job's expansion / plain submission in batches of 1,000",
        least=0.8,
    ),
    Figure(key="expansion_tasks_per_s", meaning="tasks that one expander makes in a second"),
    Figure(key="expansion_tasks_per_cpu_s", meaning="the same in a second of its processor"),
    Figure(
        key="expansion_memory",
        meaning="memory after a job of 1,000,000 tasks / after a tenth of it",
        most=1.1,
    ),
    Figure(
        key="lease_vs_fifo",
        meaning="leasing 100: time with entries of eleven priorities / the plain list's",
        most=8,
    ),
    Figure(
        key="lease_growth",
        meaning="leasing 100 of eleven priorities: time with the longest queue / the shortest",
        most=2,
    ),
    Figure(key="lookup_p99_ms", meaning="a request by its id, 99th percentile", below=10),
    Figure(
        key="many_bizs_slowdown",
        meaning="CPU a page, a thousand bizs of which ten are busy / one biz",
        most=1.2,
    ),
    Figure(
        key="fleet_redis_cores",
        meaning="part of a core of Redis that the fleet's keys take of it, 1,000 workers, replayed",
        most=0.5,
    ),
    Figure(
        key="fleet_bytes_per_worker",
        meaning="bytes a second that each of 1,000 workers is answered from the fleet's keys",
        most=2_000,
    ),
    Figure(
        key="fleet_calls_growth",
        meaning="calls a second of a worker to the fleet's keys: one of 1,000 / one of ten",
        most=1.2,
    ),
    Figure(
        key="fleet_home_per_s",
        meaning="commands a second to the home node, of all workers together",
        most=20,
    ),
    Figure(
        key="recovery_leases_s",
        meaning="half of the workers killed: until nothing is the dead's, median",
        below=15,
    ),
    Figure(key="recovery_leases_worst_s", meaning="the same, the worst round", below=15),
    Figure(
        key="recovery_all_s",
        meaning="half of the workers killed: until all that they had leased is done, median",
        below=60,
    ),
    Figure(key="recovery_all_worst_s", meaning="the same, the worst round", below=60),
    Figure(
        key="recovery_total_s",
        meaning="all consumers, the scheduler in a tick, or both lost: until all runs again, worst",
        most=60,
    ),
    Figure(key="recovery_consumers_s", meaning="all consumers lost: until all runs again"),
    Figure(key="recovery_scheduler_s", meaning="the scheduler lost in the middle of a tick"),
    Figure(key="recovery_everything_s", meaning="everything but the stores lost"),
    Figure(
        key="scaling_of_plan",
        meaning="a burst that one worker would be late with, on the local cloud: time / its plan",
        most=1,
    ),
    Figure(key="scaling_workers", meaning="most workers at once for it"),
    Figure(key="scaling_home_s", meaning="after its last page, until no worker is left", most=60),
    Figure(key="chaos_lost", meaning="requests lost in a run of chaos", most=0),
    Figure(key="chaos_stored_twice", meaning="requests or records stored twice in it", most=0),
    Figure(
        key="chaos_refetched_ratio",
        meaning="downloads repeated in it, but for those in a killed hand, over requests",
        most=0.001,
    ),
    *(
        Figure(
            key=f"{what}_vs_lexbor_{size}",
            meaning=f"CPU of {side} on {size} pages / the bare parser doing the same",
        )
        for what, side in (("extract", "a rule"), ("follow", "a rule that follows links"))
        for size in ("small", "medium", "large")
    ),
    Figure(key="fetch_vs_aiohttp", meaning="pages per CPU second, our downloads / aiohttp's own"),
    Figure(
        key="fetch_uvloop_gain",
        meaning="pages per CPU second, our downloads on uvloop / on asyncio's loop",
        needs_peers=True,
    ),
    *(
        Figure(
            key=f"aiohttp_vs_{client}",
            meaning=f"pages per CPU second, aiohttp / {client}",
            needs_peers=True,
        )
        for client in ("httpx", "pycurl", "urllib3")
    ),
    *(
        Figure(
            key=f"import_ms_{name}",
            meaning=f"import of functions/{name}/handler.py, milliseconds of CPU, median",
            below=most,
        )
        for name, most in IMPORT_MS.items()
    ),
    Figure(
        key="assignment_mean_vs_best",
        meaning="arrival to end under bidding / the best other policy, the worst of three traces",
        below=1,
    ),
    Figure(
        key="assignment_p95_vs_best",
        meaning="the same of the job that one in twenty is later than",
        below=1,
    ),
    Figure(
        key="assignment_makespan_vs_best",
        meaning="the same of the end of all jobs",
        most=1,
    ),
    Figure(
        key="assignment_waste_vs_best",
        meaning="the same of memory held and not needed, or free while jobs wait that suit it",
        below=1,
    ),
    Figure(
        key="assignment_killed_vs_best",
        meaning="the same of workers that run out of memory",
        below=1,
    ),
    Figure(
        key="assignment_unfinished",
        meaning="jobs that bidding gave up, or that had not ended an hour after the last one came",
        most=0,
    ),
    Figure(
        key="quota_overshoot_ratio",
        meaning="used beyond a quota by 500 workers, some killed or cut off / the quota",
        most=0.01,
    ),
    Figure(
        key="quota_undershoot_ratio",
        meaning="left of it when nobody gets any more though work waits / the quota",
        most=0.01,
    ),
    Figure(
        key="quota_messages_per_s",
        meaning="messages a second to Redis for the shares of 10,000 workers",
        most=5_000,
    ),
    Figure(
        key="quota_home_per_s",
        meaning="writes a second to the home node for them",
        most=20,
    ),
    Figure(
        key="stream_match_items_per_cpu_s",
        meaning="items matched against 10,000 filters of 20 terms in one pass, a CPU second",
    ),
    Figure(
        key="stream_match_vs_naive",
        meaning="the same / filter by filter",
        least=50,
    ),
    Figure(
        key="stream_match_growth",
        meaning="CPU an item with 100,000 subscribers / with 1,000",
        most=1.5,
    ),
    Figure(
        key="stream_lost",
        meaning="deliveries missing of a stream whose reader is killed again and again",
        most=0,
    ),
    Figure(
        key="stream_duplicates",
        meaning="deliveries of it, or items, beyond one each",
        most=0,
    ),
    Figure(
        key="stream_gap_p95_s",
        meaning="seconds from the kill of a reader until the stream is read again, p95",
        most=5,
    ),
    Figure(
        key="stream_move_ratio",
        meaning="sources that move when one of ten workers goes / all of them",
        most=0.13,
    ),
    Figure(
        key="stream_channels_vs_optimum",
        meaning="rules that 50,000 terms are packed into / what no packing is below",
        most=1.05,
    ),
    Figure(
        key="rss_fetches_per_feed_round",
        meaning="fetches of a feed in a round, with two workers and 10,000 subscribers",
        most=1,
    ),
    Figure(
        key="rss_delivery_p95_s",
        meaning="seconds from a feed's last byte until its items are in the outbox, p95",
    ),
    Figure(
        key="isolation_victim_share",
        meaning="a tenant's pages a second beside one hostile in eleven ways / beside a harmless",
        least=0.9,
    ),
    Figure(
        key="isolation_p95_wait_ratio",
        meaning="its waits for single pages that one in twenty exceeds, the same ratio",
        most=2,
    ),
    Figure(
        key="isolation_worst_way_share",
        meaning="its pages a second beside one hostile in the worst way alone, the same ratio",
    ),
)
KEYS: Final = tuple(figure.key for figure in FIGURES)


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the rounds' ratios: both sides of a round have met the same machine.

    >>> ratio([50.0, 10.0, 60.0], [100.0, 20.0, 60.0])
    0.5
    """
    return statistics.median(ratios(ours, theirs))


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """The rounds' ratios.

    >>> ratios([50.0, 10.0], [100.0, 40.0])
    [0.5, 0.25]
    """
    return [a / b for a, b in zip(ours, theirs, strict=True)]


def spread(rounds: Sequence[float]) -> str:
    """The least and the most of a figure's rounds, for people; of one round nothing.

    >>> spread([0.66, 0.6, 0.74]), spread([0.66])
    ('0.6 to 0.74', '')
    """
    return f"{min(rounds):.3g} to {max(rounds):.3g}" if len(rounds) > 1 else ""


def percentile(values: Iterable[float], percent: float) -> float:
    """The smallest value that ``percent`` of all values do not exceed.

    >>> percentile(range(1, 101), 99)
    99
    """
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def rotated(sides: Sequence[str], round_number: int) -> list[str]:
    """The order of a round: each side is first, last and in between in turn.

    >>> rotated(["a", "b", "c"], 1)
    ['b', 'c', 'a']
    """
    at = round_number % len(sides)
    return [*sides[at:], *sides[:at]]


def flat(found: Mapping[str, float], before: Mapping[str, object]) -> dict[str, float | None]:
    """``latest.json``: every key, and none besides; what was not measured now stays as it was."""
    kept = {key: value for key, value in before.items() if isinstance(value, int | float)}
    return {key: _rounded(found.get(key, kept.get(key))) for key in KEYS}


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def verdict(figure: Figure, value: float) -> str:
    """Get the table's verdict on a value."""
    return {True: "reached", False: "MISSED", None: ""}[figure.reached(value)]
