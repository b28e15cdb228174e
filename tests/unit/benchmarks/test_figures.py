import json

import pytest
from rich.console import Console

from benchmarks import figures
from benchmarks.figures import FIGURES, FUNCTIONS, KEYS, flat, percentile, ratio, rotated, verdict
from benchmarks.summary import keep, show

BY_KEY = {figure.key: figure for figure in FIGURES}


def test_the_flat_object_has_exactly_the_agreed_keys():
    agreed = [
        "ingest_vs_floor",
        "ingest_vs_rq",
        "single_submit_vs_floor",
        "crawl_vs_scrapy_redis",
        "crawl_vs_crawlee",
        "crawl_vs_floor",
        "tracing_cpu_default",
        "tracing_cpu_all",
        "metering_cost_ratio",
        "forecast_error_median",
        "consumer_rss_mb",
        "two_worker_speedup",
        "two_worker_speedup_saturated",
        "two_worker_efficiency",
        "politeness_vs_fifo",
        "politeness_large_host",
        "ageing_tasks_beyond_bound",
        "ageing_returns_beyond_bound",
        "ageing_strict_beyond_bound",
        "ageing_sources_beyond_bound",
        "ageing_endless",
        "ageing_sources_endless",
        "ageing_worst_vs_strict",
        "ageing_worst_vs_sources",
        "ageing_urgent_vs_fifo",
        "placement_connections_ratio",
        "dedupe_checks_per_s",
        "dedupe_bytes_per_url",
        "redis_bytes_per_request",
        "expansion_vs_submission",
        "expansion_tasks_per_s",
        "expansion_tasks_per_cpu_s",
        "expansion_memory",
        "lease_vs_fifo",
        "lease_growth",
        "lookup_p99_ms",
        "many_bizs_slowdown",
        "fleet_redis_cores",
        "fleet_bytes_per_worker",
        "fleet_calls_growth",
        "fleet_home_per_s",
        "recovery_leases_s",
        "recovery_leases_worst_s",
        "recovery_all_s",
        "recovery_all_worst_s",
        "recovery_total_s",
        "recovery_consumers_s",
        "recovery_scheduler_s",
        "recovery_everything_s",
        "scaling_of_plan",
        "scaling_workers",
        "scaling_home_s",
        "chaos_lost",
        "chaos_stored_twice",
        "chaos_refetched_ratio",
        "extract_vs_lexbor_small",
        "extract_vs_lexbor_medium",
        "extract_vs_lexbor_large",
        "follow_vs_lexbor_small",
        "follow_vs_lexbor_medium",
        "follow_vs_lexbor_large",
        "fetch_vs_aiohttp",
        "fetch_uvloop_gain",
        "aiohttp_vs_httpx",
        "aiohttp_vs_pycurl",
        "aiohttp_vs_urllib3",
        "import_ms_id_issuer",
        "import_ms_router",
        "import_ms_consumer",
        "import_ms_scheduler",
        "import_ms_monitor",
        "import_ms_trials",
        "import_ms_streams",
        "assignment_mean_vs_best",
        "assignment_p95_vs_best",
        "assignment_makespan_vs_best",
        "assignment_waste_vs_best",
        "assignment_killed_vs_best",
        "assignment_unfinished",
        "quota_overshoot_ratio",
        "quota_undershoot_ratio",
        "quota_messages_per_s",
        "quota_home_per_s",
        "stream_match_items_per_cpu_s",
        "stream_match_vs_naive",
        "stream_match_growth",
        "stream_lost",
        "stream_duplicates",
        "stream_gap_p95_s",
        "stream_move_ratio",
        "stream_channels_vs_optimum",
        "rss_fetches_per_feed_round",
        "rss_delivery_p95_s",
        "isolation_victim_share",
        "isolation_p95_wait_ratio",
        "isolation_worst_way_share",
    ]

    found = flat(dict.fromkeys([*agreed, "another"], 1.0), {"older": 2.0})

    assert list(found) == agreed == list(KEYS)


def test_each_folder_of_functions_has_its_import_time(pytestconfig):
    folders = {
        path.parent.name for path in (pytestconfig.rootpath / "functions").glob("*/handler.py")
    }

    assert set(FUNCTIONS) == folders


def test_each_function_has_a_bound_of_its_import():
    assert all(BY_KEY[f"import_ms_{name}"].below for name in FUNCTIONS)


def test_what_was_not_measured_stays_as_it_was():
    before = {"ingest_vs_floor": 0.5, "lookup_p99_ms": 3.0, "ingest_vs_rq": None}

    found = flat({"ingest_vs_floor": 0.75}, before)

    assert (found["ingest_vs_floor"], found["lookup_p99_ms"]) == (0.75, 3.0)
    assert found["ingest_vs_rq"] is None


def test_a_ratio_pairs_the_rounds_so_a_slow_moment_of_the_machine_cancels_out():
    ours, theirs = [50.0, 5.0, 60.0], [100.0, 10.0, 100.0]

    assert ratio(ours, theirs) == 0.5


def test_a_ratio_of_unequal_rounds_is_refused():
    with pytest.raises(ValueError, match="shorter"):
        ratio([1.0, 2.0, 3.0], [1.0, 2.0])


@pytest.mark.parametrize(
    ("percent", "expected"), [(50, 50), (99, 99), (99.9, 100), (100, 100), (0, 1)]
)
def test_a_percentile_is_one_of_the_values(percent, expected):
    assert percentile(range(100, 0, -1), percent) == expected


def test_every_side_is_first_in_turn():
    orders = [rotated(["ours", "floor", "rq"], number) for number in range(4)]

    assert [order[0] for order in orders] == ["ours", "floor", "rq", "ours"]
    assert all(sorted(order) == ["floor", "ours", "rq"] for order in orders)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("ingest_vs_floor", 0.5, "reached"),
        ("ingest_vs_floor", 0.49, "MISSED"),
        ("ingest_vs_rq", 1.0, "MISSED"),
        ("ingest_vs_rq", 1.01, "reached"),
        ("single_submit_vs_floor", 0.66, "reached"),
        ("crawl_vs_scrapy_redis", 3.99, "MISSED"),
        ("crawl_vs_scrapy_redis", 4.0, "reached"),
        ("crawl_vs_crawlee", 2.99, "MISSED"),
        ("crawl_vs_crawlee", 3.0, "reached"),
        ("crawl_vs_floor", 0.64, "MISSED"),
        ("crawl_vs_floor", 0.65, "reached"),
        ("consumer_rss_mb", 150, "reached"),
        ("consumer_rss_mb", 151, "MISSED"),
        ("two_worker_speedup", 1.69, "MISSED"),
        ("two_worker_speedup", 1.7, "reached"),
        ("redis_bytes_per_request", 80.0, "reached"),
        ("redis_bytes_per_request", 80.1, "MISSED"),
        ("lookup_p99_ms", 10.0, "MISSED"),
        ("lookup_p99_ms", 9.9, "reached"),
        ("import_ms_router", 399.9, "reached"),
        ("import_ms_router", 400.0, "MISSED"),
        ("import_ms_consumer", 700.0, "MISSED"),
        ("extract_vs_lexbor_small", 900.0, ""),
    ],
)
def test_a_value_is_held_to_its_target(key, value, said):
    assert verdict(BY_KEY[key], value) == said


def test_a_target_is_shown_with_its_sign():
    shown = {figure.key: figure.target for figure in FIGURES}

    assert shown["crawl_vs_scrapy_redis"] == ">= 4"
    assert shown["ingest_vs_rq"] == "> 1"
    assert shown["lookup_p99_ms"] == "< 10"
    assert shown["import_ms_router"] == "< 400"
    assert shown["import_ms_consumer"] == "< 700"
    assert shown["extract_vs_lexbor_small"] == ""


def test_a_second_run_of_one_benchmark_keeps_the_others_figures(tmp_path):
    keep(tmp_path / "out", "latest.json", {"lookup_p99_ms": 2.0}, {"look-up": 1})

    path = keep(tmp_path / "out", "latest.json", {"ingest_vs_rq": 4.05678}, {"rq": [2]})

    kept = json.loads(path.read_text())
    assert (kept["lookup_p99_ms"], kept["ingest_vs_rq"]) == (2.0, 4.057)
    assert list(kept) == list(figures.KEYS)
    details = json.loads((tmp_path / "out" / "latest-details.json").read_text())
    assert details == {"look-up": 1, "rq": [2]}


def test_the_table_has_the_least_and_the_most_of_what_was_measured_in_rounds(capsys):
    keys = ("single_submit_vs_floor", "placement_connections_ratio")
    rounds = {keys[0]: [0.66, 0.6, 0.74], keys[1]: [0.51, 0.43]}

    show(Console(width=200), {keys[0]: 0.66, keys[1]: 0.47, "ingest_vs_floor": 0.9}, rounds)

    lines = capsys.readouterr().out.splitlines()
    [submit], [placed], [other] = (
        [one for one in lines if key in one] for key in (*keys, "ingest_vs_floor")
    )
    assert "0.6 to 0.74" in submit
    assert "0.43 to 0.51" in placed
    assert " to " not in other.replace(BY_KEY["ingest_vs_floor"].meaning, "")
