"""Jobs that wait for a worker: two pools apply, one wins, begins, and nobody else does."""

import dataclasses

import pytest
from msgspec.structs import replace

from tests.fakes.politeness import MemoryHosts
from tests.kit.bidding import ListingState, Probe, WhyNot
from tests.kit.fleet import Remaining
from tests.kit.jobs import JobState, StatedAmount, StatedDemand
from tests.kit.kernel import ConnectFailedError, InvalidRequestError, StoreUnavailableError
from tests.kit.spiders import LinkNeeds
from tests.kit.worlds.bidding import GB, GOOD, KEY, SLOW, TERMS, URL, Fleet
from tests.kit.worlds.jobs import run
from tests.kit.worlds.memory import START


@pytest.fixture
def fleet():
    return Fleet()


def test_without_bidding_a_job_makes_tasks_at_once(fleet):
    fleet.bid(None)

    assert fleet.start().state is JobState.EXPANDING
    assert fleet.standing is None
    worker = fleet.worker("w1")
    fleet.look(worker)
    assert not worker.stays


def test_of_two_pools_the_quick_and_roomy_one_gets_the_job(fleet):
    fleet.learn(4 * GB)
    job = fleet.start(link=LinkNeeds(seconds_below=1.0))
    assert job.state is JobState.PLACING
    slow = fleet.worker("slow", way=SLOW)
    small = fleet.worker("small", memory=1 * GB)
    far = fleet.worker("far1", "far")
    fleet.look(slow)
    assert "2000 ms" in fleet.standing.why_not["main"].why
    fleet.look(small)
    assert "1.0 GB left, 4.0 GB" in fleet.standing.why_not["main"].why
    assert not slow.stays
    assert not small.stays
    fleet.look(far)
    assert far.stays

    assert fleet.pass_time(2).awarded == 1
    fleet.look(slow, small, far)

    placed = fleet.job()
    assert (placed.state, placed.pool, placed.worker) == (JobState.EXPANDING, "far", "far1")
    assert far.placed == 1
    assert fleet.standing is None
    assert not far.stays
    assert run(fleet.world).tasks == 1
    assert fleet.job().state is JobState.RUNNING


def test_what_runs_took_is_known_to_who_awards(fleet):
    """Without it the faster way would decide."""
    fleet.learn(0.1 * GB, bandwidth=1e5)
    fleet.start()
    wide = fleet.worker("wide", memory=1 * GB)
    roomy = fleet.worker("roomy", way=replace(GOOD, bytes_per_second=2e5))
    fleet.look(roomy, wide)

    assert fleet.pass_time(2).awarded == 1
    fleet.look(roomy, wide)

    assert fleet.job().worker == "roomy"


def test_a_job_states_its_demand_in_the_place_of_what_its_spiders_runs_took(fleet):
    fleet.learn(100 * GB)
    fleet.start(demand=StatedDemand(memory=StatedAmount(average=1 * GB, maximum=2 * GB)))
    small, roomy = fleet.worker("small", memory=1 * GB), fleet.worker("roomy", memory=3 * GB)

    fleet.look(small)
    assert "memory: 1.0 GB left, 2.0 GB wanted" in fleet.standing.why_not["main"].why
    fleet.look(roomy)
    assert fleet.pass_time(2).awarded == 1
    fleet.look(roomy)

    assert fleet.job().worker == "roomy"
    # What it has won is taken off what the worker bids with next.
    fleet.start("july", demand=StatedDemand(memory=StatedAmount(maximum=2 * GB)))
    fleet.look(roomy)
    [note] = fleet.world.board.read(("default", "docs", "july"))[0].why_not.values()
    assert "memory: 1.0 GB left, 2.0 GB wanted" in note.why


def test_a_resource_that_a_job_leaves_out_is_demanded_as_it_was_learnt(fleet):
    fleet.learn(4 * GB)
    fleet.start(demand=StatedDemand(cpu=StatedAmount(average=0.0)))
    small = fleet.worker("small", memory=1 * GB)

    fleet.look(small)

    assert "1.0 GB left, 4.0 GB wanted" in fleet.standing.why_not["main"].why


def test_the_first_run_of_a_spider_wants_what_it_states(fleet):
    fleet.start(demand=StatedDemand(memory=StatedAmount(maximum=2 * GB)))

    fleet.look(fleet.worker("small", memory=1 * GB))

    assert "1.0 GB left, 2.0 GB wanted" in fleet.standing.why_not["main"].why


def test_a_job_has_a_test_link_of_its_own_and_its_spiders_bounds_where_it_has_none(fleet):
    asked = "https://example.org/speed"
    job = fleet.start(link=LinkNeeds(seconds_below=1.0), own_link=LinkNeeds(test_url=asked))
    assert job.link == LinkNeeds(test_url=asked, seconds_below=1.0)

    fleet.look(fleet.worker("slow", way={asked: SLOW, URL: GOOD}))

    assert "2000 ms to the first byte, below 1000 ms" in fleet.standing.why_not["main"].why


def test_a_test_link_that_cannot_be_asked_is_refused_with_its_field(fleet):
    with pytest.raises(InvalidRequestError, match=r"link\.test_url"):
        fleet.start(own_link=LinkNeeds(test_url="ftp://example.org/"))


def test_a_job_too_large_for_all_is_lowered_seven_times_and_given_up(fleet):
    fleet.learn(100 * GB)
    fleet.start()
    lowered = []
    for _ in range(7):
        worker = fleet.worker("w1")
        fleet.look(worker)
        # Who has not looked at what it wants by now says nothing of it.
        done = fleet.pass_time(31)
        lowered.append(done.lowered)
        again = fleet.pass_time(31)
        assert (again.lowered, again.unplaced) == (0, 0)

    assert (lowered, done.unplaced) == ([1] * 6 + [0], 1)
    job = fleet.job()
    assert (job.state, job.lowered) == (JobState.UNPLACED, 6)
    assert "memory 100.0 GB" in job.trouble
    assert "main: at 53 %" in job.trouble
    assert "8.0 GB left" in job.trouble
    assert fleet.standing is None
    assert len(fleet.world.said) == 1
    assert [one.name for one in fleet.world.jobs.unplaced(START, 5)] == ["june"]


def test_a_job_is_lowered_until_it_fits(fleet):
    fleet.learn(10.5 * GB)
    fleet.start()
    worker = fleet.worker("w1")
    fleet.look(worker)
    assert fleet.pass_time(31).lowered == 1
    fleet.look(worker)
    assert fleet.pass_time(31).lowered == 1

    fleet.look(worker)

    assert fleet.standing.state is ListingState.APPLIED
    assert fleet.job().lowered == 2


def test_a_site_that_is_away_for_ten_minutes_ends_no_job_and_is_reported(fleet):
    fleet.start()
    away = ConnectFailedError("no route to the site")
    for _ in range(20):
        # What was seen of the host is another story: it would not be asked for a while.
        fleet.world.hosts = MemoryHosts(clock=fleet.world.clock)
        fleet.look(fleet.worker("w1", way=away))
        done = fleet.pass_time(31)
        assert (done.lowered, done.unplaced) == (0, 0)

    job = fleet.job()
    assert (job.state, job.lowered) == (JobState.PLACING, 0)
    assert "no route" in job.trouble
    fleet.world.hosts = MemoryHosts(clock=fleet.world.clock)
    fleet.look(fleet.worker("w1"))
    fleet.pass_time(2)
    fleet.look(fleet.worker("w1"))
    assert fleet.job().state is JobState.EXPANDING


def test_a_site_that_never_answers_has_its_job_given_up_with_the_reason(fleet):
    fleet.bid(replace(TERMS, patience_seconds=600))
    fleet.start()
    # How long the job has waited for anything else is no matter.
    fleet.pass_time(7_200)
    refused = Probe(at=START, fault="the site refuses us (403)")
    waits = 0
    while fleet.job().state is JobState.PLACING:
        fleet.look(fleet.worker("w1", way=refused))
        fleet.pass_time(31)
        waits += 1

    job = fleet.job()
    assert (job.state, job.lowered) == (JobState.UNPLACED, 0)
    assert 600 / 31 < waits < 40
    assert "its site gave" in job.trouble
    assert "(403)" in job.trouble
    assert fleet.standing is None


def test_a_job_is_not_lowered_while_workers_of_another_pool_have_not_come_to_look_at_it(fleet):
    fleet.pools("small")
    fleet.learn(4 * GB)
    fleet.start()
    fleet.pass_time(1)
    fleet.start("july")
    small = fleet.worker("s1", "small", memory=1 * GB)

    for _ in range(10):
        fleet.look(small)
        assert fleet.pass_time(31).lowered == 0

    assert {one.lowered for one in fleet.world.board.head("main", 5)} == {0}
    assert "small: at 100 %" in fleet.job().trouble
    fleet.look(small, fleet.worker("w1", memory=2 * GB))
    assert fleet.pass_time(31).lowered == 2


def test_workers_that_are_busy_cost_a_job_nothing_but_its_place(fleet):
    fleet.learn(4 * GB)
    worker = fleet.worker("w1")
    # It is at work, on what no job is of, when the first job comes.
    fleet.readings["w1"].left = Remaining(memory=2 * GB)
    fleet.start()

    for _ in range(20):
        fleet.look(worker)
        done = fleet.pass_time(31)
        assert (done.lowered, done.unplaced) == (0, 0)

    assert fleet.standing.why_not["main"].kind is WhyNot.BUSY
    assert "main: at 100 %" in fleet.job().trouble
    assert "busy now: memory: 2.0 GB" in fleet.job().trouble
    fleet.readings["w1"].left = Remaining(memory=8 * GB)
    fleet.pass_time(10)
    fleet.look(worker)
    fleet.pass_time(2)
    fleet.look(worker)
    assert fleet.job().state is JobState.EXPANDING


def test_a_worker_that_lacks_what_a_busy_one_of_its_pool_has_costs_a_job_nothing(fleet):
    fleet.learn(4 * GB)
    busy, small = fleet.worker("w1"), fleet.worker("w2", memory=2 * GB)
    fleet.readings["w1"].left = Remaining(memory=2 * GB)
    fleet.start()

    for _ in range(20):
        fleet.look(busy, small)
        done = fleet.pass_time(31)
        assert (done.lowered, done.unplaced) == (0, 0)

    assert fleet.standing.why_not["main"].kind is WhyNot.BUSY
    for _ in range(2):
        fleet.pass_time(31)
        fleet.look(small)
    assert fleet.pass_time(31).lowered == 1


def test_what_could_be_moved_is_no_lack_while_nothing_else_is_moved(fleet):
    fleet.learn(1 * GB, bandwidth=1e9)
    worker = fleet.worker("w1")
    fleet.readings["w1"].left = Remaining(memory=8 * GB, bandwidth=1e3)
    fleet.start()
    for _ in range(20):
        fleet.look(worker)
        done = fleet.pass_time(31)
        assert (done.lowered, done.unplaced) == (0, 0)
    assert "busy now: bandwidth" in fleet.job().trouble

    fleet.readings["w1"].left = Remaining(memory=8 * GB)
    fleet.pass_time(10)
    fleet.look(worker)

    assert fleet.standing.state is ListingState.APPLIED


def test_an_award_does_without_what_runs_have_taken_where_nobody_can_say(fleet):
    class Away:
        def __getattr__(self, name):
            raise StoreUnavailableError("main", "no answer")

    fleet.start()
    fleet.look(fleet.worker("w1"), fleet.worker("w2"))

    assert fleet.pass_time(2, demands=Away()).awarded == 1


def test_what_is_pinned_to_a_pool_waits_for_nobody_the_usual_one_too(fleet):
    job = fleet.start(pool="main")

    assert (job.state, job.pool) == (JobState.EXPANDING, None)
    assert fleet.standing is None


def test_a_job_that_nobody_has_looked_at_is_not_lowered(fleet):
    fleet.start()

    assert fleet.pass_time(31).lowered == 0
    assert "no worker" in fleet.job().trouble


def test_a_job_that_cannot_be_judged_keeps_nobody_and_is_judged_without_its_site(fleet):
    other = "https://other.example/1"
    world = fleet.world
    refused = {"on": True}

    class Hosts:
        def __getattr__(self, name):
            if refused["on"]:
                raise StoreUnavailableError("redis", "no answer")
            return getattr(world.hosts, name)

    fleet.start()
    prober = world.bidder({URL: GOOD, other: GOOD}).keywords["prober"]

    worker = fleet.worker("w1", prober=dataclasses.replace(prober, hosts=Hosts()))
    fleet.look(worker)
    fleet.look(worker)
    assert fleet.standing.why_not["main"].kind is WhyNot.UNJUDGED
    assert worker.stays
    assert fleet.pass_time(31).lowered == 0
    refused["on"] = True

    fleet.look(worker)
    fleet.look(worker)

    assert fleet.standing.state is ListingState.APPLIED
    [bid] = world.board.read(KEY)[1]
    assert b"not judged" in bid.document
