"""Jobs on a local cloud of a usual pool, one behind a slow network, and one of little memory.

The slow network's workers have by far the most memory left, and so win whatever is not bound by
latency (SPEC.md B2-B6). Nothing ticks by itself here, so that what is seen is what was caused.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from itertools import count

import pytest

from infra.local.parts import LOOPBACK
from infra.local.state import STAGE
from tests.journeys.two_networks import FAR, HEAVY_PAGES, OPEN_PAGES, Site
from tests.kit.fleet import DEFAULT_GHZ, MachineFiles
from tests.kit.kernel import names
from tests.kit.sdk import Client
from tests.local_clouds import a_cloud, push
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc and 127.0.0.2 are Linux's")

BIZ = "bids"
POOLS = ("slow:memory=4096,consumers=2,address=127.0.0.2,network=slow", "small:memory=256")
#: A job that is bound by latency, for which the slow network is too slow by half a second. Of the
#: usual one that is two seconds more than it takes: a machine may stand still while it is tried.
NEAR = {"seconds_below": 2.0}
#: A way that nothing has.
NOWHERE = {"bytes_per_second_above": 10**12}
HEAVY_BYTES = 12_000_000
HELD_PAGES = 24
STAFF = {"main": 1, "slow": 1, "small": 1}
#: Of jobs that are started until one is placed as it has to be.
NUMBERS = count()
CONFIGURATION = {
    "fleet": {
        "min_consumers": 1,
        "max_consumers": 1,
        "concurrency": 32,
        "batch": 32,
        # Longer than any of this takes: only the detector finds out that a worker was killed.
        "lease_seconds": 300,
        "idle_seconds": 2,
    },
    "pools": {
        "slow": {"min_consumers": 1, "max_consumers": 1},
        "small": {"min_consumers": 1, "max_consumers": 1},
    },
    "bidding": {
        "window_seconds": 0.5,
        "wait_seconds": 1.5,
        "acknowledge_seconds": 10,
        # Only what a job says of its way keeps it from the slow network, and memory decides.
        "slower_seconds": 600,
        "slower_times": 1_000_000,
        "weights": {"memory": 1, "cpu": 0, "bandwidth": 0},
        "lag_seconds": 60,
        "patience_seconds": 45,
    },
    "alarms": {"bad_looks": 1},
}
BIZ_DOCUMENT = {
    "ttl_seconds": 86_400,
    "generations": [
        {"starts_at": "2026-01-01T00:00:00Z", "nodes": ["main"], "databases": ["bids"], "shards": 1}
    ],
    "fetch": {
        "user_agent": "Crawlfleet test",
        "per_host": 64,
        "max_body_bytes": 2 * HEAVY_BYTES,
        "first_byte_seconds": 120,
        "total_seconds": 120,
    },
    "retry": {"max_attempts": 2, "base_seconds": 0.2, "max_seconds": 1},
    "rules": {"page": {"fields": {"title": {"css": "title"}}}},
}


@pytest.fixture(scope="module")
def site():
    site = Site()
    yield site
    site.close()


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cloud")
    with a_cloud(folder / "state", seed=False, consumers=1, pools=POOLS) as cloud:
        push(cloud, folder / "config", CONFIGURATION, {BIZ: BIZ_DOCUMENT})
        eventually(lambda: tick(cloud) or target(cloud) == STAFF, 180, "not all pools have workers")
        yield cloud


@pytest.fixture(scope="module")
def client(cloud):
    with Client(cloud.api_url, cloud.api_key) as client:
        yield client


@pytest.fixture(scope="module", autouse=True)
def spiders(client, site):
    """Kept spiders, and a job of one of them that no worker suits: all pools look at it."""
    link = {"test_url": f"{site.url}/link"}
    for name, pages, asked in (
        ("near", 3, NEAR),
        ("any", 3, {}),
        ("held", HELD_PAGES, {}),
        ("nowhere", 3, NOWHERE),
    ):
        pattern = f"{site.url}/{name}/{{job}}/{{n}}"
        values = {"n": range(1, pages + 1)}
        client.put_spider(BIZ, name, rule="page", pattern=pattern, values=values, link=link | asked)
    client.put_spider(
        BIZ,
        "heavy",
        rule="page",
        pattern=f"{site.url}/heavy/{{bytes}}/{{n}}",
        values={"n": range(1, HEAVY_PAGES + 1)},
        link=link,
    )
    client.put_spider(
        BIZ, "gone", rule="page", urls=f"http://localhost:{closed_port()}/", link=NEAR
    )
    start(client, "nowhere", "nowhere")


@pytest.fixture(scope="module")
def under_way(client):
    """Jobs whose ends take their time while others are tested.

    What a run takes is learnt half a minute after its end, and a site that is away is waited for.
    """
    client.start_job(
        BIZ, spider="heavy", values={"bytes": str(HEAVY_BYTES)}, name="heavy-0", pool="main"
    )
    client.start_job(BIZ, spider="gone", name="gone")


def tick(cloud):
    fired = cloud.fire("scheduler-tick")
    assert not fired["failed"], fired["answer"]


def target(cloud):
    """Return the number of live workers of each pool."""
    with Client(cloud.api_url, cloud.api_key) as client:
        return {pool.name: pool.alive for pool in client.fleet().pools}


def closed_port():
    """A port of this machine that nobody listens on."""
    with socket.socket() as one:
        one.bind((LOOPBACK, 0))
        return one.getsockname()[1]


def start(client, spider, name):
    return client.start_job(BIZ, spider=spider, values={"job": name}, name=name)


def ended(client, called, seconds=240):
    """These jobs, once they have ended."""
    found = []

    def are_there():
        found[:] = [client.job(BIZ, name) for name in called]
        return all(job.ended for job in found)

    eventually(are_there, seconds, f"these have not ended: {called}")
    return found


def places(jobs):
    """Return the number of jobs placed in each pool."""
    return Counter(job.pool or "main" for job in jobs)


def highest_cpu():
    """The index of all of this machine, were its clock twice as fast at times as it is now."""
    return 2 * (MachineFiles().ghz() or DEFAULT_GHZ) * os.cpu_count()


def applicants(cloud, job):
    """Return the workers that were ranked at any award of a job, from the logs.

    A job is awarded once more when its winner has not begun in time, as on a machine that is busy.
    """
    return {
        ranked["worker"]
        for log in cloud.folder.log_dir.glob("*.log")
        for line in log.read_text().splitlines()
        if '"a job is awarded"' in line and f'/{job}"' in line
        for ranked in json.loads(line)["ranking"]
    }


def command(cloud, *words):
    """Run the command line in a process of its own; return what it prints."""
    environment = os.environ | {
        "CRAWLFLEET_API_URL": cloud.api_url,
        "CRAWLFLEET_API_KEY": cloud.api_key,
    }
    reported = subprocess.run(
        [sys.executable, "-m", "crawlfleet.cli", *words],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=True,
    )
    return reported.stdout


@pytest.mark.early
def test_no_job_that_is_bound_by_latency_is_placed_behind_the_slow_network(cloud, client, site):
    called = [f"near-{number}" for number in range(10)]
    for name in called[:5]:
        start(client, "near", name)
    # Workers of all pools look at jobs, and have found out what their way is like.
    found_out = re.compile("slow: (at |the site is away: )")
    eventually(lambda: found_out.search(client.job(BIZ, "nowhere").trouble or ""))
    for name in called[5:]:
        start(client, "near", name)

    jobs = ended(client, called)

    assert {job.state for job in jobs} == {"done"}
    assert places(jobs)["slow"] == 0
    assert places(jobs)["main"] > 0
    assert places(jobs)["small"] > 0, "what needs little is done where there is little memory, too"
    assert site.peers("/near/") == {LOOPBACK}
    # They were placed as they asked, however long some stood behind the others.
    assert {job.lowered for job in jobs} == {0}
    assert all(job.worker and job.placed_at for job in jobs)
    for name, job in zip(called, jobs, strict=True):
        assert job.worker in applicants(cloud, name)
    shown = json.loads(command(cloud, "job", "show", BIZ, called[0], "--json"))
    assert (shown["worker"], shown["pool"]) == (jobs[0].worker, jobs[0].pool)


@pytest.mark.long
@pytest.mark.usefixtures("under_way")
def test_a_job_that_is_not_bound_by_latency_is_won_by_the_slow_network(client, site):
    def is_placed_there():
        name = f"any-{next(NUMBERS)}"
        start(client, "any", name)
        [job] = ended(client, [name])
        assert job.state == "done"
        return job.pool == "slow" and site.peers(f"/any/{name}/") == {FAR}

    eventually(is_placed_there, what="the most memory does not win")


@pytest.mark.long
@pytest.mark.usefixtures("under_way")
def test_a_job_whose_winner_is_killed_is_finished_by_another_and_its_ledger_is_exact(
    cloud, client, site
):
    site.open.clear()

    def is_won_by_the_slow_network():
        name = f"held-{next(NUMBERS)}"
        start(client, "held", name)
        eventually(lambda: client.job(BIZ, name).worker)
        if client.job(BIZ, name).pool == "slow":
            return True
        client.cancel_job(BIZ, name)
        return False

    eventually(is_won_by_the_slow_network)
    name = next(job.name for job in client.jobs(BIZ, spider="held") if job.state != "cancelled")
    eventually(lambda: len(site.pages(f"/held/{name}/")) == HELD_PAGES, what="all are under way")
    eventually(lambda: client.job(BIZ, name).ledger.done == OPEN_PAGES, what="none is done yet")
    winner = client.job(BIZ, name).worker
    function = names.function_name(STAGE, names.consumer("slow"))
    running = cloud.status()["functions"][function]["running"]
    assert set(running) == {winner}

    os.kill(running[winner], signal.SIGKILL)
    # What it held is asked for again before anything is answered.
    again = {1: OPEN_PAGES, 2: HELD_PAGES - OPEN_PAGES}
    eventually(
        lambda: tick(cloud) or Counter(site.pages(f"/held/{name}/").values()) == again,
        180,
        "nobody came in its place",
    )
    site.open.set()
    eventually(lambda: tick(cloud) or client.job(BIZ, name).ended, what="it was not finished")

    job = client.job(BIZ, name)
    assert job.state == "done"
    assert job.counts["done"] == job.size == HELD_PAGES
    assert (job.ledger.submitted, job.ledger.done) == (HELD_PAGES, HELD_PAGES)
    requests = [one for one in client.requests(BIZ) if one.job == name]
    assert len({one.url for one in requests}) == len(requests) == HELD_PAGES
    assert {one.state for one in requests} == {"done"}
    assert sum(one.worker == winner for one in requests) == OPEN_PAGES
    assert {one.pool for one in requests} == {"slow"}
    # The site has seen as many visits as there were attempts: twice what the dead one held.
    visits = site.pages(f"/held/{name}/")
    assert visits == {one.url.removeprefix(site.url): one.attempts for one in requests}
    assert Counter(visits.values()) == again
    records = Counter(record.url for record in client.records(BIZ) if f"/{name}/" in record.url)
    assert records == dict.fromkeys([one.url for one in requests], 1)
    assert winner not in cloud.status()["functions"][function]["running"]


@pytest.mark.long
@pytest.mark.usefixtures("under_way")
def test_jobs_whose_spider_has_taken_much_memory_are_placed_where_there_is_as_much(cloud, client):
    [first] = ended(client, ["heavy-0"])
    assert (first.state, first.pool, first.worker) == ("done", None, None), "it was pinned"

    def learnt_of():
        tick(cloud)
        return [one for one in client.demands(BIZ) if one.spider == "heavy"]

    eventually(learnt_of, what="nothing was learnt")
    [learnt] = learnt_of()
    memory, cpu = learnt.usage.memory, learnt.usage.cpu
    # More than the small ones have, if only half of it were wanted.
    assert memory.maximum > 0.9 * HEAVY_PAGES * HEAVY_BYTES > 2 * 150e6
    assert 0 < memory.average <= memory.maximum
    assert 0 < cpu.average <= cpu.maximum <= highest_cpu()

    called = [f"heavy-{number}" for number in range(1, 7)]
    for name in called:
        client.start_job(BIZ, spider="heavy", values={"bytes": "100"}, name=name)
    jobs = ended(client, called)

    assert {job.state for job in jobs} == {"done"}
    assert places(jobs)["small"] == 0
    assert places(jobs)["slow"] > 0, "most of the memory is there"


@pytest.mark.long
def test_a_job_that_no_worker_suits_is_given_up_and_people_are_notified_why(cloud, client):
    [job] = ended(client, ["nowhere"])

    assert (job.state, job.lowered, job.worker, job.expanded) == ("unplaced", 6, None, 0)
    assert "it wants above 1000.0 GB/s" in job.trouble
    # Of the far one it may be said that it took too long, on a machine that stood still meanwhile.
    assert re.search("slow: (at 53 % of its demand: link|the site is away): ", job.trouble)
    for pool in ("main", "small"):
        assert f"{pool}: at 53 % of its demand: link: " in job.trouble
    assert job.trouble in " ".join(command(cloud, "job", "show", BIZ, "nowhere", "--json").split())

    def incidents():
        cloud.fire("monitor-tick")
        return [one for one in client.incidents() if one.kind == "job_unplaced"]

    eventually(incidents, what="nobody is told")
    [incident] = incidents()
    assert incident.biz == BIZ
    assert "nowhere: no worker suits it" in incident.said


@pytest.mark.long
@pytest.mark.usefixtures("under_way")
def test_a_site_that_is_not_there_keeps_no_job_waiting_for_ever(client):
    [job] = ended(client, ["gone"])

    assert (job.state, job.lowered, job.expanded) == ("unplaced", 0, 0)
    assert re.search("its site gave no worker an answer for [12] min", job.trouble)
    assert "the site is away: " in job.trouble
