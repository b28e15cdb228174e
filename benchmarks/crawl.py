"""Crawling: the same pages, fields and store for each side; pages by CPU second of the crawler."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec
import pymongo

from benchmarks.bench import ROOT, Bench, BenchError, Found, ask, peer
from benchmarks.figures import ratio, rotated
from benchmarks.house import BIZ, tree_of
from benchmarks.routing import Router, offers
from benchmarks.site import Site, running_site
from crawlfleet.config.documents.biz import Tree
from crawlfleet.kernel.mongo.connection import database_name

BATCH: Final = 1_000
SCRIPTS: Final = {
    "floor": "floor_crawl.py",
    "crawlee": "crawlee_crawl.py",
    "scrapy_redis": "scrapy_redis_crawl.py",
}


def run(bench: Bench) -> Found:
    """Measure every side in turn."""
    sides = ["ours", "floor", *(["crawlee", "scrapy_redis"] if bench.peers else [])]
    rounds: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    with running_site(bench.scale.pages) as site:
        speed = site.pages_per_second(bench.scale.crawl_requests)
        for number in range(bench.scale.crawl_rounds):
            links = set()
            for side in rotated(sides, number):
                done = _one(bench, site, side)
                rounds[side].append(done)
                links.add(done["links"])
                bench.tick(f"crawl, {side}")
            if len(links) != 1:
                raise BenchError(f"the sides did not read the same links: {sorted(links)}")
        mean = site.mean_bytes
    per_cpu = {side: [one["pages"] / one["cpu"] for one in done] for side, done in rounds.items()}
    fastest = max(one["pages"] / one["seconds"] for done in rounds.values() for one in done)
    if speed < fastest:
        raise BenchError(f"the site ({speed:.0f} pages/s) held the crawlers ({fastest:.0f}) up")
    return Found(
        figures={
            **{
                f"crawl_vs_{side}": ratio(per_cpu["ours"], speeds)
                for side, speeds in per_cpu.items()
                if side != "ours"
            },
            "consumer_rss_mb": max(one["peak_mb"] for one in rounds["ours"]),
        },
        details={
            "pages per CPU second": per_cpu,
            "crawls": rounds,
            "site": {"pages_per_second_alone": speed, "mean_bytes": mean},
        },
    )


def _one(bench: Bench, site: Site, side: str) -> dict[str, Any]:
    """Run the crawl of one side from empty stores; check that it did the work."""
    bench.addresses.clear()
    urls = site.urls(bench.scale.crawl_requests)
    if side == "ours":
        done = ours(bench, tree_of(), urls)
        database, collection = database_name("default", "docs"), f"{BIZ}.requests_000_records"
        links = "$fields.links"
    else:
        with tempfile.TemporaryDirectory(prefix="crawlfleet-bench-") as folder:
            given = Path(folder) / "urls.json"
            given.write_text(json.dumps(urls))
            done = ask(peer(bench.peers, SCRIPTS[side]), bench.variables(BENCH_URLS=str(given)))
        database, collection, links = "bench_items", "items", "$links"
    with pymongo.MongoClient[dict[str, Any]](bench.addresses.mongo) as mongo:
        sums = list(
            mongo[database][collection].aggregate(
                [{"$group": {"_id": None, "items": {"$sum": 1}, "links": {"$sum": links}}}]
            )
        )
    if not sums or sums[0]["items"] != len(urls) or done["pages"] != len(urls):
        raise BenchError(f"{side} stored {sums} of {len(urls)} pages; it said {done}")
    done["links"] = sums[0]["links"]
    return done


def submit(bench: Bench, tree: Tree, urls: list[str]) -> None:
    """Offer the pages through the router, twice: each is queued once.

    The peers' duplicates are told apart in the crawling process, where requests are made; ours are
    before they are stored, and what a seed costs at its end is the worker's.
    """
    router = Router(bench.addresses, tree)
    try:
        for at in range(0, len(urls), BATCH):
            for accepted in (len(urls[at : at + BATCH]), 0):
                answer = json.loads(router.call(offers(urls[at : at + BATCH]), 200))
                if answer["accepted"] != accepted:
                    raise BenchError(f"{answer['accepted']} of {accepted} seeds were accepted")
    finally:
        router.close()


def ours(bench: Bench, tree: Tree, urls: list[str], **further: str) -> dict[str, Any]:
    """Have a worker in a process of its own do the pages, with ``further`` variables."""
    submit(bench, tree, urls)
    command = [sys.executable, "-m", "benchmarks.worker"]
    given = msgspec.json.encode(tree).decode()
    return ask(command, bench.variables(BENCH_TREE=given, PWD=str(ROOT), **further))
