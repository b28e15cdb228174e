"""``crawlfleet demands``: what runs take of their workers."""

import pytest

from tests.kit.api_server import BIZ

NOTHING = {"average": 0.0, "maximum": 0.0}
USAGE = {
    "memory": {"average": 3 * 2.0**20, "maximum": 2.0**30},
    "cpu": {"average": 0.25, "maximum": 2.5},
    "bandwidth": NOTHING,
}
RUN = {
    "job": "june",
    "spider": "shop",
    "usage": USAGE,
    "seconds": 4.0,
    "workers": 2,
    "requests": 10,
    "records": 9,
    "errors": 1,
    "bytes": 9_000,
    "counts": {"done": 9},
    "started_at": "2026-11-21T12:00:00.000Z",
    "ended_at": None,
    "learnt_at": None,
}


@pytest.fixture
def known(api):
    at = "2026-11-21T12:00:00.000Z"
    for name in ("shop", "news"):
        api.demands.append({"spider": name, "runs": 2, "measured_at": at, "usage": USAGE})
    api.runs["june"] = RUN
    return api


@pytest.mark.usefixtures("known")
def test_demands_are_listed_or_one_is_shown(crawlfleet):
    every = crawlfleet("demands", BIZ)

    assert every.code == 0, every.err
    for part in ("shop", "news", "3.00 / 1,024.00 MB", "0.25 / 2.50 GHz"):
        assert part in every.out
    one = crawlfleet("demands", BIZ, "shop")
    assert ("shop" in one.out, "news" in one.out) == (True, False)
    assert [row["spider"] for row in crawlfleet("demands", BIZ, "--json").rows()] == [
        "shop",
        "news",
    ]
    assert crawlfleet("demands", BIZ, "shop", "--json").json()["runs"] == 2


@pytest.mark.usefixtures("known")
def test_the_run_of_a_job_is_shown(crawlfleet):
    shown = crawlfleet("demands", BIZ, "--job", "june")

    assert shown.code == 0, shown.err
    for part in ("4.0 s of 2 workers", "10, of which 1 failed", "9,000 bytes", "not yet"):
        assert part in shown.out
    assert crawlfleet("demands", BIZ, "--job", "june", "--json").json()["workers"] == 2
    assert crawlfleet("demands", BIZ, "shop", "--job", "june").code == 2


def test_what_was_not_learnt_yet_is_said_so(crawlfleet, api):
    assert "nothing was learnt" in crawlfleet("demands", BIZ).err
    gone = crawlfleet("demands", BIZ, "shop")
    assert (gone.code, "about a minute after" in gone.err) == (4, True)
