"""The sizes of the full run, and of the smoke run that only shows that each step works."""

from dataclasses import dataclass
from typing import Final

from benchmarks.chaos.kinds import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The sizes of one run."""

    rounds: int
    ingest_requests: int
    single_requests: int
    pages: int
    crawl_requests: int
    crawl_rounds: int
    metering_rounds: int
    worker_requests: int
    many_bizs: int
    many_bizs_requests: int
    fleet_workers: tuple[int, int]
    fleet_seconds: float
    small_hosts: int
    requests_each: int
    large_host_requests: int
    queue_entries: int
    stored_requests: int
    lookups: int
    expanded_tasks: int
    import_runs: int
    extraction_rounds: int
    client_pages: int
    client_rounds: int
    halvings: int
    losses: int
    loss_period_seconds: float
    chaos_requests: int
    chaos_harms: int
    chaos_kinds: tuple[Kind, ...]
    burst_requests: int
    burst_plan_seconds: float
    ageing_tasks: int
    placement_hosts: int
    placement_pages: int
    placement_rounds: int
    assignment_jobs: int
    assignment_seeds: int
    quota_workers: int
    match_subscribers: int
    match_items: int
    feeds: int
    feed_subscribers: int
    stream_kills: int
    isolation_pages: int
    isolation_seconds: float
    isolation_late_seconds: float
    isolation_part: float
    isolation_each: bool


FULL: Final = Scale(
    rounds=5,
    ingest_requests=20_000,
    single_requests=1_000,
    pages=300,
    crawl_requests=3_000,
    crawl_rounds=3,
    metering_rounds=9,
    worker_requests=6_000,
    many_bizs=1_000,
    many_bizs_requests=10_000,
    fleet_workers=(10, 25),
    # Nearly the longest pause between two rounds that every worker does; they begin apart.
    fleet_seconds=4.0,
    small_hosts=1_000,
    requests_each=100,
    large_host_requests=100_000,
    queue_entries=200_000,
    stored_requests=1_000_000,
    lookups=5_000,
    expanded_tasks=1_000_000,
    import_runs=7,
    extraction_rounds=12,
    client_pages=2_000,
    client_rounds=3,
    halvings=7,
    losses=2,
    # As infra/fleet.py says: benchmarks/recovery.py.
    loss_period_seconds=30.0,
    chaos_requests=20_000,
    chaos_harms=60,
    chaos_kinds=tuple(Kind),
    burst_requests=20_000,
    burst_plan_seconds=600.0,
    ageing_tasks=1_000_000,
    placement_hosts=24,
    placement_pages=40,
    placement_rounds=3,
    assignment_jobs=10_000,
    assignment_seeds=3,
    quota_workers=10_000,
    match_subscribers=100_000,
    match_items=5_000,
    feeds=1_000,
    feed_subscribers=10_000,
    stream_kills=20,
    isolation_pages=8_000,
    isolation_seconds=6.0,
    # What was asked for is waited for so long; what is not done then is called unserved.
    isolation_late_seconds=30.0,
    # Of 5,000,000 submissions, and tasks of a job.
    isolation_part=0.01,
    isolation_each=True,
)
QUICK: Final = Scale(
    rounds=1,
    ingest_requests=2_000,
    single_requests=50,
    pages=20,
    crawl_requests=200,
    crawl_rounds=1,
    metering_rounds=1,
    worker_requests=300,
    many_bizs=100,
    many_bizs_requests=500,
    fleet_workers=(4, 10),
    fleet_seconds=2.0,
    small_hosts=50,
    requests_each=20,
    large_host_requests=1_000,
    queue_entries=5_000,
    stored_requests=5_000,
    lookups=200,
    expanded_tasks=20_000,
    import_runs=1,
    extraction_rounds=1,
    client_pages=100,
    client_rounds=1,
    halvings=1,
    losses=1,
    loss_period_seconds=6.0,
    chaos_requests=500,
    chaos_harms=2,
    # Servers take long to come back, and what is full or frozen to be got over.
    chaos_kinds=(Kind.KILL,),
    burst_requests=600,
    burst_plan_seconds=30.0,
    ageing_tasks=20_000,
    placement_hosts=4,
    placement_pages=4,
    placement_rounds=1,
    assignment_jobs=200,
    assignment_seeds=1,
    quota_workers=1_000,
    match_subscribers=5_000,
    match_items=500,
    feeds=50,
    feed_subscribers=500,
    stream_kills=2,
    isolation_pages=6_000,
    isolation_seconds=4.0,
    isolation_late_seconds=10.0,
    isolation_part=0.002,
    isolation_each=False,
)
