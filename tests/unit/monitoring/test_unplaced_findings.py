"""Jobs that no worker suited, as findings: one a biz, which says which and why."""

from datetime import UTC, datetime

from msgspec.structs import replace

from tests.kit.incidents import Kind, key_of, unknown_of_unplaced, unplaced_findings
from tests.kit.monitoring import UnplacedJob
from tests.kit.worlds.memory import make_tree


def an_unplaced(job, biz="docs"):
    return UnplacedJob(tenant="acme", biz=biz, job=job, why="it wants memory 9.0 GB")


def test_each_biz_has_one_finding_that_names_some_of_its_jobs():
    jobs = [an_unplaced(f"j{n}") for n in range(5)]

    docs, shop = unplaced_findings([jobs[0], an_unplaced("s", "shop"), *jobs[1:]])

    assert (docs.kind, docs.value, str(docs.place)) == (Kind.JOB_UNPLACED, 5, "biz acme/docs")
    assert docs.said.startswith("j0: ")
    assert "; j1: " in docs.said
    assert docs.said.endswith("; and 2 more")
    assert (shop.value, shop.said) == (1, "s: it wants memory 9.0 GB")


def test_of_a_job_that_waits_it_is_reported_since_when():
    june = replace(an_unplaced("june"), since=datetime(2026, 3, 1, 12, 30, tzinfo=UTC))

    [docs] = unplaced_findings([june])

    assert docs.said.startswith("june waits since 2026-03-01 12:30 UTC")


def test_where_it_could_not_be_read_nothing_is_known_of_any_biz():
    keys = list(unknown_of_unplaced(make_tree()))

    assert len(keys) == 2
    [docs] = unplaced_findings([an_unplaced("j")])
    assert key_of(docs.kind, docs.place) in keys
