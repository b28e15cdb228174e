"""A fleet with a thousand bizs of which ten have work, beside one biz: CPU a page.

The same pages, by the same rule, from the same site; one worker does them. What the worker, Redis
and MongoDB use is counted together, background tasks among it: what is looked for in a thousand
bizs is paid for by the pages of ten.
"""

import statistics
import tempfile
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from benchmarks.bench import Bench, BenchError, Found, environment
from benchmarks.house import BIZ, TENANT, BenchParts, tree_of
from benchmarks.site import Site, running_site
from benchmarks.worker import ENV_TREE_FILE
from benchmarks.workers import PER_HOST, servers_cpu, together
from crawlfleet.apps.context import now
from crawlfleet.apps.submissions import open_submissions
from crawlfleet.config.documents.biz import FetchLimits, Tree
from crawlfleet.requests.submission.admission import Accepted, Submission

BUSY: Final = 10
_BATCH: Final = 500
#: Parts whose CPU counts; the site is nobody's of the fleet.
PARTS: Final = ("workers", "redis", "mongodb")


def many(count: int) -> Tree:
    """A configuration of so many bizs that are all alike."""
    tree = tree_of(fetch=FetchLimits(per_host=PER_HOST))
    biz = tree.bizs[TENANT][BIZ]
    bizs = {BIZ if n == 0 else f"{BIZ}-{n}": biz for n in range(count)}
    return replace(tree, bizs={TENANT: bizs})


def run(bench: Bench) -> Found:
    """Measure one biz and many in turn."""
    scale = bench.scale
    alone, among = many(1), many(scale.many_bizs)
    spent: dict[str, list[dict[str, float]]] = {"one": [], "many": []}
    bench.addresses.clear()
    with running_site(scale.pages) as site:
        for number in range(scale.crawl_rounds):
            turns = [("one", alone, 1), ("many", among, BUSY)]
            for name, tree, busy in turns if number % 2 == 0 else turns[::-1]:
                spent[name].append(_crawl(bench, site, tree, busy, scale.many_bizs_requests))
                bench.tick(f"{name}: {1000 * _whole(spent[name][-1]):.2f} ms a page")
    ratios = [
        _whole(many_of) / _whole(one)
        for one, many_of in zip(spent["one"], spent["many"], strict=True)
    ]
    return Found(
        figures={"many_bizs_slowdown": statistics.median(ratios)},
        details={"CPU a page, one biz and many": spent, "many_bizs_slowdown": ratios},
    )


def _whole(spent: dict[str, float]) -> float:
    return sum(spent[part] for part in PARTS)


def _crawl(bench: Bench, site: Site, tree: Tree, busy: int, pages: int) -> dict[str, float]:
    """CPU seconds a page of each part."""
    names = list(tree.bizs[TENANT])[:busy]
    parts = BenchParts(bench.addresses, tree, "router")
    urls = site.urls(pages)
    try:
        submissions = open_submissions(parts)
        for at in range(0, pages, _BATCH):
            name = names[at // _BATCH % busy]
            batch = [Submission(url=url, rule="page") for url in urls[at : at + _BATCH]]
            receipts = submissions.submit(tree, TENANT, name, batch, now())
            if not all(isinstance(one, Accepted) for one in receipts):
                raise BenchError(f"not accepted: {receipts[0]}")
    finally:
        parts.redis.close()
        parts.nodes.close()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(msgspec.json.encode(tree))
        file.flush()
        variables = environment(bench.variables(**{ENV_TREE_FILE: file.name}))
        before = servers_cpu(bench.addresses, site)
        (done,) = together(1, variables)
    after = servers_cpu(bench.addresses, site)
    if done["pages"] != pages:
        raise BenchError(f"the worker did {done['pages']} of {pages} pages")
    used: dict[str, Any] = {"workers": done["working_cpu"]}
    used |= {part: after[part] - before[part] for part in after}
    return {part: seconds / pages for part, seconds in used.items()}
